"""What single modes or classes do with single operators, told from outside of both."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from shmtensor._core._ops import OpOverload
from shmtensor._core._tensor import Tensor
from shmtensor.library._custom_ops import CustomOpDef, _find, _library_of
from shmtensor.library._registrations import Library

__all__ = ["register_torch_dispatch"]

_rules: dict[tuple[OpOverload, type], Callable[..., Any]] = {}


class _Rule:
    """A registration; ends with its library."""

    def __init__(self, key: tuple[OpOverload, type], function: Callable[..., Any]) -> None:
        self._key = key
        self._function = function
        _rules[key] = function

    def __del__(self) -> None:
        if _rules.get(self._key) is self._function:  # no later one took its place
            del _rules[self._key]


def _look_rules_up(kind: type) -> None:
    """Let a class of modes or of tensors ask the rules before its own ``__torch_dispatch__``."""
    is_tensor = issubclass(kind, Tensor)
    own: Any = kind.__torch_dispatch__  # type: ignore[attr-defined]
    own = own.__func__ if is_tensor else own
    if hasattr(own, "_asks_rules"):
        return

    @functools.wraps(own)
    def dispatch(self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        rule = _rules.get((func, self if is_tensor else type(self)))
        if rule is None:
            return own(self, func, types, args, kwargs)
        return rule(self, func, types, args, kwargs or {})

    dispatch._asks_rules = True  # type: ignore[attr-defined]
    kind.__torch_dispatch__ = classmethod(dispatch) if is_tensor else dispatch  # type: ignore[attr-defined]


def register_torch_dispatch(
    op: str | OpOverload | CustomOpDef,
    torch_dispatch_class: type,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Say what a dispatch mode, or a subclass of Tensor, does with one operator.

    Args:
        op: The operator or its name.
        torch_dispatch_class: A subclass of `TorchDispatchMode`, or one of Tensor whose
            ``__torch_dispatch__`` is a class method; the rule is not for its subclasses.
        func: Is called as ``func(mode or class, op, types, args, kwargs)`` instead of
            ``__torch_dispatch__``; without it this is a decorator.
        lib: Holds the registration; without it, it stays.

    Raises:
        TypeError: The class is neither.

    Source:
        torch.library.register_torch_dispatch.
    """
    answer = getattr(torch_dispatch_class, "__torch_dispatch__", None)
    if answer is None or answer is Tensor.__torch_dispatch__:
        raise TypeError(
            f"{torch_dispatch_class} is neither a subclass of TorchDispatchMode, nor one of Tensor "
            "with a __torch_dispatch__"
        )
    _, overload = _find(op)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        rule = _Rule((overload, torch_dispatch_class), function)
        _look_rules_up(torch_dispatch_class)
        _library_of(overload, lib)._registrations.append(rule)
        return function

    return register if func is None else register(func)
