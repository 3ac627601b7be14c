"""Names of backends: those of torch's, which run functions as they are, and registered ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor._torch._dynamo.exc import InvalidBackend

__all__ = ["find", "names", "register"]

#: What torch has; there is no compiler behind them here.
_KNOWN = frozenset(
    """
    aot_eager aot_eager_decomp_partition aot_ts cudagraphs eager eager_debug eager_noexcept
    inductor openxla openxla_eval tensorrt tvm
    """.split()
)
_registered: dict[str, Callable[..., Any]] = {}


def register(name: str, backend: Callable[..., Any]) -> None:
    """Let a backend be found by a name."""
    _registered[name] = backend


def names() -> list[str]:
    """Return the names that were registered."""
    return sorted(_registered)


def find(backend: Any) -> Callable[..., Any] | None:
    """Return what compiles; None if functions run as they are.

    Args:
        backend: A function, a name, or None.

    Raises:
        InvalidBackend: There is none of that name, or it is neither.
    """
    if backend is None:
        return None
    if isinstance(backend, str):
        if backend in _registered:
            return _registered[backend]
        if backend in _KNOWN:
            return None
        raise InvalidBackend(
            f"Invalid backend: {backend!r}, see `_dynamo.list_backends()` for available backends."
        )
    if not callable(backend):
        raise InvalidBackend(f"a backend is a function or a name, got {type(backend).__name__}")
    found: Callable[..., Any] = backend
    return found
