"""Which part of a tensor a process holds: plain descriptions.

Source:
    torch.distributed.tensor.placement_types.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How a tensor is spread over the processes of a group."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether each has a piece, along *dim* if that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Return whether each has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether each has a summand, for *reduce_op* if that is given."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a piece along a dimension.

    Args:
        dim: The dimension.
    """

    dim: int


@dataclass(frozen=True)
class _StridedShard(Shard):
    split_factor: int = 1


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has the whole tensor."""


@dataclass(frozen=True)
class Partial(Placement):
    """The tensor is what an operation makes of those of all processes.

    Args:
        reduce_op: The operation, ``"sum"`` by default.
    """

    reduce_op: str = "sum"
