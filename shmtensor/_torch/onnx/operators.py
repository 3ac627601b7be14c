"""Operators whose results stay part of an exported model, which are plain operators here.

Source:
    torch.onnx.operators.
"""

from __future__ import annotations

import shmtensor
from shmtensor._core._tensor import Tensor

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """Return the sizes of *x* as an int64 tensor."""
    return shmtensor.tensor(x.shape, dtype=shmtensor.int64)


def reshape_from_tensor_shape(x: Tensor, shape: Tensor) -> Tensor:
    """Return *x* with the sizes that an integral tensor holds."""
    sizes: list[int] = shape.tolist()
    return x.reshape(sizes)
