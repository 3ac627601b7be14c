"""Classes that C++ libraries register; there are none here.

Source:
    torch.classes.
"""

from __future__ import annotations

from typing import Any, NoReturn

from shmtensor._core._ops import ops

__all__ = ["load_library", "loaded_libraries"]

load_library = ops.load_library
loaded_libraries = ops.loaded_libraries


class _Namespace:
    """The classes of one library."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"module 'torch.classes.{self._name}' has no attribute {name!r}")
        raise RuntimeError(
            f"Tried to instantiate class '{self._name}.{name}', but it does not exist! Ensure that "
            "it is registered via torch::class_"
        )


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _Namespace(name)
