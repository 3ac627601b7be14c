"""The tracer of `compile`: marks are accepted, and functions run as they are or by a backend.

Source:
    torch._dynamo.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor._core._not_offered import unavailable_names
from shmtensor._torch.compiler import (
    allow_in_graph as allow_in_graph,
)
from shmtensor._torch.compiler import (
    assume_constant_result as assume_constant_result,
)
from shmtensor._torch.compiler import (
    disable as disable,
)
from shmtensor._torch.compiler import (
    list_backends as list_backends,
)
from shmtensor._torch.compiler import (
    reset as reset,
)
from shmtensor._torch.compiler import (
    set_stance as set_stance,
)
from shmtensor._torch.compiler import (
    substitute_in_graph as substitute_in_graph,
)

from . import config as config
from . import eval_frame as eval_frame
from . import exc as exc
from . import external_utils
from . import utils as utils

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "is_inductor_supported",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "optimize",
    "optimize_assert",
    "register_backend",
    "reset",
    "run",
    "set_stance",
    "substitute_in_graph",
]

_WHAT = "there is no tracing here, functions run as they are"

__getattr__, __dir__ = unavailable_names(__name__, ("explain", "export", "replay"), _WHAT)

OptimizedModule: Any = eval_frame.OptimizedModule
is_dynamo_supported = eval_frame.is_dynamo_supported
is_inductor_supported = eval_frame.is_inductor_supported
is_compiling = external_utils.is_compiling


def optimize(
    backend: Any = "inductor", *, nopython: bool = False, disable: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles its function, as `compile` does.

    Args:
        backend: See `compile`.
        nopython: What `compile` calls ``fullgraph``.
        disable: Return the function itself.
        **options: Accepted.
    """
    from shmtensor._torch.compiler import compile

    return compile(backend=backend, fullgraph=nopython, disable=disable)


optimize_assert = optimize


def run(fn: Callable[..., Any] | None = None) -> Any:
    """Return the function that is given. Without one, return a decorator."""
    return disable(fn)


def disallow_in_graph(fn: Any) -> Any:
    """Return what is given."""
    return fn


def forbid_in_graph(fn: Any) -> Any:
    """Return what is given."""
    return fn


def register_backend(
    compiler_fn: Callable[..., Any] | None = None, name: str | None = None, tags: Any = ()
) -> Any:
    """Let `compile` find a backend by a name; returns it. Without one, return a decorator.

    Args:
        compiler_fn: The backend: see `compile`.
        name: Its name; otherwise that of the function.
        tags: Accepted.
    """
    from shmtensor._torch.compiler import _backends

    if compiler_fn is None:
        return lambda function: register_backend(function, name, tags)
    _backends.register(name or compiler_fn.__name__, compiler_fn)
    return compiler_fn


def graph_break(msg: str = "") -> None:
    """End a graph here: there is none."""


def mark_dynamic(t: Any, index: Any, **options: Any) -> None:
    """Say of a size that it changes: nothing depends on it."""


def maybe_mark_dynamic(t: Any, index: Any) -> None:
    """Say of a size that it may change: nothing depends on it."""


def mark_static(t: Any, index: Any = None) -> None:
    """Say of sizes that they stay: nothing depends on it."""


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Say of a tensor that it stays where it is: nothing depends on it."""
