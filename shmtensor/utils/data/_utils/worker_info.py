"""What a worker process knows about itself."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

__all__ = ["WorkerInfo", "get_worker_info", "set_worker_info"]


@dataclass(frozen=True)
class _RNG:
    """Generators of a worker's own."""

    random_generator: random.Random
    torch_generator: Any
    numpy_generator: object | None = None


@dataclass(frozen=True)
class WorkerInfo:
    """A worker process of a loader.

    Attributes:
        id: Its number, from 0 on.
        num_workers: How many there are.
        seed: Seed of `random`, of this package and of torch, if that is loaded, in this worker.
        dataset: This process's copy of the dataset.
        rng: None: a worker has the generators of its process.
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


_worker_info: WorkerInfo | None = None


def set_worker_info(info: WorkerInfo | None) -> None:
    """Say which worker this process is."""
    global _worker_info
    _worker_info = info


def get_worker_info() -> WorkerInfo | None:
    """Return what this worker process is, or None in any other process.

    Source:
        torch.utils.data.get_worker_info.
    """
    return _worker_info
