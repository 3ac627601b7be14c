"""Masks for attention that looks at no later keys.

Source:
    torch.nn.attention.bias.
"""

from __future__ import annotations

import enum
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Where the diagonal of a mask that is not square begins or ends."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A bool mask of ``(L, S)``, true where a query may look.

    Args:
        variant: The last query sees all keys (``LOWER_RIGHT``), or the first sees the first
            (``UPPER_LEFT``).
        seq_len_q: L.
        seq_len_kv: S.

    Raises:
        AssertionError: *variant* is something else.
    """

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError("variant must be a CausalVariant")
        shift = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
        mask = _C.ones(seq_len_q, seq_len_kv, dtype=_C.bool).tril(shift)
        made: CausalBias = mask.as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    __torch_function__ = _C._disabled_torch_function_impl  # results are plain tensors

    def _materialize(self, device: Any = None) -> Tensor:
        """Return the mask as a plain tensor."""
        plain: Tensor = self.as_subclass(Tensor)
        return plain.to(device) if device is not None else plain


def causal_upper_left(*size: int) -> CausalBias:
    """Return a mask of ``(L, S)`` whose first query sees the first key.

    Raises:
        AssertionError: There are not two sizes.
    """
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size: int) -> CausalBias:
    """Return a mask of ``(L, S)`` whose last query sees all keys.

    Raises:
        AssertionError: There are not two sizes.
    """
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
