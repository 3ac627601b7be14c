"""Tensors without values, by which torch traces programs; device "meta" has such tensors here.

Source:
    torch._subclasses.fake_tensor.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class

__all__ = ["FakeTensor", "FakeTensorMode", "is_fake"]

_WHAT = "programs are not traced here; tensors on the device 'meta' have shapes and no values"

FakeTensor: Any = unavailable_class("FakeTensor", __name__, _WHAT)
FakeTensorMode: Any = unavailable_class("FakeTensorMode", __name__, _WHAT)


def is_fake(x: object) -> bool:
    """Return whether *x* is such a tensor: False."""
    return False
