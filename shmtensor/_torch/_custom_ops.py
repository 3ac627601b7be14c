"""Older names of `shmtensor.library`.

Source:
    torch._custom_ops.
"""

from __future__ import annotations

from shmtensor.library import register_fake as impl_abstract
from shmtensor.library._contexts import get_ctx

__all__ = ["get_ctx", "impl_abstract"]
