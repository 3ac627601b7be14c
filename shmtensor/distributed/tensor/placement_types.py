"""Which part of a tensor a process holds: plain descriptions.

Source:
    torch.distributed.tensor.placement_types.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

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

    def __str__(self) -> str:
        return f"S({self.dim})"

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


class _StridedShardOffsetMode(IntEnum):
    """Which offsets a strided piece tells."""

    FIRST = 0
    ALL = 1
    NONE = 2


@dataclass(frozen=True, init=False, repr=False)
class _StridedShard(Placement):
    """Each process has a piece of each of *split_factor* parts. This is no `Shard`, as in torch."""

    dim: int
    split_factor: int

    def __init__(self, dim: int, *, split_factor: int = 1, sf: int | None = None) -> None:
        if sf is not None and split_factor != 1:
            raise TypeError("_StridedShard received both split_factor and sf")
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor if sf is None else sf)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"

    def local_shard_size_and_offset(
        self,
        curr_local_size: int,
        num_chunks: int,
        rank: int,
        offset_mode: int = _StridedShardOffsetMode.FIRST,
    ) -> tuple[int, int | list[int] | None]:
        """Return how much a process has, and where that begins; -1: it has nothing.

        What is cut is cut in *split_factor* parts first. A process has a piece of each.

        Args:
            curr_local_size: The length of what is cut.
            num_chunks: The number of pieces of each part.
            rank: Which one.
            offset_mode: 0: where it begins; 1: a list, where each element is; 2: None.
        """
        cut = Shard.local_shard_size_and_offset
        held: list[int] = []
        for part in range(self.split_factor):
            part_size, part_begin = cut(curr_local_size, self.split_factor, part)
            size, begin = cut(part_size, num_chunks, rank)
            held.extend(range(part_begin + begin, part_begin + begin + size))
        mode = _StridedShardOffsetMode(offset_mode)
        if mode is _StridedShardOffsetMode.ALL:
            return len(held), held
        if mode is _StridedShardOffsetMode.NONE:
            return len(held), None
        return len(held), held[0] if held else -1

    _local_shard_size_and_offset = local_shard_size_and_offset


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """The tensor is what an operation makes of those of all processes.

    Args:
        reduce_op: The operation, ``"sum"`` by default.
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
