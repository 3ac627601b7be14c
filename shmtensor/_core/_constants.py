"""The numbers that torch's namespace holds, ``newaxis``, and a name for a memory format."""

from __future__ import annotations

from math import e, inf, nan, pi

from shmtensor._C import contiguous_format as legacy_contiguous_format

__all__ = ["e", "inf", "legacy_contiguous_format", "nan", "newaxis", "pi"]

newaxis = None
