"""Tools around tensors: data loading, DLPack, hooks, modes, recomputation, safetensors files."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_SUBMODULES = (
    "_python_dispatch",
    "_pytree",
    "benchmark",
    "checkpoint",
    "collect_env",
    "cpp_extension",
    "data",
    "dlpack",
    "flop_counter",
    "hooks",
    "model_zoo",
    "module_tracker",
    "safetensors",
    "weak",
)


def set_module(obj: Any, mod: str) -> None:
    """Let *obj* name *mod* as its module.

    Args:
        obj: A function or a class.
        mod: The module's name.

    Raises:
        TypeError: *mod* is no text.
    """
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:  # each is loaded when it is first asked for
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_SUBMODULES})
