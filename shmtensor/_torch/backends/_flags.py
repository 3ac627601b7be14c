"""Settings of libraries as attributes of modules, with contexts that change them for a block.

The libraries are not here, or have no such settings, so that a flag keeps its value for who asks
and changes no result.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

__all__ = ["Flag", "FlagModule", "Precision", "PrecisionFlag", "disable_global_flags"]
__all__ += ["changed", "flags_frozen", "swapped", "use_flags"]

_PRECISIONS = ("none", "ieee", "tf32", "bf16")


class _State:
    frozen = False
    inside = 0  # contexts of flags() under way


def flags_frozen() -> bool:
    """Return whether flags may only be changed by contexts now."""
    return _State.frozen and not _State.inside


def disable_global_flags() -> None:
    """Let flags be changed by the ``flags()`` contexts only, for the rest of the process."""
    _State.frozen = True


class Flag:
    """An attribute of a module that keeps a setting.

    Args:
        default: Its value at first.
        setter: What errors call the function that sets it; then only bools are taken. Empty: any
            value is.
    """

    def __init__(self, default: Any, setter: str = "") -> None:
        self.value = default
        self._setter = setter
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self.value

    def check(self, value: Any) -> None:
        """Raise unless it is a setting.

        Raises:
            RuntimeError: No bool, where it must be one.
        """
        if self._setter and not isinstance(value, bool):
            raise RuntimeError(f"{self._setter} expects a bool, but got {type(value).__name__}")

    def __set__(self, instance: Any, value: Any) -> None:
        if flags_frozen():
            raise RuntimeError(
                f"not allowed to set {getattr(instance, '__name__', instance)}.{self.name} after "
                "disable_global_flags; please use flags() context manager instead"
            )
        self.check(value)
        self.value = value


class PrecisionFlag(Flag):
    """How precisely float32 is calculated; here that is always its own precision.

    Args:
        default: Its value at first.
        backend: ``"cuda"``, which has no bfloat16 for this, or anything else.
    """

    def __init__(self, default: str = "none", backend: str = "generic") -> None:
        super().__init__(default)
        self._backend = backend

    def check(self, value: Any) -> None:
        """Raise unless it is a precision of the backend.

        Raises:
            RuntimeError: It is not.
        """
        if value not in _PRECISIONS:
            raise RuntimeError(f"Unknown precision: {value}")
        if self._backend == "cuda" and value == "bf16":
            raise RuntimeError(f"backend 'cuda' does not support precision '{value}'")


class Precision:
    """The precision of one kind of operators, as an object with one attribute.

    Args:
        default: Its value at first.
        backend: As for `PrecisionFlag`.
    """

    def __init__(self, default: str = "none", backend: str = "generic") -> None:
        self._flag = PrecisionFlag(default, backend)
        self._flag.name = "fp32_precision"

    @property
    def fp32_precision(self) -> str:
        """``"none"`` (as the backend), ``"ieee"``, ``"tf32"`` or ``"bf16"``."""
        return str(self._flag.value)

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        self._flag.__set__(self, value)


class FlagModule(ModuleType):
    """The class of a module whose settings are `Flag`s of a subclass."""


def use_flags(name: str, kind: type[FlagModule]) -> Any:
    """Make the module called *name* one with the flags of *kind*; returns it."""
    module: Any = sys.modules[name]
    module.__class__ = kind
    return module


def changed(module: Any, **values: Any) -> tuple[Any, ...]:
    """Give flags of a module these values; None leaves one as it is. Returns all as they were."""
    before = tuple(getattr(module, name) for name in values)
    for name, value in values.items():
        if value is not None:
            setattr(module, name, value)
    return before


@contextlib.contextmanager
def swapped(module: Any, **values: Any) -> Iterator[None]:
    """Give flags of a module these values for a block.

    Args:
        module: It, or its name.
        **values: By flag. None leaves it as it is.
    """
    if isinstance(module, str):
        module = sys.modules[module]
    values = {name: value for name, value in values.items() if value is not None}
    before = {name: getattr(module, name) for name in values}

    def put(new: dict[str, Any]) -> None:
        _State.inside += 1
        try:
            for name, value in new.items():
                setattr(module, name, value)
        finally:
            _State.inside -= 1

    put(values)
    try:
        yield
    finally:
        put(before)
