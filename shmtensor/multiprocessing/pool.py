"""Pools of worker processes that survive the loss of workers.

`Pool` has the interface of the standard pool, with these differences:

- Tensors in arguments and results are sent as handles.
- If a worker is killed or exits during a task, the task's result raises `WorkerLostError` with the
  process and the signal, and a new worker starts. A ``map`` raises it after its other parts are
  done.
- ``terminate`` kills workers that ignore SIGTERM for five seconds. Missing results then raise
  `BrokenPoolError`.
- If arguments or a result cannot be unpickled, or a callback raises, only that task fails.

`ThreadPool` and all other names are the standard module's.
"""

from __future__ import annotations

import multiprocessing.pool as _standard
import operator
import os
from collections.abc import Callable, Iterable
from multiprocessing import util
from multiprocessing.pool import ThreadPool
from typing import Any

from shmtensor._core._interrupts import Condition, Event
from shmtensor.multiprocessing import context as _context
from shmtensor.multiprocessing._overlay import Overlay
from shmtensor.multiprocessing._pool_workers import (
    BrokenPoolError,
    PoolWorkers,
    TaskQueue,
    WorkerLostError,
)
from shmtensor.multiprocessing.adoption import adopted

__all__ = ["BrokenPoolError", "Pool", "ThreadPool", "WorkerLostError"]


class _Results(dict[int, Any]):
    """Results that have not arrived, by job number.

    The standard classes of results wait in ways that an interrupt can break for the supervisor:
    Note [Interrupted waits] in `shmtensor._core._interrupts`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.was_emptied: Callable[[], None] = lambda: None

    def __setitem__(self, job: int, result: Any) -> None:
        if hasattr(result, "_event"):
            result._event = Event()
        else:
            result._cond = Condition()
        super().__setitem__(job, result)

    def __delitem__(self, job: int) -> None:
        super().__delitem__(job)
        if not self:
            self.was_emptied()


class Pool(_standard.Pool):
    """A pool of worker processes that run tasks.

    Args:
        processes: Number of workers; None: the number of usable processors.
        initializer: Each worker calls it first, with *initargs*.
        initargs: Arguments of *initializer*.
        maxtasksperchild: Replace a worker after this many tasks; None: never.
        context: Makes the processes; None: the default context.
        adopt: "numpy", "torch", or both in a sequence: arrays and tensors of these libraries in
            tasks and results travel in shared memory; see `shmtensor.multiprocessing.adoption`.

    Raises:
        ValueError: *processes* or *maxtasksperchild* is less than 1, or *adopt* names another
            library.
        TypeError: *processes* is no integer, or *initializer* cannot be called.
        ModuleNotFoundError: *adopt* names torch, which is not installed.

    Source:
        multiprocessing.pool.Pool; torch.multiprocessing.pool.Pool.
    """

    def __init__(
        self,
        processes: int | None = None,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[object] = (),
        maxtasksperchild: int | None = None,
        context: _context.BaseContext | None = None,
        *,
        adopt: str | Iterable[str] | None = None,
    ) -> None:
        self._pool: list[Any] = []
        self._state = _standard.INIT  # type: ignore[attr-defined]
        if processes is None:
            processes = getattr(os, "process_cpu_count", os.cpu_count)() or 1
        processes = operator.index(processes)
        if processes < 1:
            raise ValueError("Number of processes must be at least 1")
        if maxtasksperchild is not None and (
            not hasattr(maxtasksperchild, "__index__") or maxtasksperchild <= 0
        ):
            raise ValueError("maxtasksperchild must be a positive int or None")
        if initializer is not None and not callable(initializer):
            raise TypeError("initializer must be a callable")
        self._ctx = context or _context._default_context.get_context()
        self._processes = processes
        self._maxtasksperchild = maxtasksperchild
        self._initializer = initializer
        self._initargs = initargs
        self._adopts = adopted(adopt)
        self._taskqueue = TaskQueue()
        self._cache = _Results()
        self._workers = self._make_workers()
        self._terminate = util.Finalize(self, self._workers.terminate, exitpriority=15)
        self._state = _standard.RUN  # type: ignore[attr-defined]

    def _make_workers(self) -> PoolWorkers:
        """Start the workers and their threads, which hold no reference to this pool."""
        make: Any = self.Process  # type: ignore[attr-defined]
        ctx: Any = self._ctx
        wraps: bool = self._wrap_exception  # type: ignore[attr-defined]
        workers = PoolWorkers(
            lambda **kwargs: make(ctx, **kwargs),
            self._processes,
            (self._initializer, self._initargs, self._maxtasksperchild, wraps, self._adopts),
            self._pool,
            self._cache,
            self._taskqueue,
        )
        try:
            workers.repopulate()
        except BaseException:
            workers.abandon()
            raise
        self._cache.was_emptied = workers.all_have_results
        workers.start()
        return workers

    def _repopulate_pool(self) -> None:
        self._workers.repopulate()

    def _check_running(self) -> None:
        if self._workers.breakage is not None:
            raise BrokenPoolError(str(self._workers.breakage))
        self._workers.check_is_here()
        super()._check_running()  # type: ignore[misc]

    def _map_async(
        self,
        func: Callable[..., object],
        iterable: Iterable[Any],
        mapper: Callable[..., object],
        chunksize: int | None = None,
        *callbacks: Any,
        **more_callbacks: Any,
    ) -> Any:
        self._check_running()
        # All of them now: the feeder may find less than the length that the iterable has told, or
        # an error, and what then has no task has no result.
        items = list(iterable)
        if chunksize is None:
            # The standard default divides by the number of live workers, which is 0 for a moment
            # when all were killed.
            chunksize = -(-len(items) // (4 * self._processes))
        elif operator.index(chunksize) < 1:
            raise ValueError(f"Chunksize must be 1+, not {chunksize}")
        return super()._map_async(  # type: ignore[misc]
            func, items, mapper, chunksize, *callbacks, **more_callbacks
        )

    def close(self) -> None:
        """Take no more tasks. The workers end when all tasks are done."""
        util.debug("closing pool")
        if self._state == _standard.RUN:  # type: ignore[attr-defined]
            self._workers.close()  # first: an interrupted call can be made again
            self._state = _standard.CLOSE  # type: ignore[attr-defined]

    def terminate(self) -> None:
        """End the workers at once. Missing results raise `BrokenPoolError`."""
        util.debug("terminating pool")
        self._state = _standard.TERMINATE  # type: ignore[attr-defined]
        # Not by the finalizer, which runs once: an interrupted call can be made again.
        if self._workers.is_here():
            self._workers.terminate()
            self._terminate.cancel()

    def join(self) -> None:
        """Wait until the workers have ended.

        Raises:
            ValueError: Neither `close` nor `terminate` was called.
        """
        util.debug("joining pool")
        if self._state == _standard.RUN:  # type: ignore[attr-defined]
            raise ValueError("Pool is still running")
        self._workers.join()
        for process in self._pool:
            process.join()


Overlay.install(__name__, _standard)
