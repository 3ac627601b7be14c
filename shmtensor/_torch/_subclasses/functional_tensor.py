"""Tensors whose in-place calls are rewritten while a program is traced, which are not here.

Source:
    torch._subclasses.functional_tensor.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class

__all__ = ["FunctionalTensor", "mb_unwrap_functional_tensor"]

FunctionalTensor: Any = unavailable_class(
    "FunctionalTensor", __name__, "programs are not traced here"
)


def mb_unwrap_functional_tensor(tensor: Any) -> Any:
    """Return the tensor that *tensor* stands for: itself."""
    return tensor
