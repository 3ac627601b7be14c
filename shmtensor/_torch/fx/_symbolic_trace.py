"""Tracing, which is not here, and the marks that it would read.

Source:
    torch.fx._symbolic_trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from shmtensor._core._not_offered import not_offered, unavailable_names

from ._what import WHAT
from .proxy import TracerBase

_REFUSED = ("symbolic_trace",)

__all__ = ["Tracer", "is_fx_symbolic_tracing", "is_fx_tracing", *_REFUSED, "wrap"]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, WHAT)


def is_fx_tracing() -> bool:
    """Return whether a program is being traced: False."""
    return False


def is_fx_symbolic_tracing() -> bool:
    """Return whether a program is being traced: False."""
    return False


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Mark a function as one that a trace does not look into; returns what is given.

    Args:
        fn_or_name: A function, or the name of one in the calling module.

    Raises:
        RuntimeError: It is neither.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    return fn_or_name


class Tracer(TracerBase):
    """What would trace a module, as a base of classes.

    Args:
        autowrap_modules: Accepted.
        autowrap_functions: Accepted.
        param_shapes_constant: Accepted.
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self.param_shapes_constant = param_shapes_constant

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> NoReturn:
        """Raise NotImplementedError: nothing is traced."""
        raise not_offered(f"Tracer.trace(): {WHAT}")

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Return whether a trace would not look into a module: those of ``nn``."""
        name = m.__module__
        return name.startswith(("shmtensor.nn", "torch.nn")) and type(m).__name__ != "Sequential"
