"""TorchScript, which is not here: marks are accepted, and functions run as they are.

`script` returns what it is given, and `trace` too, after one call. So code that scripts its
functions for speed computes the same. Files of scripts are not written and not read.

Source:
    torch.jit.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Any, TypeVar
from typing import Final as Final

from shmtensor._core._not_offered import unavailable_class, unavailable_names
from shmtensor._torch._jit_internal import (
    _isinstance as isinstance,
)
from shmtensor._torch._jit_internal import (
    _overload as _overload,
)
from shmtensor._torch._jit_internal import (
    _overload_method as _overload_method,
)
from shmtensor._torch._jit_internal import (
    export as export,
)
from shmtensor._torch._jit_internal import (
    ignore as ignore,
)
from shmtensor._torch._jit_internal import (
    is_scripting as is_scripting,
)
from shmtensor._torch._jit_internal import (
    is_tracing as is_tracing,
)
from shmtensor._torch._jit_internal import (
    unused as unused,
)
from shmtensor.errors import ShmTensorError
from shmtensor.futures import Future as Future
from shmtensor.nn import Module

from . import _state as _state

_WHAT = "there is no TorchScript here; save() keeps a state_dict"
_REFUSED = "load jit_module_from_flatbuffer save save_jit_module_to_flatbuffer".split()

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "script",
    "script_if_tracing",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
    *_REFUSED,
]

# An import statement would find the name of the __future__ statement above.
annotations: Any = import_module(f"{__name__}.annotations")  # type: ignore[no-redef]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)


class Error(ShmTensorError, RuntimeError):
    """A script has raised. Nothing raises it here."""


# --- what would be made --------------------------------------------------------------------------


class ScriptModule(Module):
    """A module that was scripted; here a plain one, as a base of old-style classes."""


class RecursiveScriptModule(ScriptModule):
    """What `script` makes of a module in torch. Here it makes none."""


class TracedModule(ScriptModule):
    """What `trace` makes of a module in torch. Here it makes none."""


ScriptFunction: Any = unavailable_class("ScriptFunction", __name__, _WHAT)
CompilationUnit: Any = unavailable_class("CompilationUnit", __name__, _WHAT)


class Attribute:
    """A value with the type that a script would have it with.

    Args:
        value: Anything.
        type: Its type.
    """

    def __init__(self, value: Any, type: Any) -> None:
        self.value = value
        self.type = type


# --- scripts and traces --------------------------------------------------------------------------


T = TypeVar("T")


def script(
    obj: T,
    optimize: None = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> T:
    """Return what is given, a function, a module or a class: it runs as it is.

    Args:
        obj: It.
        optimize: Accepted.
        example_inputs: Accepted.
    """
    return obj


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method that is given."""
    return fn


def script_if_tracing(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that is given."""
    return fn


_script_if_tracing = script_if_tracing


def trace(
    func: Callable[..., Any],
    example_inputs: Any = None,
    optimize: None = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    example_kwarg_inputs: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Call a function or module once, and return it: it runs as it is, whatever it is given.

    Args:
        func: It.
        example_inputs: The arguments of the call, a tuple or one tensor.
        optimize: Accepted.
        check_trace: Accepted.
        check_inputs: Accepted.
        check_tolerance: Accepted.
        strict: Accepted.
        example_kwarg_inputs: Arguments by name instead.
        **options: Accepted.

    Raises:
        RuntimeError: Both kinds of arguments are given, or none.
    """
    if (example_inputs is None) == (example_kwarg_inputs is None):
        raise RuntimeError("example_kwarg_inputs or example_inputs should be given, and not both")
    if example_kwarg_inputs is not None:
        func(**example_kwarg_inputs)
    elif type(example_inputs) in (tuple, list):
        func(*example_inputs)
    else:
        func(example_inputs)
    return func


def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Module:
    """Call some methods of a module once, and return it.

    Args:
        mod: It.
        inputs: The arguments by the method's name.
        *args: Accepted.
        **options: Accepted.
    """
    for name, given in inputs.items():
        getattr(mod, name)(*(given if type(given) in (tuple, list) else (given,)))
    return mod


def freeze(
    mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True
) -> Any:
    """Return the module that is given.

    Raises:
        RuntimeError: It is in training mode.
    """
    if mod.training:
        raise RuntimeError("Freezing is only for modules in eval mode. Please call .eval() first.")
    return mod


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """Return the module that is given."""
    return mod


def run_frozen_optimizations(mod: Any, *args: Any, **options: Any) -> None:
    """Make a module faster: nothing is done."""


def export_opnames(m: Any) -> list[str]:
    """Return the operators of a script: none."""
    return []


def interface(obj: Any) -> Any:
    """Return the class that is given."""
    return obj


def annotate(the_type: Any, the_value: Any) -> Any:
    """Return the value; the type is for the compiler."""
    return the_value


# --- calls side by side --------------------------------------------------------------------------


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """Call a function at once, and return its result as a future."""
    future: Future[Any] = Future()
    try:
        future.set_result(func(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


def wait(future: Future[Any]) -> Any:
    """Return the result of a future."""
    return future.wait()


# --- settings ------------------------------------------------------------------------------------


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Accept how operators would be fused; returns it."""
    return strategy


def enable_onednn_fusion(enabled: bool) -> None:
    """Accept whether operators would be fused."""


def onednn_fusion_enabled() -> bool:
    """Return whether operators are fused: False."""
    return False


class strict_fusion:
    """A context in which operators would have to be fused."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


class optimized_execution:
    """A context in which scripts would be made faster, or not.

    Args:
        should_optimize: Accepted.
    """

    def __init__(self, should_optimize: bool) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
