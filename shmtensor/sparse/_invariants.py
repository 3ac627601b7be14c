"""Whether constructors of sparse tensors look at every index."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

__all__ = ["check_sparse_tensor_invariants"]

_F = TypeVar("_F", bound=Callable[..., Any])


class check_sparse_tensor_invariants:
    """Look, or do not look, at every index when a sparse tensor is made.

    It is a context manager, a decorator, and has functions for the whole program. Without the
    look, a wrong index is reported by the first operator that uses it; memory outside of the
    tensor is never read or written.

    Args:
        enable: Whether to look.

    Source:
        torch.sparse.check_sparse_tensor_invariants.
    """

    _is_enabled = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        """Return whether indices are looked at."""
        return check_sparse_tensor_invariants._is_enabled

    @staticmethod
    def enable() -> None:
        """Look at indices from now on."""
        check_sparse_tensor_invariants._is_enabled = True

    @staticmethod
    def disable() -> None:
        """Do not look at indices any more."""
        check_sparse_tensor_invariants._is_enabled = False

    def __enter__(self) -> None:
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different context "
                "manager instance for context nesting."
            )
        self.saved_state = self.is_enabled()
        check_sparse_tensor_invariants._is_enabled = self.state

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        check_sparse_tensor_invariants._is_enabled = bool(self.saved_state)
        self.saved_state = None

    def __call__(self, function: _F) -> _F:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **kwargs)

        return wrapper  # type: ignore[return-value]
