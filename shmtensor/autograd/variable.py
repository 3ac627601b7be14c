"""``Variable``: the old name of a tensor that takes part in the graph."""

from __future__ import annotations

import warnings
from typing import Any

from shmtensor._core._tensor import Tensor

__all__ = ["Variable"]


class _VariableMeta(type):
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """Return a tensor over the same memory: ``Variable(data, requires_grad=False)``.

    Args:
        data: A tensor.
        requires_grad: Record operations on the result.
        volatile: Has no effect, and warns.

    Returns:
        A `Tensor` that shares memory with *data*.

    Source:
        torch.autograd.Variable.
    """

    def __new__(
        cls, data: Any = None, requires_grad: bool = False, volatile: bool | None = None
    ) -> Any:
        """Return a detached alias of *data*."""
        if volatile is not None:
            warnings.warn(
                "volatile was removed and now has no effect. Use `with no_grad():` instead.",
                stacklevel=2,
            )
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
