"""Traces of functions and modules along examples.

A trace keeps what happens to tensors. Numbers that the program takes out of them stay those of the
examples, and `TracerWarning` says so; sizes follow the arguments. Modules of `nn` are called as
they are, so that they know about training and evaluation.

Source:
    torch.jit.trace.
"""

from __future__ import annotations

import copy
import inspect
import itertools
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import shmtensor
from shmtensor._core._own_code import is_own_code
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor._torch._jit_internal import tracing
from shmtensor.errors import ShmTensorError
from shmtensor.fx import _execution
from shmtensor.fx._examples import ExampleProxy, ExampleTracer, copy_of, function_of
from shmtensor.fx.graph import Graph, _PyTreeCodeGen
from shmtensor.nn import Module, Parameter
from shmtensor.random import fork_rng
from shmtensor.utils import _pytree as pytree

__all__ = [
    "Error",
    "TracerWarning",
    "is_script",
    "mark_script",
    "run",
    "traced_function",
    "traced_module",
]


class Error(ShmTensorError, RuntimeError):
    """A trace or script has raised something else than a RuntimeError, the cause of this one."""


class TracerWarning(Warning):
    """A trace may not say what the program does for other arguments."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Show those of the package itself no more: it gives none."""


class _JitTracer(ExampleTracer):
    """Takes values out of proxies for those of the examples, with a warning."""

    def take_constant(self, proxy: ExampleProxy, kind: str) -> None:
        """Warn, unless the package itself takes the value, as its checks of arguments do."""
        if _is_taken_by_package():
            return
        if kind == "loop":
            text = (
                "Iterating over a tensor might cause the trace to be incorrect: the number of "
                "iterations stays that of the example"
            )
        elif kind == "length":
            text = (
                "Using len to get tensor shape might cause the trace to be incorrect. Use "
                "tensor.shape[0], which follows the argument"
            )
        else:
            name = kind if kind == "NumPy array" else f"Python {kind}"
            text = (
                f"Converting a tensor to a {name} might cause the trace to be incorrect. "
                "The value is a constant from now on, and the trace might not generalize to other "
                "inputs!"
            )
        warnings.warn(text, TracerWarning, stacklevel=_levels_to_program())

    def take_random(self, method: str) -> None:
        """Warn."""
        text = (
            f"Filling a tensor with random numbers ({method}) might cause the trace to be "
            "incorrect: they are constants from now on"
        )
        warnings.warn(text, TracerWarning, stacklevel=_levels_to_program())

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether the call of a module is a single step: also that of a script."""
        return is_script(m) or super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: Module, forward: Any, args: Any, kwargs: Any) -> Any:
        """Record the call of a module, or go into it, as into each that the root does not have."""
        if (
            m is not self.root
            and self.submodule_paths is not None
            and m not in self.submodule_paths
        ):
            return forward(*args, **kwargs)
        return super().call_module(m, forward, args, kwargs)

    def create_arg(self, a: Any) -> Any:
        """Return what stands for a value in the arguments of a node.

        Raises:
            RuntimeError: It requires grad, and the root does not have it.
        """
        is_tensor = type(a) is not ExampleProxy and isinstance(a, shmtensor.Tensor)
        if is_tensor and not self._is_of_root(a):
            if a.requires_grad:
                raise RuntimeError(
                    "Cannot insert a Tensor that requires grad as a constant. Consider making it "
                    f"a parameter or input, or detaching the gradient\nTensor:\n{a}"
                )
            if isinstance(a, Parameter):
                a = a.detach()
        return super().create_arg(a)

    def _is_of_root(self, tensor: shmtensor.Tensor) -> bool:
        named = (self.root.named_parameters(), self.root.named_buffers())
        return any(each is tensor for _, each in itertools.chain(*named))


def mark_script(module: Module) -> None:
    """Let traces call a module as it is: it may branch on what its arguments are."""
    for each in module.modules():
        each.__dict__["_is_script"] = True  # copies keep it


def is_script(module: Module) -> bool:
    """Return whether a module was marked."""
    return "_is_script" in module.__dict__


#: Packages whose frames stand between a program and what its use of a proxy does.
_TRACING = ("shmtensor.fx", __name__.rpartition(".")[0])


def _is_of_tracing(frame: FrameType) -> bool:
    return any(is_own_code(frame.f_globals, package) for package in _TRACING)


def _is_taken_by_package() -> bool:
    """Whether code of the package uses a proxy: the first that is not of proxies and traces."""
    frame = inspect.currentframe()
    while frame is not None and _is_of_tracing(frame):
        frame = frame.f_back
    return frame is not None and is_own_code(frame.f_globals)


def _levels_to_program() -> int:
    """How far up the program's own code is."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and is_own_code(frame.f_globals):
        level, frame = level + 1, frame.f_back
    return max(level - 1, 1)


