"""Functions that a backend of the program's own compiles.

Note [What a backend gets]
At the first call, and at each call with other shapes, strides, dtypes, or values of arguments that
are no tensors, the function is traced along its arguments, and the backend gets the graph as a
`fx.GraphModule` with the tensors as example inputs. What it returns is called from then on. The
graph is of one piece. Where there is none, since a branch depends on data, the function runs as it
is, and a warning says so once; with ``fullgraph`` that is an error. So it is after `_LIMIT` graphs.

What else the function reads is taken as it is at the trace, and checked before later calls where
that can be done: its own globals and closure, the collections in them, and the attributes, hooks,
parameters and children of modules. What it does besides computing, such as printing, happens at
the trace only. Random functions are part of the graph, and draw anew at each call.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import shmtensor
from shmtensor._torch._dynamo.exc import (
    BackendCompilerFailed,
    FailOnRecompileLimitHit,
    Unsupported,
)
from shmtensor.nn import Module
from shmtensor.random import fork_rng

__all__ = ["Compiled", "compiled_function"]

#: How many graphs a function has at most; it runs as it is for more kinds of arguments.
_LIMIT = 8


#: What torch calls the attributes of a module that say nothing of what it computes.
_REGISTRIES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
#: How deep collections are looked into: one may hold itself.
_DEEPEST = 8


class _Same:
    """Equal to itself only, whatever its class says, and kept as long as a graph depends on it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _kind(value: Any, depth: int = 0) -> Any:
    """What must be the same for a graph to fit an argument."""
    kind = type(value)
    if isinstance(value, shmtensor.Tensor):
        strides = value.stride() if value.layout == shmtensor.strided else None
        about = value.dtype, value.layout, value.device, value.requires_grad
        return kind, value.shape, strides, about
    if kind in (float, complex):
        return kind, repr(value)  # 0.0 and -0.0 are equal, and nan is not
    if kind.__module__ == "numpy" and hasattr(value, "tobytes"):
        return _Same(value), value.tobytes()
    if depth < _DEEPEST and kind in (list, tuple, set, frozenset):
        return kind, *(_kind(each, depth + 1) for each in value)
    if depth < _DEEPEST and kind is dict:
        return kind, *((key, _kind(each, depth + 1)) for key, each in value.items())
    try:
        hash(value)
    except TypeError:
        return _Same(value)
    return kind, value


def _kind_outside(value: Any) -> Any:
    """What must be the same for a graph that reads a value which is no argument."""
    if isinstance(value, Module):
        return _Same(value), *_kind_of_module(value)
    if isinstance(value, shmtensor.Tensor):
        return _Same(value), _kind(value)
    return _kind(value)


def _kind_of_module(module: Module) -> Iterator[Any]:
    """What must be the same in a module: its own and its children's attributes."""
    for each in module.modules():
        for name, value in vars(each).items():
            if name in _REGISTRIES:
                yield from ((key, _Same(part)) for key, part in value.items())
            elif name in _HOOKS:
                yield tuple(value)
            elif not name.startswith("_"):
                yield name, _kind_outside(value)


