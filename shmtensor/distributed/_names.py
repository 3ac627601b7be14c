"""How the tensors of a group are combined."""

from __future__ import annotations

import enum

__all__ = ["ReduceOp"]


class ReduceOp(enum.IntEnum):
    """How the tensors of a group are combined, element by element.

    AVG is the sum divided by the number of ranks, truncated for integers. BAND, BOR and BXOR take
    integers and bool. PREMUL_SUM raises.

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

    def __repr__(self) -> str:
        return f"<RedOpType.{self.name}: {self.value}>"

    def __str__(self) -> str:
        return f"RedOpType.{self.name}"


#: The type of the members, which is the class itself here.
type.__setattr__(ReduceOp, "RedOpType", ReduceOp)
