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

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """Return how long a process's piece is, and where it begins; pieces are as of `chunk`.

        Args:
            curr_local_size: The length of what is cut.
            num_chunks: The number of pieces.
            rank: Which one.
        """
        length = -(-curr_local_size // num_chunks)
        begin = min(curr_local_size, length * rank)
        return min(curr_local_size, begin + length) - begin, begin

    def _local_shard_size_and_offset(
        self, curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        return Shard.local_shard_size_and_offset(curr_local_size, num_chunks, rank)


@dataclass(frozen=True)
class _StridedShard(Shard):
    split_factor: int = 1

    def local_shard_size_and_offset(  # type: ignore[override]
        self, curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """Return how much a process has, and where that begins; -1: it has nothing.

        What is cut is cut in *split_factor* parts first. A process has a piece of each.

        Args:
            curr_local_size: The length of what is cut.
            num_chunks: The number of pieces of each part.
            rank: Which one.
        """
        cut = Shard.local_shard_size_and_offset
        parts = [cut(curr_local_size, self.split_factor, i) for i in range(self.split_factor)]
        pieces = [(cut(size, num_chunks, rank), begin) for size, begin in parts]
        begins = [begin + first for (size, first), begin in pieces if size]
        return sum(size for (size, _), _ in pieces), begins[0] if begins else -1

    def _local_shard_size_and_offset(
        self, curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        return self.local_shard_size_and_offset(curr_local_size, num_chunks, rank)


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
