"""A Python function for every element: what apply_, map_ and map2_ share."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor._C import _TensorBase

__all__ = ["replace_elements"]


def _element(value: Any, dtype: Any) -> Any:
    """Return *value* as an element of *dtype*; TypeError if it is not a number."""
    real = dtype.is_floating_point or dtype.is_complex
    if isinstance(value, (numbers.Number, _TensorBase)) or hasattr(type(value), "__index__"):
        return value
    if real and hasattr(type(value), "__float__"):
        return float(value)
    name = type(value).__name__
    raise TypeError(
        f"must be real number, not {name}"
        if real
        else f"'{name}' object cannot be interpreted as an integer"
    )


def replace_elements(self: Any, name: str, function: Callable[..., Any], **others: Any) -> None:
    """Replace each element of *self* by what *function* gives for it and those of *others*.

    Args:
        self: The tensor that changes.
        name: The method, for messages.
        function: Gets a number of each tensor.
        **others: Tensors of the same dtype that broadcast to *self*, by the argument's name.

    Raises:
        RuntimeError: A tensor requires grad, or does not broadcast.
        TypeError: One of *others* is not a tensor or has another dtype, or *function* gave what is
            no number.
    """
    for position, (key, other) in enumerate(others.items(), 1):
        if not isinstance(other, _TensorBase):
            raise TypeError(
                f"{name}(): argument '{key}' (position {position}) must be Tensor, "
                f"not {type(other).__name__}"
            )
    if any(t.requires_grad for t in (self, *others.values())):
        raise RuntimeError(
            f"Can't call {name}() on Variable that requires grad. "
            f"Use var.detach().{name}() instead."
        )
    for key, other in others.items():
        if other.dtype != self.dtype:
            raise TypeError(
                f"{name}: expected {self.type()} for argument '{key}' (got {other.type()})"
            )
    rows = (t.expand_as(self).flatten().tolist() for t in (self, *others.values()))
    new = [_element(function(*each), self.dtype) for each in zip(*rows, strict=True)]
    self.copy_(_C.tensor(new, dtype=self.dtype).view(self.shape))
