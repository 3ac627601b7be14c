"""The worker processes' information about themselves, and their seeds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

__all__ = [
    "WorkerInfo",
    "_IterableDatasetStopIteration",
    "_generate_state",
    "get_worker_info",
    "set_worker_info",
]

_MASK_32 = 0xFFFFFFFF


@dataclass(frozen=True)
class _RNG:
    """Generators that belong to a worker."""

    random_generator: random.Random
    torch_generator: Any
    numpy_generator: object | None = None


@dataclass(frozen=True)
class WorkerInfo:
    """A worker process of a loader.

    Attributes:
        id: Its number, from 0 on.
        num_workers: Number of workers.
        seed: Seed in this worker of `random`, of this package, and of torch if it is loaded.
        dataset: This process's copy of the dataset.
        rng: None: a worker uses the generators of its process.
        worker_method: How workers run.

    Source:
        torch.utils.data.get_worker_info.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: _RNG | None = None
    worker_method: str | None = "multiprocessing"


@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """The stream of a worker has ended."""

    worker_id: int


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Return the seed of NumPy in a worker: four 32-bit numbers, different for each worker.

    Source:
        torch's loaders; the numbers are those of `numpy.random.SeedSequence`.
    """
    from numpy.random import SeedSequence  # also while that module is being loaded

    entropy = [worker_id, base_seed & _MASK_32, base_seed >> 32 & _MASK_32, 0]
    return [int(word) for word in SeedSequence(entropy).generate_state(4)]


#: Of this process; programs that test what they run in workers set it.
_worker_info: WorkerInfo | None = None


def set_worker_info(info: WorkerInfo | None) -> None:
    """Set the information of this worker process."""
    global _worker_info
    _worker_info = info


def get_worker_info() -> WorkerInfo | None:
    """Return the information of this worker process; None in any other process.

    Source:
        torch.utils.data.get_worker_info.
    """
    return _worker_info
