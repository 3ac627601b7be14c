"""The loop of a worker process: it fetches batches on request, until it is told to end.

It receives ``(epoch, number, index)``: fetch that batch; ``epoch``: a new pass begins; None: end.
It answers each of the first kind with ``(epoch, number, batch)``, in order. For a batch that failed
it sends an `ExceptionWrapper`, and at the end of a stream an `_IterableDatasetStopIteration`.

The tensor *control* in shared memory says more. Its first number is the loader's epoch: a worker
drops requests of other epochs, and ends when the number is `STOP`, whatever messages there are. The
other numbers say how far each worker has started: `STARTING` or `ENDS_WITH_PARENT`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shmtensor import _C
from shmtensor._boundary.process import set_thread_name
from shmtensor._core._numpy_seed import seed_numpy
from shmtensor._core._utils import ExceptionWrapper
from shmtensor.multiprocessing._lifeline import end_with_parent
from shmtensor.multiprocessing._report import Report
from shmtensor.utils.data._utils.fetch import _DatasetKind
from shmtensor.utils.data._utils.interop import prepare_torch
from shmtensor.utils.data._utils.signal_handling import prepare_worker
from shmtensor.utils.data._utils.transport import packed
from shmtensor.utils.data._utils.worker import (
    WorkerInfo,
    _generate_state,
    _IterableDatasetStopIteration,
    set_worker_info,
)

__all__ = [
    "ENDS_WITH_PARENT",
    "STARTING",
    "STOP",
    "WorkerJob",
    "_worker_loop",
]

#: In place of an epoch: end.
STOP = -1
#: How far a worker has started. In the second state its signal handlers are set, and the kernel
#: ends it with its parent, even if it is stopped.
STARTING, ENDS_WITH_PARENT = range(2)


@dataclass(frozen=True)
class WorkerJob:
    """The arguments that all workers of a loader get at their start."""

    kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    base_seed: int
    init_fn: Callable[[int], object] | None
    num_workers: int
    control: Any


def _seed(base_seed: int, worker_id: int) -> int:
    """Seed all generators of this process, and return the seed."""
    seed = base_seed + worker_id
    random.seed(seed)
    _C.default_generator.manual_seed(seed)
    seed_numpy(lambda: _generate_state(base_seed, worker_id))
    return seed


class _Worker:
    """The state of a worker process."""

    def __init__(self, job: WorkerJob, worker_id: int, results: Any) -> None:
        self.job = job
        self.id = worker_id
        self.results = results
        self.epoch = 0
        self.fetcher: Any = None
        self.has_ended = False  # the stream of this worker has ended
        self.failure: ExceptionWrapper | None = None  # of the start; answers every request

    def begin(self) -> None:
        """Seed the generators, and call the program's ``worker_init_fn``."""
        seed = _seed(self.job.base_seed, self.id)
        set_worker_info(WorkerInfo(self.id, self.job.num_workers, seed, self.job.dataset))
        prepare_torch(self.id, self.job.num_workers, seed, self.job.dataset)
        try:
            if self.job.init_fn is not None:
                self.job.init_fn(self.id)
        except Exception:
            self.failure = self._failed()

    def wanted(self) -> int:
        """The loader's present epoch."""
        return int(self.job.control[0].item())

    def begin_epoch(self, epoch: int) -> None:
        """Begin a new pass."""
        self.epoch = epoch
        self.has_ended = False
        self.fetcher = None

    def _failed(self) -> ExceptionWrapper:
        failure = ExceptionWrapper(where=f"in DataLoader worker process {self.id}")
        # Raised again by the loader's __next__, it would end the loop without a word.
        is_stop = issubclass(failure.exc_type, StopIteration)
        return failure.of_type(RuntimeError) if is_stop else failure

    def _fetched(self, index: Any) -> Any:
        if self.failure is not None:
            return self.failure
        try:
            if self.fetcher is None:  # in here, because the dataset's iterator may raise
                job = self.job
                self.fetcher = _DatasetKind.create_fetcher(
                    job.kind, job.dataset, job.auto_collation, job.collate_fn, job.drop_last
                )
            batch = self.fetcher.fetch(index)
        except StopIteration:  # of a stream; other functions' are RuntimeErrors
            self.has_ended = True
            return _IterableDatasetStopIteration(self.id)
        except Exception:
            return self._failed()
        try:
            return packed(batch)
        except Exception:
            return self._failed()

    def answer(self, epoch: int, number: int, index: Any) -> None:
        """Fetch a batch and put it into the queue, unless its epoch is over."""
        if self.has_ended or epoch != self.epoch or epoch != self.wanted():
            return
        batch = self._fetched(index)
        try:
            self.results.put((epoch, number, batch))
        except Exception:  # the batch cannot be pickled
            failure = batch if isinstance(batch, ExceptionWrapper) else self._failed()
            try:
                self.results.put((epoch, number, failure))
            except Exception:  # the exception's class cannot be pickled either
                self.results.put((epoch, number, failure.of_type(RuntimeError)))

    def run(self, tasks: Any) -> None:
        """Answer requests until told to end."""
        while self.wanted() != STOP:
            task = tasks.get()
            if task is None:
                return
            if isinstance(task, int):
                self.begin_epoch(task)
            else:
                self.answer(*task)


def _worker_loop(job: WorkerJob, worker_id: int, tasks: Any, results: Any, report: Report) -> None:
    """Run a worker. This is the target of its process."""
    try:
        end_with_parent()
        prepare_worker(report)
        job.control[1 + worker_id] = ENDS_WITH_PARENT
        set_thread_name("shm_data_worker")
        _C.set_num_threads(1)  # the workers themselves run in parallel
        worker = _Worker(job, worker_id, results)
        worker.begin()
        worker.run(tasks)
    except (KeyboardInterrupt, EOFError):
        pass  # the user ended the program, or the parent has ended
    finally:
        results.cancel_join_thread()
