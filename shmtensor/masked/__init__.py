"""Operators that leave out elements. Source: torch.masked."""

from shmtensor.masked import _ops as _ops
from shmtensor.masked._ops import *  # noqa: F403
from shmtensor.masked._ops import __all__ as _names

__all__ = list(_names)
