"""Starts, watches and ends the worker processes of one loader."""

from __future__ import annotations

import contextlib
import os
import pickle
import time
import warnings
from collections.abc import Iterable
from multiprocessing import connection, resource_tracker
from typing import Any

from shmtensor import _C
from shmtensor.multiprocessing.queues import Queue
from shmtensor.utils.data._utils import MP_STATUS_CHECK_INTERVAL
from shmtensor.utils.data._utils.signal_handling import (
    Report,
    describe_exit,
    interrupts_blocked,
    is_stopped,
    may_die_with_parent,
)
from shmtensor.utils.data._utils.worker_loop import STARTING, STOP, WorkerJob, _worker_loop

__all__ = ["WorkerGroup"]

#: After SIGTERM; what has not gone then gets SIGKILL.
_AFTER_SIGTERM_S = 1.0
_STEP_S = 0.05


class WorkerGroup:
    """The worker processes, with two queues for each: one for tasks, one for results.

    Workers do not share queues, so no worker waits for another that is stopped.

    Attributes:
        hung: Workers that are not waited for when all must end.
    """

    def __init__(self, context: Any, n_workers: int) -> None:
        self._context = context
        self._pid = os.getpid()
        self._control: Any = _C.zeros(1 + n_workers, dtype=_C.int64, shared=True)
        self.tasks = [Queue(ctx=context) for _ in range(n_workers)]
        self.results = [Queue(ctx=context, adopt="numpy") for _ in range(n_workers)]
        self.processes: list[Any] = []
        self.hung: set[int] = set()
        self._reports: list[Report] = []
        self._is_stopped = False

    def start(self, **job: Any) -> None:
        """Start all workers, or none.

        Args:
            **job: The fields of `WorkerJob` that the group does not set itself.
        """
        is_of_server = self._context.get_start_method() == "forkserver"
        whole = WorkerJob(
            num_workers=len(self.tasks),
            control=self._control,
            parent_pid=0 if is_of_server else os.getpid(),
            dies_with_parent=not is_of_server and may_die_with_parent(),
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
        # Before the start: an interrupt may come right after it.
        self.processes.append(process)
        self._reports.append(report)
        try:
            self._launch(process)
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

    def _launch(self, process: Any) -> None:
        """Start a process so that an interrupt during its start prints no traceback."""
        method = self._context.get_start_method()
        if method == "forkserver":
            process.start()  # a fork server that this starts would keep the signals blocked
            return
        if method == "spawn":
            resource_tracker.getfd()  # starting it later would unblock the signals
        with interrupts_blocked():
            process.start()

    def begin_epoch(self, epoch: int) -> None:
        """Let the workers drop the work of other epochs and begin this one."""
        self._control[0] = epoch
        for tasks in self.tasks:
            tasks.put(epoch)

    # --- watching -----------------------------------------------------------------------------

    def ended(self, workers: Iterable[int]) -> list[int]:
        """Return those of *workers* that have ended."""
        by_sentinel = {self.processes[i].sentinel: i for i in workers}
        gone = connection.wait(list(by_sentinel), 0)
        return sorted(by_sentinel[sentinel] for sentinel in gone)  # type: ignore[index]

    def exit_report(self, i: int) -> str:
        """Describe how worker *i* has ended, with its traceback if it crashed."""
        process = self.processes[i]
        process.join(1.0)
        text = describe_exit(process.pid, process.exitcode)
        trace = self._reports[i].text()
        return f"{text}\n{trace}" if trace else text

    def hang_report(self, i: int) -> str:
        """Describe where worker *i* is, which does not answer."""
        pid = self.processes[i].pid
        if is_stopped(pid):
            return f"worker {i} (pid {pid}) is stopped by a signal"
        if self._control[1 + i].item() == STARTING:  # the signal that asks would end it now
            return f"worker {i} (pid {pid}) is still starting"
        trace = self._reports[i].ask(pid)
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
        for tasks in self.tasks[: len(self.processes)]:
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
            for process in self._running():
                process.terminate()
            self._wait(time.monotonic() + _AFTER_SIGTERM_S, ())
        finally:
            # Also when a signal interrupts the waiting.
            running = self._running()
            for process in running:
                process.kill()
            for process in running:
                process.join()
            for tasks in self.tasks:
                _empty(tasks)
                tasks.close()
            for results in self.results:
                results.close()

    def _running(self) -> list[Any]:
        return [process for process in self.processes if process.is_alive()]

    def _wait(self, deadline: float, without: Iterable[int]) -> None:
        """Wait for the workers that can end by themselves."""
        waiting = [p for i, p in enumerate(self.processes) if i not in without]
        while True:
            waiting = [p for p in waiting if p.is_alive() and not is_stopped(p.pid)]
            left = deadline - time.monotonic()
            if not waiting or left <= 0:
                return
            connection.wait([p.sentinel for p in waiting], min(left, _STEP_S))


def _empty(tasks: Any) -> None:
    """Empty a queue that nobody reads, because a thread may be waiting for room in it."""
    deadline = time.monotonic() + 1.0
    while tasks.qsize() and time.monotonic() < deadline:
        with contextlib.suppress(Exception):  # Empty, or what unpickling an index raises
            tasks.get_many(64, _STEP_S)
