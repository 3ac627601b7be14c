"""A sampler that gives each of several training processes its share of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from shmtensor import _C
from shmtensor._core._groups import distributed
from shmtensor.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[Any]):
    """One process's share of the indices of a dataset; all shares have the same length.

    Every process makes one with the same arguments, except for *rank*, and calls `set_epoch` before
    each epoch. So all processes use the same new permutation.

    Args:
        dataset: A dataset with a length.
        num_replicas: Number of processes; that of the default process group unless given.
        rank: The number of this process, from 0 on; that in the default group unless given.
        shuffle: Whether to shuffle, by *seed* and the epoch.
        seed: Must be the same in all processes.
        drop_last: Leave out the samples that cannot be divided evenly; otherwise some indices occur
            twice.

    Raises:
        ValueError: One of them is missing and there is no default group, or *rank* is out of range.

    Source:
        torch.utils.data.distributed.DistributedSampler; the same seed gives torch's shares.
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            groups = distributed()
            num_replicas = groups.get_world_size() if num_replicas is None else num_replicas
            rank = groups.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        n = len(dataset)
        if drop_last:
            self.num_samples = n // num_replicas
        else:
            self.num_samples = math.ceil(n / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[Any]:
        n = len(self.dataset)
        indices = list(range(n))
        if self.shuffle:
            generator = _C.Generator().manual_seed(self.seed + self.epoch)
            drawn: Any = _C.randperm(n, generator=generator)
            indices = drawn.tolist()
        missing = self.total_size - n
        if missing > 0:  # repeat the indices from the start, as often as needed
            indices += (indices * math.ceil(missing / n))[:missing]
        else:
            del indices[self.total_size :]
        return iter(indices[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the next epoch, so that its permutation differs from the last one."""
        self.epoch = epoch
