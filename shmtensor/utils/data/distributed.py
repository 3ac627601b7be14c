"""The sampler of processes that train together: each has its share of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from shmtensor import _C
from shmtensor.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[Any]):
    """One process's share of the indices of a dataset; all shares have the same length.

    Every process makes one with the same arguments but for *rank*, and calls `set_epoch` before
    each epoch so that they all shuffle alike and anew.

    Args:
        dataset: Has a length.
        num_replicas: How many processes there are. Needed: there are no process groups here.
        rank: Which of them this is, from 0 on. Needed as well.
        shuffle: Shuffle, by *seed* and the epoch.
        seed: The same in all processes.
        drop_last: Leave out the tail that cannot be shared out evenly; otherwise some indices come
            twice.

    Raises:
        ValueError: *num_replicas* or *rank* is missing, or *rank* is out of range.

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
            raise ValueError(
                "Default process group has not been initialized, please make sure to call "
                "init_process_group. (There are no process groups here: pass num_replicas and "
                "rank.)"
            )
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
        if missing > 0:  # from the start again, as often as it takes
            indices += (indices * math.ceil(missing / n))[:missing]
        else:
            del indices[self.total_size :]
        return iter(indices[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes, so that it is shuffled in another way than the one before."""
        self.epoch = epoch