def _type_of(value: Any) -> str:
    """A value's type as TorchScript calls it."""
    if isinstance(value, tuple):
        return f"Tuple[{', '.join(map(_type_of, value))}]"
    if isinstance(value, list):
        return f"List[{_type_of(value[0]) if value else 'Tensor'}]"
    if isinstance(value, dict):
        inner = [*value.items()][:1]
        return f"Dict[{', '.join(_type_of(each) for each in (inner[0] if inner else ()))}]"
    return "Tensor" if isinstance(value, shmtensor.Tensor) else type(value).__name__


def _arguments(
    call: Any, example_inputs: Any, by_name: dict[str, Any] | None
) -> tuple[Any, dict[str, Any]]:
    """A function of just the examples' arguments, and copies of them by name."""
    if by_name is not None:
        given = dict(by_name)
    else:
        values = [*example_inputs] if type(example_inputs) in (tuple, list) else [example_inputs]
        given = dict(zip(_names(call, len(values)), values, strict=True))
    leaves = pytree.tree_leaves(given)
    if not all(isinstance(leaf, shmtensor.Tensor) for leaf in leaves):
        raise RuntimeError(
            f"Type '{_type_of(tuple(given.values()))}' cannot be traced. Only Tensors and "
            "(possibly nested) Lists, Dicts, and Tuples of Tensors can be traced"
        )
    target = call.__call__ if isinstance(call, Module) else call
    function = function_of(target, [*given], by_name is not None)
    return function, _copied(given)


def _copied(given: Any) -> Any:
    """Arguments that the program may change."""
    return pytree.tree_map(copy_of, given)


def _names(call: Any, count: int) -> list[str]:
    """What the first arguments of a function are called."""
    target = call.forward if isinstance(call, Module) else call
    try:
        known = [
            parameter.name
            for parameter in inspect.signature(target).parameters.values()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):  # built-in functions need not say
        known = []
    return (known + [f"argument_{i + 1}" for i in range(len(known), count)])[:count]


def _check_result(result: Any, strict: bool) -> None:
    """Raise RuntimeError for what a trace cannot return."""
    if result is None:
        raise RuntimeError(
            "The traced function didn't return any values! Side-effects are not captured in "
            "traces, so it would be a no-op."
        )
    leaves = pytree.tree_leaves(result)
    if not all(type(leaf) is ExampleProxy or isinstance(leaf, shmtensor.Tensor) for leaf in leaves):
        raise RuntimeError(
            "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from "
            "traced functions"
        )
    kinds = {kind for kind in (list, dict) if _has(result, kind)}
    if strict and dict in kinds:
        raise RuntimeError(
            "Encountering a dict at the output of the tracer might cause the trace to be "
            "incorrect, this is only valid if the container structure does not change based on "
            "the module's inputs. Consider using a NamedTuple instead, or pass strict=False"
        )
    if strict and list in kinds:
        warnings.warn(
            "Encountering a list at the output of the tracer might cause the trace to be "
            "incorrect, this is only valid if the container structure does not change based on "
            "the module's inputs",
            TracerWarning,
            stacklevel=_levels_to_program(),
        )


def _has(value: Any, kind: type) -> bool:
    if type(value) is ExampleProxy:
        return False
    if isinstance(value, kind):
        return True
    items = value.values() if isinstance(value, dict) else value
    return isinstance(value, list | tuple | dict) and any(_has(each, kind) for each in items)


def _traced(root: Module, call: Any, given: dict[str, Any], strict: bool) -> Graph:
    """The graph of a call."""

    def checked(*args: Any) -> Any:
        result = call(*args)
        _check_result(result, strict)
        return result

    function = function_of(checked, [*given], by_name=False)
    tracer = _JitTracer(pytree.tree_leaves([*given.values()]), follow_sizes=True)
    with tracing():
        return tracer.trace_call(root, function, given)


def _function_from(graph: Graph) -> tuple[Any, str]:
    code = graph.python_code("self")
    return _execution.function_from("forward", code.src, code.globals, graph._co_fields), code.src


