"""Starts, watches and ends the worker processes of one loader."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
import warnings
from collections.abc import Iterable
from multiprocessing import connection, resource_tracker
from typing import Any

from shmtensor import _C
from shmtensor.multiprocessing._children import Child, is_stopped, kill_all
from shmtensor.multiprocessing._report import Report
from shmtensor.multiprocessing.queues import Queue
from shmtensor.utils.data._utils import MP_STATUS_CHECK_INTERVAL
from shmtensor.utils.data._utils.signal_handling import (
    ask,
    describe_exit,
    interrupts_blocked,
    traceback_in,
)
from shmtensor.utils.data._utils.worker_loop import STARTING, STOP, WorkerJob, _worker_loop

__all__ = ["LoaderWorkers"]

#: After SIGTERM; what has not gone then gets SIGKILL.
_AFTER_SIGTERM_S = 1.0
_STEP_S = 0.05


class _Messages(Queue[Any]):
    """A queue whose ``put`` raises whatever pickling raises, since the other side waits for it."""

    @staticmethod
    def _on_queue_feeder_error(e: Exception, obj: Any) -> None:
        raise e


class LoaderWorkers:
    """The worker processes, with two queues for each: one for tasks, one for results.

    Workers do not share queues, so no worker waits for another that is stopped.

    Attributes:
        hung: Workers that are not waited for when all must end.
    """

    def __init__(self, context: Any, n_workers: int) -> None:
        self._context = context
        self._pid = os.getpid()
        self._control: Any = _C.zeros(1 + n_workers, dtype=_C.int64, shared=True)
        self.tasks = [_Messages(ctx=context) for _ in range(n_workers)]
        self.results = [_Messages(ctx=context, adopt="numpy") for _ in range(n_workers)]
        self._children: list[Child] = []
        self.hung: set[int] = set()
        self._reports: list[Report] = []
        self._is_stopped = False

    def start(self, **job: Any) -> None:
        """Start all workers, or none.

        Args:
            **job: The fields of `WorkerJob` that the group does not set itself.
        """
        whole = WorkerJob(
            num_workers=len(self.tasks),
            control=self._control,
            **job,
        )
        try:
            for i in range(len(self.tasks)):
                self._start_one(whole, i)
        except BaseException:
            self.end()
            raise

    def _start_one(self, job: WorkerJob, i: int) -> None:
        report = Report()
        process = self._context.Process(
            target=_worker_loop,
            args=(job, i, self.tasks[i], self.results[i], report),
            name=f"DataLoader-worker-{i}",
            daemon=True,
        )
        child = Child(process)
        self._children.append(child)
        self._reports.append(report)
        try:
            self._launch(child)
        except (pickle.PicklingError, AttributeError, TypeError):
            warnings.warn(
                "Got pickle error when attempting to start a worker Process. This might be because "
                "the worker Process arguments are not picklable. Python 3.14+ changed the "
                "multiprocessing start method in non-Mac POSIX platforms to 'forkserver', which "
                "requires the worker Process arguments to be picklable. You can also try "
                "multiprocessing.set_start_method('fork').",
                stacklevel=2,
            )
            raise

    def _launch(self, child: Child) -> None:
        """Start a process so that an interrupt during its start prints no traceback."""
        method = self._context.get_start_method()
        if method == "forkserver":
            child.start()  # a fork server that this starts would keep the signals blocked
            return
        if method == "spawn":
            resource_tracker.getfd()  # starting it later would unblock the signals
        with interrupts_blocked():
            child.start()

    @property
    def processes(self) -> list[Any]:
        """The worker processes."""
        return [child.process for child in self._children]

    def begin_epoch(self, epoch: int) -> None:
        """Let the workers drop the work of other epochs and begin this one."""
        self._control[0] = epoch
        for tasks in self.tasks:
            tasks.put(epoch)

    # --- watching -----------------------------------------------------------------------------

    def ended(self, workers: Iterable[int]) -> list[int]:
        """Return those of *workers* that have ended."""
        return [i for i in workers if self._children[i].has_ended()]

    def exit_report(self, i: int) -> str:
        """Describe how worker *i* has ended, with its traceback if it crashed."""
        child = self._children[i]
        text = describe_exit(child.pid, child.status())
        trace = traceback_in(self._reports[i])
        return f"{text}\n{trace}" if trace else text

    def hang_report(self, i: int) -> str:
        """Describe where worker *i* is, which does not answer."""
        pid = self._children[i].pid
        if is_stopped(pid):
            return f"worker {i} (pid {pid}) is stopped by a signal"
        if self._control[1 + i].item() == STARTING:  # the signal that asks would end it now
            return f"worker {i} (pid {pid}) is still starting"
        trace = ask(self._reports[i], self._children[i])
        if not trace:
            return f"worker {i} (pid {pid}) does not say where it is"
        return f"worker {i} (pid {pid}) is here:\n{trace}"

    # --- ending -------------------------------------------------------------------------------

    def stop(self) -> None:
        """Tell all workers to end, without waiting."""
        if self._is_stopped or os.getpid() != self._pid:
            return
        self._is_stopped = True
        self._control[0] = STOP
        for tasks in self.tasks[: len(self._children)]:
            self.dismiss(tasks)

    def dismiss(self, tasks: Any) -> None:
        """Tell a queue's worker to end when it has done the tasks in the queue."""
        with contextlib.suppress(OSError):  # the worker has ended, and nobody can get the message
            tasks.put(None)
        # Messages that wait for room are of no use any more.
        tasks.cancel_join_thread()

    def end(self) -> None:
        """End all workers, by force if necessary. A second call does nothing.

        Workers have some seconds to finish their tasks, unless they are stopped or known to hang.
        """
        if os.getpid() != self._pid:
            return  # in a forked child: the workers belong to its parent
        try:
            self.stop()
            self._wait(time.monotonic() + MP_STATUS_CHECK_INTERVAL, self.hung)
            for child in self._children:
                child.send_signal(signal.SIGTERM)
            self._wait(time.monotonic() + _AFTER_SIGTERM_S, ())
        finally:
            # Also when a signal interrupts the waiting.
            kill_all(self._children)
            for tasks in self.tasks:
                _empty(tasks)
                tasks.close()
            for results in self.results:
                results.close()

    def _wait(self, deadline: float, without: Iterable[int]) -> None:
        """Wait for the workers that can end by themselves."""
        waiting = [child for i, child in enumerate(self._children) if i not in without]
        while True:
            waiting = [c for c in waiting if not c.has_ended() and not is_stopped(c.pid)]
            left = deadline - time.monotonic()
            if not waiting or left <= 0:
                return
            connection.wait([c.sentinel for c in waiting], min(left, _STEP_S))


def _empty(tasks: Any) -> None:
    """Empty a queue that nobody reads, because a thread may be waiting for room in it."""
    deadline = time.monotonic() + 1.0
    while tasks.qsize() and time.monotonic() < deadline:
        with contextlib.suppress(Exception):  # Empty, or what unpickling an index raises
            tasks.get_many(64, _STEP_S)
