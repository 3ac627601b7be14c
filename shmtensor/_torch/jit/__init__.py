"""TorchScript's interface: marks are accepted, and functions run as they are.

`script` returns functions as they are, so code that scripts them for speed computes the same. Of a
module it makes one that computes the same and raises what scripts raise. It refuses what scripts
have no meaning for. `trace` keeps what happens to examples, by `fx`, and
calls modules that were given to `script` as they are. Files of scripts are not written and not
read.

Source:
    torch.jit.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable
from importlib import import_module
from types import FunctionType, MethodType, TracebackType
from typing import Any, TypeVar
from typing import Final as Final

from shmtensor._core._not_offered import not_offered, unavailable_class, unavailable_names
from shmtensor._core._own_code import is_own_code
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
    is_ignored_fn,
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
from shmtensor.futures import Future as Future
from shmtensor.nn import Module

from . import _scripts as _scripts
from . import _state as _state
from . import _trace as _trace
from . import frontend as frontend
from ._scripts import RecursiveScriptModule as RecursiveScriptModule
from ._scripts import ScriptModule as ScriptModule
from ._trace import Error as Error
from ._trace import ScriptFunction as ScriptFunction
from ._trace import TracerWarning as TracerWarning

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
    "TracerWarning",
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


# --- what would be made --------------------------------------------------------------------------


class TracedModule(ScriptModule):
    """What `trace` makes of modules, as a base of classes."""


class TopLevelTracedModule(TracedModule):
    """What `trace` makes of a module: its parameters, buffers and submodules, and the trace.

    Args:
        root: The module that was traced.
        graph: The trace.
        names: The arguments.
    """

    def __init__(self, root: Module, graph: Any, names: list[str]) -> None:
        super().__init__()
        for registry in ("_parameters", "_buffers", "_modules"):
            self.__dict__[registry] = dict(root.__dict__[registry])
        self._non_persistent_buffers_set = set(root._non_persistent_buffers_set)
        self.training = root.training
        self.original_name = type(root).__name__
        self._names = names
        for node in graph.nodes:  # constants of the trace are plain attributes
            if node.op == "get_attr" and node.target in vars(root):
                self.__dict__[node.target] = vars(root)[node.target]
        _trace._keep_specs(self, graph)
        _trace.mark_script(self)
        self.__dict__["graph"] = graph
        self._traced, self.code = _trace._function_from(graph)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Do what the traced module did; errors as of `ScriptFunction`."""
        given = _trace._bound("forward", self._names, args, kwargs)
        return _trace.run("trace", self._traced, self, *given)

    def extra_repr(self) -> str:
        """Name the class of the traced module."""
        return f"original_name={self.original_name}"


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
    """Return a function, class, list or dict as it is; of a module, a `ScriptModule`.

    The script of a module shares its parameters and all other attributes (Note [Faces of modules]
    in ``_scripts.py``). What its ``forward`` raises is a RuntimeError.

    Args:
        obj: What to script.
        optimize: Accepted.
        example_inputs: Accepted.

    The ``forward`` of a module and of each below it counts as a function, unless the module has
    been scripted or traced already.

    Raises:
        TypeError: It is something else.
        NotSupportedError: A function takes any number of arguments.
        UnsupportedNodeError: A function has what scripts lack: ``try``, ``yield``, functions in it.
        RuntimeError: It is a lambda or coroutine, or a function uses what ``super()`` has.
        OSError: The source of a function is not to be found.
    """
    if builtins.isinstance(obj, Module):
        _check_module(obj)
        _trace.mark_script(obj)
        return _scripts.scripted(obj)  # type: ignore[return-value]
    elif builtins.isinstance(obj, (FunctionType, MethodType)):
        function = inspect.unwrap(getattr(obj, "__func__", obj))
        if not is_ignored_fn(function):
            frontend.check_function(function)
    elif not builtins.isinstance(obj, (type, list, dict, ScriptFunction)):
        raise TypeError(f"{type(obj)} is a built-in class")
    return obj


def _check_module(module: Module) -> None:
    """Raise if a script cannot be made of a module, or of one below it."""
    if builtins.isinstance(module, ScriptModule) or _trace.is_script(module):
        return
    for child in module.children():
        _check_module(child)
    forward = getattr(type(module), "forward", None)
    if not builtins.isinstance(forward, FunctionType) or is_own_code(forward.__globals__):
        return
    if not is_ignored_fn(forward):
        frontend.check_function(forward)


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
    """Call a function or module with examples, and return what it did to them as one.

    Numbers that the program takes out of tensors, and the branches that depend on them, stay those
    of the examples; a `TracerWarning` says so. Sizes are those of the arguments.

    Args:
        func: It. For a module, the result has its parameters, buffers and submodules.
        example_inputs: The arguments of the call, a tuple or one tensor: tensors, or lists, tuples
            and dicts of such.
        optimize: Accepted.
        check_trace: Compare the result with *func* for the examples; a difference is warned of.
        check_inputs: Accepted.
        check_tolerance: What counts as equal.
        strict: Refuse to return dicts, and warn of lists.
        example_kwarg_inputs: Arguments by name instead.
        **options: Accepted.

    Raises:
        RuntimeError: Both kinds of arguments are given, or none; or an argument or result is no
            tensor.
    """
    if (example_inputs is None) == (example_kwarg_inputs is None):
        raise RuntimeError("example_kwarg_inputs or example_inputs should be given, and not both")
    tolerance = check_tolerance if check_trace else None
    rest = (example_inputs, example_kwarg_inputs, strict, tolerance)
    if builtins.isinstance(func, Module):
        return _trace.traced_module(func, TopLevelTracedModule, *rest)
    return _trace.traced_function(func, *rest)


def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Module:
    """Trace the ``forward`` of a module.

    Args:
        mod: It.
        inputs: The arguments by the method's name.
        *args: Those of `trace` after the examples.
        **options: Those of `trace`.

    Raises:
        NotImplementedError: Another method is to be traced.
    """
    if inputs.keys() != {"forward"}:
        raise not_offered(f"trace_module() traces forward only, got {', '.join(inputs)}")
    result: Module = trace(mod, inputs["forward"], *args, **options)
    return result


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
