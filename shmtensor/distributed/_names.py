"""How the tensors of a group are combined."""

from __future__ import annotations

import enum

__all__ = ["ReduceOp"]


class ReduceOp(enum.IntEnum):
    """How the tensors of a group are combined.

    Source:
        torch.distributed.ReduceOp.
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8
