"""The iterator of a loader with worker processes."""

from __future__ import annotations

import time
from collections import deque
from multiprocessing import connection
from multiprocessing.util import Finalize
from queue import Empty
from typing import Any

from shmtensor import multiprocessing
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor._core._utils import ExceptionWrapper
from shmtensor.multiprocessing.queues import is_of_message
from shmtensor.utils.data._utils.fetch import not_an_end
from shmtensor.utils.data._utils.iterators import _BaseDataLoaderIter
from shmtensor.utils.data._utils.loader_workers import LoaderWorkers
from shmtensor.utils.data._utils.transport import packed_index
from shmtensor.utils.data._utils.worker import _IterableDatasetStopIteration

__all__ = ["_MultiProcessingDataLoaderIter"]

#: Seconds between its checks whether all workers are alive.
_LOOK_S = 0.1
#: For the workers to be ended before `multiprocessing` ends and joins what daemons there are.
_EXIT_PRIORITY = 10


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """A pass; worker processes make its batches in advance.

    Batches are numbered. Their indices are given to the workers in turn. Each worker answers in
    order, through its own queue. So it is known which worker has the next batch. If an answer
    cannot be read, that batch is reported as failed. The answer may still be in the queue, if no
    descriptor was free for example; when it comes after all, its number shows that it is late.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor
        self._in_order = loader.in_order
        self._worker_init_fn = loader.worker_init_fn
        if self._prefetch_factor is None or self._prefetch_factor <= 0:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
            )
        self._shutdown = False
        self._epoch = 0
        self._next_look = 0.0
        context = loader.multiprocessing_context
        self._group = LoaderWorkers(
            multiprocessing.get_context() if context is None else context, self._num_workers
        )
        # Runs at the end of the program, or when this iterator is freed.
        self._finalizer = Finalize(self, self._group.end, exitpriority=_EXIT_PRIORITY)
        self._group.start(
            kind=self._dataset_kind,
            dataset=self._dataset,
            auto_collation=self._auto_collation,
            collate_fn=self._collate_fn,
            drop_last=self._drop_last,
            base_seed=self._base_seed,
            init_fn=self._worker_init_fn,
        )
        self._workers = self._group.processes
        self._index_queues = self._group.tasks
        self._reset(loader, first_iter=True)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._send_idx = 0
        #: Batches that were given out: number -> worker, in the order of numbers.
        self._task_info: dict[int, int] = {}
        #: The same for each worker.
        self._given: list[deque[int]] = [deque() for _ in self._workers]
        self._workers_status = [True] * self._num_workers
        self._turn = 0
        self._epoch += 1
        self._group.begin_epoch(self._epoch)
        self._fill()

    # --- giving out ---------------------------------------------------------------------------

    def _fill(self) -> None:
        """Assign batches until the workers have enough to do."""
        while len(self._task_info) < self._prefetch_factor * self._num_workers:
            if not self._try_put_index():
                return

    def _try_put_index(self) -> bool:
        """Assign the next batch. Returns whether there was a batch, and a worker for it."""
        worker = self._choose_worker()
        if worker is None:
            return False
        try:
            index = self._next_index()
        except StopIteration:
            return False
        self._turn = worker + 1
        try:
            self._index_queues[worker].put((self._epoch, self._send_idx, packed_index(index)))
        except StopIteration as error:
            raise not_an_end("the pickling of an index") from error
        self._task_info[self._send_idx] = worker
        self._given[worker].append(self._send_idx)
        self._send_idx += 1
        return True

    def _choose_worker(self) -> int | None:
        """Return the next worker in turn that can take another batch."""
        n_active = sum(self._workers_status)
        if n_active == 0:
            return None
        most: int = self._prefetch_factor * self._num_workers // n_active
        n_workers: int = self._num_workers
        for step in range(n_workers):
            worker = (self._turn + step) % n_workers
            is_free = self._in_order or len(self._given[worker]) < most
            if self._workers_status[worker] and is_free:
                return worker
        return None

    # --- receiving ----------------------------------------------------------------------------

    def _next_data(self) -> Any:
        while self._task_info:
            worker, data = self._get_data()
            number = self._given[worker].popleft()
            del self._task_info[number]
            if isinstance(data, _IterableDatasetStopIteration):
                self._mark_worker_as_unavailable(worker)
                self._fill()
                continue
            self._fill()
            if isinstance(data, ExceptionWrapper):
                data.reraise()
            if isinstance(data, _Unreadable):
                try:
                    raise data.error
                finally:
                    del data  # with the traceback, it would keep all this until it is collected
            return data
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _get_data(self) -> tuple[int, Any]:
        """Wait for the next answer. Returns the worker that sent it, and the answer.

        Raises:
            RuntimeError: No answer came in time, or a worker has ended.
        """
        deadline = time.monotonic() + self._timeout if self._timeout > 0 else None
        while True:
            self._look_after_workers()
            wait = _LOOK_S
            if deadline is not None:
                wait = max(min(wait, deadline - time.monotonic()), 0.0)
            answer = self._try_get_data(wait)
            if answer is not None:
                return answer
            if deadline is not None and time.monotonic() >= deadline:
                raise self._timed_out()

    def _try_get_data(self, timeout: float = _LOOK_S) -> tuple[int, Any] | None:
        """Wait a moment for the next answer of this epoch. None: there is none yet."""
        if self._in_order:
            return self._take(next(iter(self._task_info.values())), timeout)
        # The workers that have waited longest come first, so that none starves.
        waiting = dict.fromkeys(self._task_info.values())
        for worker in waiting:
            answer = self._take(worker, 0.0)
            if answer is not None:
                return answer
        connection.wait([self._group.results[worker].fileno() for worker in waiting], timeout)
        return None

    def _take(self, worker: int, timeout: float) -> tuple[int, Any] | None:
        """Take the answer that is expected of *worker*, if it comes in time.

        What comes of an earlier epoch is dropped, and so is what was reported as unreadable before.
        """
        while True:
            answer = self._received(worker, timeout)
            if answer is None:
                return None
            if isinstance(answer, _Unreadable):
                return worker, answer
            self._group.hung.discard(worker)
            epoch, number, data = answer
            if epoch != self._epoch:
                continue
            expected = self._given[worker][0]
            if number > expected:
                self._group.results[worker]._ring.give_back([answer])
                return worker, _Unreadable(_lost(expected, worker))
            # Nothing follows the end of a stream, so it counts even if it was unreadable before.
            if number == expected or isinstance(data, _IterableDatasetStopIteration):
                return worker, data

    def _received(self, worker: int, timeout: float) -> Any:
        """Receive an answer of *worker*. None: there is none in time."""
        answer, error = _get(self._group.results[worker], timeout)
        if error is None:
            return answer
        try:
            if isinstance(error, Empty | EOFError) and not is_of_message(error):
                if isinstance(error, EOFError):  # the worker has ended, or has not started yet
                    time.sleep(min(timeout, 0.01))
                return None
            raise_of_handler(error)
            # The message cannot be unpickled, or not be taken now.
            if isinstance(error, StopIteration):
                return _Unreadable(not_an_end("the unpickling of a batch"))
            return _Unreadable(error)
        finally:
            del error  # with the traceback, it would keep all this until it is collected

    def _mark_worker_as_unavailable(self, worker: int) -> None:
        """Note that a worker's stream has ended: it sends no more answers in this epoch."""
        self._workers_status[worker] = False
        for number in self._given[worker]:
            del self._task_info[number]
        self._given[worker].clear()
        if not self._persistent_workers:
            self._group.dismiss(self._index_queues[worker])

    # --- failures -----------------------------------------------------------------------------

    def _look_after_workers(self) -> None:
        """Raise if a worker has ended that should not have. Checks only from time to time."""
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + _LOOK_S
        expected = range(self._num_workers)
        if not self._persistent_workers:
            expected = [i for i in expected if self._workers_status[i]]  # type: ignore[assignment]
        dead = self._group.ended(expected)
        if not dead:
            return
        pids = ", ".join(str(self._workers[i].pid) for i in dead)
        details = "\n".join(self._group.exit_report(i) for i in dead)
        self._give_up()
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly\n{details}")

    def _timed_out(self) -> RuntimeError:
        """Return the exception that says which worker did not answer."""
        waiting = list(dict.fromkeys(self._task_info.values()))
        self._group.hung.update(waiting)
        if self._in_order:
            del waiting[1:]
        details = "\n".join(self._group.hang_report(worker) for worker in waiting)
        return RuntimeError(f"DataLoader timed out after {self._timeout} seconds\n{details}")

    def _give_up(self) -> None:
        """Expect no more answers. Running workers end by themselves, or with this iterator."""
        self._shutdown = True
        self._task_info.clear()
        self._group.stop()

    def _shutdown_workers(self) -> None:
        """End all workers, and wait until they have ended."""
        self._give_up()
        # Not by the finalizer, which runs once: an interrupted call can be made again.
        self._group.end()
        self._finalizer.cancel()


class _Unreadable:
    """An answer that could not be unpickled."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _get(results: Any, timeout: float) -> tuple[Any, Exception | None]:
    """Return a worker's next answer; or None, and what the queue raised.

    Nothing is decided or called here, where an interrupt would show the error that it came after.
    """
    try:
        try:
            return results.get(timeout=timeout), None
        except MemoryError as error:
            raise_of_handler(error)
            # The queue has the message still, and opens it once more. If this fails, too, it is
            # gone.
            try:
                return results.get(timeout=0.0), None
            except Empty:
                raise error from None
    except Exception as error:
        return None, error


def _lost(number: int, worker: int) -> RuntimeError:
    return RuntimeError(f"batch {number} is lost: DataLoader worker {worker} has sent a later one")
