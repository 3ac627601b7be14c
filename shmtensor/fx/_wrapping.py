"""Functions that a trace records by name, and how they are replaced while one runs.

Source:
    torch.fx.wrap.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any

from shmtensor.utils._pytree import tree_leaves

from .proxy import Proxy

__all__ = ["Patcher", "patch_wrapped", "recorded_function", "wrap"]

#: (globals, name) of the functions that `wrap` was told; globals by their identity.
_wrapped_functions: dict[tuple[int, str], dict[str, Any]] = {}
#: (class, name) of methods.
_wrapped_methods: list[tuple[type, str]] = []

_ABSENT = object()


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Let traces record the calls of a function that the calling module has, and not run it.

    Call it at the top level of a module, with a name or as a decorator::

        wrap("len")

        @wrap
        def chosen(x, y): ...

    Args:
        fn_or_name: A function, or the name of one in the calling module.

    Returns:
        What is given.

    Raises:
        RuntimeError: It is neither.
        NotImplementedError: It is called inside a function.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    here = inspect.currentframe()
    frame = here.f_back if here is not None else None
    if frame is None or frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_functions[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name


def wrap_method(cls: type, name: str) -> None:
    """Let traces record the calls of a method with proxies."""
    _wrapped_methods.append((cls, name))


def _proxy_among(args: Any, kwargs: Any) -> Proxy | None:
    return next((leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Proxy)), None)


def recorded_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that records a call with proxies, and calls *function* for others."""

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_among(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return record


def _recorded_method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(method)
    def record(*args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_among(args, kwargs)
        if proxy is None:
            return method(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return record


class Patcher:
    """A context in which names in globals and classes stand for something else."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []
        self._places: set[tuple[int, str]] = set()
        self._checked: set[int] = set()

    def patch(self, names: dict[str, Any], name: str, value: Any) -> None:
        """Replace a name in globals, once."""
        if (id(names), name) in self._places:
            return
        self._places.add((id(names), name))
        before = names.get(name, _ABSENT)
        if before is _ABSENT:
            self._undo.append(lambda: names.pop(name, None))
        else:
            self._undo.append(lambda: names.__setitem__(name, before))
        names[name] = value

    def patch_method(self, cls: type, name: str, value: Any) -> None:
        """Replace a method of a class, once."""
        if (id(cls), name) in self._places:
            return
        self._places.add((id(cls), name))
        before = vars(cls).get(name, _ABSENT)
        if before is _ABSENT:
            self._undo.append(lambda: delattr(cls, name))
        else:
            self._undo.append(lambda: setattr(cls, name, before))
        setattr(cls, name, value)

    def record_functions_of(self, names: dict[str, Any], functions: set[int]) -> None:
        """Record the calls of functions, given by their identity, wherever globals have them."""
        if not functions or id(names) in self._checked:
            return
        self._checked.add(id(names))
        for name, value in [*names.items()]:
            if not name.startswith("_") and callable(value) and id(value) in functions:
                self.patch(names, name, recorded_function(value))

    def __enter__(self) -> Patcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._undo:
            self._undo.pop()()
        self._places.clear()
        self._checked.clear()


def patch_wrapped(patcher: Patcher) -> None:
    """Replace all that `wrap` was told."""
    for (_, name), names in [*_wrapped_functions.items()]:
        function = names.get(name, getattr(builtins, name, None))
        if function is not None:
            patcher.patch(names, name, recorded_function(function))
    for cls, name in _wrapped_methods:
        patcher.patch_method(cls, name, _recorded_method(getattr(cls, name), name))
