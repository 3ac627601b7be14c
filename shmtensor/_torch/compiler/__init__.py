"""Compilation of programs: there is no compiler here, and everything runs as it is written.

A program that asks for it computes the same. A backend of its own gets the graphs of functions.

Source:
    torch.compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from shmtensor._core._not_offered import unavailable_names

from . import config as config

if TYPE_CHECKING:
    from shmtensor.nn import Module

_REFUSED = ("load_compiled_function",)

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "config",
    "cudagraph_mark_step_begin",
    "disable",
    "get_default_backend",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "load_cache_artifacts",
    "nested_compile_region",
    "reset",
    "save_cache_artifacts",
    "set_default_backend",
    "set_enable_guard_collectives",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
    *_REFUSED,
]

__getattr__, __dir__ = unavailable_names(
    __name__, _REFUSED, "nothing is compiled here, so that there is nothing to load"
)


F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound="Module")


_MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


@overload
def compile(model: M, **options: Any) -> M: ...
@overload
def compile(model: F, **options: Any) -> F: ...
@overload
def compile(model: None = None, **options: Any) -> Callable[[F], F]: ...
def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    **other: Any,
) -> Any:
    """Return a function or module that does the same: it runs as it is, or as a backend says.

    Args:
        model: What to compile; without it, this returns a decorator. For a module the result is an
            ``OptimizedModule`` with the module below ``_orig_mod``.
        fullgraph: With a backend of your own, raise where there is no graph of one piece.
        dynamic: Accepted; a backend gets one graph for each shape.
        backend: A function of a `fx.GraphModule` and a list of example inputs, whose result is
            called instead (Note [What a backend gets] in ``_compiled.py``); the name of one that
            ``_dynamo.register_backend`` was told; or a name of torch's, with which the model runs
            as it is.
        mode: One of torch's, without effect; not together with *options*.
        options: Handed to a backend of your own by name.
        name: Accepted.
        disable: Return *model* itself.
        **other: Accepted.

    Raises:
        RuntimeError: Both *mode* and *options* are given, there is no such mode, or *model* cannot
            be called.
        InvalidBackend: There is no backend of this name.

    Source:
        torch.compile.
    """
    from ._backends import find

    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if model is None:
        return lambda function: compile(
            function,
            fullgraph=fullgraph,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
        )
    if not callable(model):
        raise RuntimeError(f"compile() expects a function or a module, but got {type(model)}")
    found = find(backend if backend is not None else _backend[0])
    if disable or isinstance(model, type):
        return model
    from shmtensor.nn import Module

    from ._compiled import Compiled, compiled_function

    if isinstance(model, Module):
        from shmtensor._torch._dynamo.eval_frame import OptimizedModule

        return OptimizedModule(model, found and Compiled(model, found, fullgraph, options))
    return compiled_function(model, found, fullgraph, options)


# --- whether something is going on ---------------------------------------------------------------


def is_compiling() -> bool:
    """Return whether the program is being compiled: False."""
    return False


def is_dynamo_compiling() -> bool:
    """Return whether the program is being traced for that: False."""
    return False


def is_exporting() -> bool:
    """Return whether the program is being exported: False."""
    return False


# --- marks, which have nothing to act on ---------------------------------------------------------


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """Return the function that is given: it is not compiled. Without one, return a decorator."""
    if fn is None:
        return lambda function: function
    if not callable(fn):
        raise AssertionError(f"disable(): fn must be callable, but got {fn!r}")
    return fn


def allow_in_graph(fn: Any) -> Any:
    """Return what is given: a function, or a list of them.

    Raises:
        AssertionError: It cannot be called.
    """
    for each in fn if isinstance(fn, (list, tuple)) else (fn,):
        if not callable(each):
            raise AssertionError(f"allow_in_graph expects a callable, but got {each!r}")
    return fn


def assume_constant_result(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that is given; it is called each time.

    Raises:
        AttributeError: It cannot be marked: it is no function.
    """
    fn._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return fn


def nested_compile_region(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Return the function that is given. Without one, return a decorator."""
    return disable(fn)


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of tensors that calls *fn* with NumPy arrays, and gives tensors back."""
    import functools

    import numpy

    from shmtensor import _C
    from shmtensor.utils._pytree import tree_map, tree_map_only

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map_only(_C._TensorBase, lambda tensor: tensor.numpy(), (args, kwargs))
        result = fn(*args, **kwargs)
        return tree_map(
            lambda leaf: (
                _C.as_tensor(leaf) if isinstance(leaf, (numpy.ndarray, numpy.generic)) else leaf
            ),
            result,
        )

    return call


def substitute_in_graph(
    original_fn: Callable[..., Any], **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that returns its function; *original_fn* is what runs.

    Raises:
        TypeError: *original_fn* is no function.
    """
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)}")
    return lambda function: function


def cudagraph_mark_step_begin() -> None:
    """Mark the beginning of a step: nothing is recorded."""


def reset() -> None:
    """Forget what was compiled: nothing was."""


_STANCES = (
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
)


class set_stance:
    """What to do with functions that were compiled, as a call, a context or a decorator: nothing.

    Args:
        stance: ``"default"``, ``"force_eager"``, ``"eager_on_recompile"``, ``"fail_on_recompile"``,
            ``"eager_then_compile"`` or ``"aot_eager_then_compile"``.
        skip_guard_eval_unsafe: Without effect.
        force_backend: Without effect.

    Raises:
        RuntimeError: There is no such stance, or *force_backend* beside another than the default.
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}; there are {_STANCES}")
        if stance != "default" and force_backend is not None:
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.stance = stance

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that is given."""
        return fn

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Accept a setting for many machines; returns the one before, False."""
    return False


# --- backends and caches -------------------------------------------------------------------------

_backend: list[Any] = ["eager"]


def list_backends(exclude_tags: tuple[str, ...] = ("debug", "experimental")) -> list[str]:
    """Return the names of backends that were registered: there are no others."""
    from ._backends import names

    return names()


def get_default_backend() -> Any:
    """Return what `set_default_backend` was told, ``"eager"`` at first."""
    return _backend[0]


def set_default_backend(backend: Any) -> None:
    """Say which backend `compile` takes where none is named."""
    _backend[0] = "eager" if backend is None else backend


def save_cache_artifacts() -> None:
    """Return what was compiled, as bytes: None, nothing was."""


def load_cache_artifacts(serialized_artifacts: bytes) -> None:
    """Take what was compiled elsewhere; nothing uses it."""


# --- guards: what a compiled function would be checked for ----------------------------------------


def _keep_all(guard_entries: Any, **options: Any) -> list[bool]:
    """Return True for each entry."""
    return [True for _ in guard_entries]


keep_portable_guards_unsafe = _keep_all
keep_tensor_guards_unsafe = _keep_all
skip_all_guards_unsafe = _keep_all
skip_guard_on_all_nn_modules_unsafe = _keep_all
skip_guard_on_globals_unsafe = _keep_all
skip_guard_on_inbuilt_nn_modules_unsafe = _keep_all