class Compiled:
    """A function whose calls go to what a backend makes of its graph.

    Args:
        function: A function or module.
        backend: Takes a `fx.GraphModule` and a list of tensors, and returns a function that takes
            those tensors and returns a tuple, as the graph does.
        fullgraph: Raise where there is no graph of one piece.
        options: Are handed to the backend by name, if there are any.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        backend: Callable[..., Any],
        fullgraph: bool,
        options: dict[str, Any] | None,
    ) -> None:
        self.function = function
        self.backend = backend
        self.fullgraph = fullgraph
        self.options = options or {}
        self._made: dict[Any, Callable[..., Any] | None] = {}
        self._warned: set[str] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call what the backend made for such arguments; make it first."""
        from shmtensor.fx._symbolic_trace import is_fx_symbolic_tracing
        from shmtensor.utils import _pytree as pytree

        if is_fx_symbolic_tracing():
            return self.function(*args, **kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        key = (str(spec), *map(_kind, leaves), *self._surroundings())
        if key not in self._made:
            if len(self._made) >= _LIMIT:
                self._say_limit()
                return self.function(*args, **kwargs)
            self._made[key] = self._make(leaves, spec)
        made = self._made[key]
        if made is None:
            return self.function(*args, **kwargs)
        return made([leaf for leaf in leaves if isinstance(leaf, shmtensor.Tensor)])

    def _surroundings(self) -> tuple[Any, ...]:
        """What else the function may depend on."""
        found: list[Any] = [shmtensor.is_grad_enabled(), shmtensor.is_inference_mode_enabled()]
        function = self.function
        if isinstance(function, Module):
            return *found, *_kind_of_module(function)
        plain = getattr(function, "__func__", function)
        code = getattr(plain, "__code__", None)
        if code is not None:
            found += [_kind_outside(plain.__globals__.get(name)) for name in code.co_names]
            for cell in plain.__closure__ or ():
                try:
                    found.append(_kind_outside(cell.cell_contents))
                except ValueError:  # it is empty yet
                    found.append(None)
        return tuple(found)

    def _make(self, leaves: list[Any], spec: Any) -> Callable[..., Any] | None:
        """What calls the backend's result; None if there is no graph."""
        try:
            with fork_rng(devices=()), _kept_buffers(self.function):
                module, out_spec, outputs = _graph_of(self.function, leaves, spec)
        except Exception as error:  # what the program itself raises, it raises when it runs
            self._explain(error)
            return None
        tensors = [leaf for leaf in leaves if isinstance(leaf, shmtensor.Tensor)]
        try:
            compiled = self.backend(module, tensors, **self.options)
            if not callable(compiled):
                raise AssertionError("compiler_fn did not return callable")
        except Exception as error:
            name = getattr(self.backend, "__name__", type(self.backend).__name__)
            raise BackendCompilerFailed(
                f"backend={name!r} raised:\n{type(error).__name__}: {error}"
            ) from error

        def call(inputs: list[Any]) -> Any:
            from shmtensor.utils import _pytree as pytree

            found = compiled(*inputs)
            given = iter(found if isinstance(found, list | tuple) else (found,))
            return pytree.tree_unflatten(
                [next(given) if is_tensor else value for is_tensor, value in outputs], out_spec
            )

        return call

    def _say_limit(self) -> None:
        """Say that there are no more graphs.

        Raises:
            FailOnRecompileLimitHit: One is wanted.
        """
        text = (
            f"{getattr(self.function, '__name__', type(self.function).__name__)} has been compiled "
            f"{_LIMIT} times, for arguments and surroundings that differ"
        )
        if self.fullgraph:
            raise FailOnRecompileLimitHit(text)
        self._warn(text, level=5)

    def _warn(self, text: str, level: int) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(f"{text}. It runs as it is, without the backend", stacklevel=level)

    def _explain(self, error: Exception) -> None:
        """Say why there is no graph.

        Raises:
            Unsupported: One is wanted.
        """
        text = (
            f"{getattr(self.function, '__name__', type(self.function).__name__)} has no graph of "
            f"one piece: {error}"
        )
        if self.fullgraph:
            raise Unsupported(text) from error
        self._warn(text, level=6)


@contextlib.contextmanager
def _kept_buffers(function: Any) -> Iterator[None]:
    """Give the buffers of a module back what they hold, since the trace is no call of its own."""
    buffers = [*function.buffers()] if isinstance(function, Module) else []
    values = [buffer.detach().clone() for buffer in buffers]
    try:
        yield
    finally:
        with shmtensor.no_grad():
            for buffer, value in zip(buffers, values, strict=True):
                buffer.copy_(value)


def _graph_of(
    function: Callable[..., Any], leaves: list[Any], spec: Any
) -> tuple[Any, Any, list[tuple[bool, Any]]]:
    """A module of a function's graph, the structure of its result, and what stands in that."""
    from shmtensor.fx._examples import ExampleProxy, ExampleTracer, copy_of, function_of
    from shmtensor.fx.graph_module import GraphModule
    from shmtensor.utils import _pytree as pytree

    root = Module()
    call = function
    if isinstance(function, Module):
        root = copy.copy(function)  # takes the constants
        call = root.__call__
    found: dict[str, Any] = {}
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, shmtensor.Tensor)]

    def on_tensors(*proxies: Any) -> Any:
        given = dict(zip(places, proxies, strict=True))
        args, kwargs = pytree.tree_unflatten(
            [given.get(i, leaf) for i, leaf in enumerate(leaves)], spec
        )
        result, found["spec"] = pytree.tree_flatten(call(*args, **kwargs))
        varies = [
            type(each) is ExampleProxy or isinstance(each, shmtensor.Tensor) for each in result
        ]
        found["outputs"] = [
            (is_tensor, None if is_tensor else each)
            for is_tensor, each in zip(varies, result, strict=True)
        ]
        return tuple(each for is_tensor, each in zip(varies, result, strict=True) if is_tensor)

    names = [f"input_{i}" for i in range(len(places))]
    examples = [copy_of(leaves[i]) for i in places]
    tracer = ExampleTracer(examples, follow_sizes=False)
    traced = function_of(on_tensors, names, by_name=False)
    graph = tracer.trace_call(root, traced, dict(zip(names, examples, strict=True)))
    return GraphModule(tracer.root, graph), found["spec"], found["outputs"]


def compiled_function(
    function: Callable[..., Any],
    backend: Callable[..., Any] | None,
    fullgraph: bool,
    options: dict[str, Any] | None,
) -> Callable[..., Any]:
    """Return a function that calls what a backend makes of one; without a backend, the one."""
    target = function if backend is None else Compiled(function, backend, fullgraph, options)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    call._torchdynamo_orig_callable = function  # type: ignore[attr-defined]
    return call
