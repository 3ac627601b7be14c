"""Padding: the operator under the name that functional and layers use.

``pad(input, pad, mode='constant', value=None)`` grows (or, with negative numbers, cuts) the last
dimensions. *pad* holds ``(before, after)`` of the last dimension, then of the one before it, and so
on; *mode* is ``'constant'``, ``'reflect'``, ``'replicate'`` or ``'circular'``.

Raises:
    RuntimeError: *pad* has an odd length or is too long for *input*; a size gets negative; mirrored
        or circular padding is wider than the input; *value* in a mode that takes none.
    NotImplementedError: An unknown mode; other dimensions than a mode pads.

Source: torch.nn.functional.pad.
"""

from __future__ import annotations

from shmtensor import _C

__all__ = ["pad"]

pad = _C._nn.pad