def _compare(call: Any, function: Any, given: dict[str, Any], tolerance: float) -> None:
    """Warn if the trace does not give for the examples what the program gives."""
    with fork_rng(devices=()):
        expected = pytree.tree_leaves(function(*_copied(given).values()))
        found = pytree.tree_leaves(call(*_copied(given).values()))
    for i, (left, right) in enumerate(zip(found, expected, strict=False)):
        is_same = _is_close(left, right, tolerance)
        if not is_same:
            warnings.warn(
                f"Output nr {i + 1}. of the traced function does not match the corresponding "
                "output of the Python function. Is it random, or does it depend on whether it is "
                "traced?",
                TracerWarning,
                stacklevel=_levels_to_program(),
            )


def _is_close(left: Any, right: Any, tolerance: float) -> bool:
    if not (isinstance(left, shmtensor.Tensor) and isinstance(right, shmtensor.Tensor)):
        return bool(left == right)  # sizes
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return bool(
        shmtensor.allclose(left.detach(), right.detach(), tolerance, tolerance, equal_nan=True)
    )


# --- results -------------------------------------------------------------------------------------


class ScriptFunction:
    """What `trace` makes of a function.

    Args:
        root: Holds the constants of the trace.
        graph: Its graph.
        names: The arguments.
        name: What the function is called.
    """

    def __init__(self, root: Module, graph: Graph, names: list[str], name: str) -> None:
        self.graph = graph
        self.name = self.__name__ = name
        self._root = root
        self._names = names
        self._forward, self.code = _function_from(graph)
        _keep_specs(root, graph)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Do what the traced function did.

        Raises:
            RuntimeError: There are too few or too many arguments.
            Error: The trace has raised something else than a RuntimeError.
        """
        given = _bound(self.name, self._names, args, kwargs)
        return run("trace", self._forward, self._root, *given)

    def save(self, f: Any, **options: Any) -> None:
        """Raise NotImplementedError: there are no files of scripts."""
        raise NotImplementedError("there is no TorchScript here; save() keeps a state_dict")


def _bound(name: str, names: list[str], args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """The arguments of a call in their order."""
    if len(args) > len(names):
        raise RuntimeError(
            f"{name}() expected at most {len(names)} argument(s) but received {len(args)} "
            "argument(s)"
        )
    given = dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        if key not in names or key in given:
            raise RuntimeError(f"{name}() got an unexpected or repeated argument '{key}'")
        given[key] = value
    for each in names:
        if each not in given:
            raise RuntimeError(f"{name}() is missing value for argument '{each}'")
    return [given[each] for each in names]


def run(what: str, forward: Callable[..., Any], *args: Any) -> Any:
    """Call a "trace" or a "script". As in torch, whatever it raises is a RuntimeError."""
    try:
        return forward(*args)
    except RuntimeError:
        raise
    except Exception as error:
        raise_of_handler(error)
        text = f"The {what} has raised this:\n{type(error).__name__}: {error}"
        raise Error(text) from error


def _keep_specs(root: Any, graph: Graph) -> None:
    """Give a module what code that takes collections apart reads from it."""
    codegen = graph._codegen
    if isinstance(codegen, _PyTreeCodeGen):
        root._in_spec, root._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec


def traced_function(
    call: Any,
    example_inputs: Any,
    by_name: dict[str, Any] | None,
    strict: bool,
    tolerance: float | None,
) -> ScriptFunction:
    """Return the trace of a function.

    Args:
        call: It.
        example_inputs: The examples, a tuple or one tensor.
        by_name: The examples by name instead.
        strict: Refuse to return dicts.
        tolerance: How far the trace may be from the function for the examples; None compares not.
    """
    function, given = _arguments(call, example_inputs, by_name)
    root = Module()
    graph = _traced(root, function, _copied(given), strict)
    made = ScriptFunction(root, graph, [*given], function.__name__)
    if tolerance is not None:
        _compare(made, function, given, tolerance)
    return made


def traced_module(
    module: Module,
    make: Callable[[Module, Graph, list[str]], Any],
    example_inputs: Any,
    by_name: dict[str, Any] | None,
    strict: bool,
    tolerance: float | None,
) -> Any:
    """Return what *make* makes of the trace of a module; arguments as of `traced_function`."""
    function, given = _arguments(module, example_inputs, by_name)
    root = copy.copy(module)  # takes the constants
    root_function, _ = _arguments(root, example_inputs, by_name)
    graph = _traced(root, root_function, _copied(given), strict)
    made = make(root, graph, [*given])
    if tolerance is not None:
        with shmtensor.no_grad():
            _compare(made, function, given, tolerance)
    return made
