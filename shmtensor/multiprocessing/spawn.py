"""Runs one function in several processes; this is also the standard `spawn` module.

The module can be called: ``multiprocessing.spawn(function, ...)`` calls its function `spawn`. The
names of the standard module, such as ``multiprocessing.spawn.set_executable``, work too.

A child that raises writes its traceback to a `Report` and not to a queue, because writing a file
cannot block when nobody reads. `ProcessContext.join` waits for the first failure, ends the other
processes and raises the error of the first one.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing.connection
import multiprocessing.spawn as _standard
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import util
from multiprocessing.process import BaseProcess
from typing import Any

from shmtensor._core._waits import LONGEST_S
from shmtensor.errors import ShmTensorError
from shmtensor.multiprocessing._children import Child, end_all, kill_all, terminate_all, wait_all
from shmtensor.multiprocessing._exit_status import in_words, signal_name
from shmtensor.multiprocessing._label import label_this
from shmtensor.multiprocessing._lifeline import end_with_parent
from shmtensor.multiprocessing._overlay import Overlay
from shmtensor.multiprocessing._report import Report
from shmtensor.multiprocessing.context import _default_context

__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "spawn",
    "start_processes",
]

#: When it is 1, processes of the fork server start at the same time.
ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"

#: Seconds between SIGTERM and SIGKILL when `ProcessContext.join` is given no grace period.
_KILL_AFTER_S = 30.0
#: The report of a child whose function has returned; others are tracebacks, or empty.
_DONE = "\0"

log = logging.getLogger(__name__)


class ProcessException(ShmTensorError):
    """A process failed.

    Args:
        msg: The text.
        error_index: Which of the processes, from 0 on.
        error_pid: Its process id.
    """

    __slots__ = ("error_index", "error_pid", "msg")

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process failed because its function raised; the text has the traceback."""

    __slots__ = ()


class ProcessExitedException(ProcessException):
    """A process was killed by a signal, or exited with a status other than 0.

    Args:
        msg: The text.
        error_index: Which of the processes, from 0 on.
        error_pid: Its process id.
        exit_code: Its exit status; negative for a signal; None if nobody knows it.
        signal_name: Name of the signal, if it was one.
    """

    __slots__ = ("exit_code", "signal_name")

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int | None,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        values = (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)
        return type(self), values


def _run(fn: Callable[..., object], index: int, args: tuple[object, ...], report: Report) -> None:
    """Call *fn* in the child."""
    # Let the child end when its parent is killed, also when it is not a daemon. When SIGINT is
    # ignored (in a job that a shell runs in the background), use SIGTERM.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    try:
        end_with_parent(signal.SIGTERM if ignored else signal.SIGINT)
        with _reported(report):
            label_this(fn)
            fn(index, *args)
    except KeyboardInterrupt:
        # As an interpreter that is interrupted: when all else is done, the signal ends it.
        util.Finalize(None, _end_by_interrupt, exitpriority=-1_000_000)
    except Exception:
        sys.exit(1)


@contextlib.contextmanager
def _reported(report: Report) -> Iterator[None]:
    """Write to the report how the block ends, unless by an interrupt or a failing exit."""
    try:
        yield
    except SystemExit as end:
        if not end.code:
            report.write(_DONE)
        raise
    except Exception:
        report.write(traceback.format_exc())
        raise
    report.write(_DONE)


def _end_by_interrupt() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):  # there is none, or it is closed
            stream.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    os.kill(os.getpid(), signal.SIGINT)


class ProcessContext:
    """A group of started processes.

    Args:
        processes: Started processes.
        error_files: For each of them, the report that has its traceback if it raises.

    Source:
        torch.multiprocessing.ProcessContext.
    """

    def __init__(self, processes: Sequence[BaseProcess], error_files: Sequence[object]) -> None:
        self.error_files = error_files
        self.processes = processes
        self._children = [Child(process) for process in processes]
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}
        self._failed: int | None = None  # a sentinel, until its failure is raised

    def pids(self) -> list[int]:
        """Return the process ids."""
        return [child.pid for child in self._children]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the processes, or for the first one that fails.

        If one fails, the others must end too. They have *grace_period* seconds to do so by
        themselves; then they get SIGTERM, and after the same time again (30 seconds without a grace
        period) SIGKILL.

        If SIGINT ended a process, it has failed too, unless its function handled that.

        Args:
            timeout: Seconds to wait for a process to end; None waits forever.
            grace_period: Seconds; None: no time to end by themselves.

        Returns:
            True if all have ended well, False if some are still running.

        Raises:
            ProcessRaisedException: A process raised; the text has its traceback.
            ProcessExitedException: A process was killed or exited with another status than 0.
        """
        if self._failed is None and self.sentinels:
            self._take_ended(timeout)
        if self._failed is not None:
            # An interrupt may end this; the next call goes on with the same failure.
            self._end_others(grace_period)
            failure = self._failure(self.sentinels[self._failed])
            del self.sentinels[self._failed]
            self._failed = None
            self._close_reports()
            raise failure
        if not self.sentinels:
            self._close_reports()
        return not self.sentinels

    def _take_ended(self, timeout: float | None) -> None:
        """Wait for processes that end, and forget those that ended well, up to one that failed."""
        limit = None if timeout is None else min(timeout, LONGEST_S)
        ready: Any = multiprocessing.connection.wait(list(self.sentinels), timeout=limit)
        for sentinel in ready:
            index = self.sentinels[sentinel]
            self.processes[index].join()
            if not self._has_succeeded(index):
                self._failed = sentinel
                return
            del self.sentinels[sentinel]

    def _has_succeeded(self, index: int) -> bool:
        status = self._children[index].status()
        # With SIGCHLD ignored nobody knows the status, but the child has said that it was done.
        return self._report(index) == _DONE if status is None else status == 0

    def _report(self, index: int) -> str:
        report = self.error_files[index]
        return report.text() if isinstance(report, Report) and report.fileno() >= 0 else ""

    def _close_reports(self) -> None:
        for report in self.error_files:
            if isinstance(report, Report):
                report.close()

    def _end_others(self, grace_period_s: float | None) -> None:
        try:
            if grace_period_s is not None:
                wait_all(self._children, grace_period_s)
            self._terminate_all(_KILL_AFTER_S if grace_period_s is None else grace_period_s)
        finally:
            kill_all(self._children)

    def _terminate_all(self, timeout_s: float) -> None:
        running = [child for child in self._children if not child.has_ended()]
        for child in running:
            log.warning("Terminating process %s via signal SIGTERM", child.pid)
        terminate_all(running)
        wait_all(running, timeout_s)
        for child in running:
            if not child.has_ended():
                log.warning(
                    "Unable to shutdown process %s via SIGTERM , forcefully exiting via SIGKILL",
                    child.pid,
                )

    def _failure(self, index: int) -> ProcessException:
        """Return the exception that tells why a process failed."""
        pid = self._children[index].pid
        report = self._report(index)
        if report and report != _DONE:
            text = f"\n\n-- Process {index:d} terminated with the following error:\n{report}"
            return ProcessRaisedException(text, index, pid)
        code = self._children[index].status()
        name = signal_name(code)
        if name is not None:
            text = f"process {index:d} terminated with signal {name}"
        elif code is None:
            text = f"process {index:d} {in_words(code)}"
        else:
            text = f"process {index:d} terminated with exit code {code:d}"
        return ProcessExitedException(text, index, pid, code, name)


class SpawnContext(ProcessContext):
    """The former name of `ProcessContext`. It warns."""

    def __init__(self, processes: Sequence[BaseProcess], error_files: Sequence[object]) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, error_files)


def start_processes(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call ``fn(i, *args)`` in *nprocs* processes, *i* counting from 0.

    Args:
        fn: For start methods other than ``"fork"``, a function at the top level of a module.
        args: Its further arguments. Tensors in them are shared.
        nprocs: Number of processes.
        join: Wait for them, and raise if one fails.
        daemon: Make them daemon processes.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``. With the last one and
            ``TORCH_MP_PARALLEL_START=1`` in the environment they start at the same time.

    Returns:
        None if *join*, else the context to join.

    Raises:
        ProcessRaisedException: A process raised; the text has its traceback.
        ProcessExitedException: A process was killed or exited with another status than 0.
        ValueError: *nprocs* is negative.

    Source:
        torch.multiprocessing.start_processes.
    """
    if nprocs < 0:
        raise ValueError(f"start_processes(): nprocs must not be negative, got {nprocs}")
    context = _default_context.get_context(start_method)
    reports = [Report() for _ in range(nprocs)]
    children = [
        Child(context.Process(target=_run, args=(fn, i, args, reports[i]), daemon=daemon))
        for i in range(nprocs)
    ]
    in_parallel = start_method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START) == "1"
    try:
        if in_parallel and nprocs:
            with ThreadPoolExecutor(nprocs, "shmtensor-spawn") as executor:
                for future in [executor.submit(child.start) for child in children]:
                    future.result()
        else:
            for child in children:
                child.start()
    except BaseException:
        end_all(children, _KILL_AFTER_S)
        raise
    started = ProcessContext([child.process for child in children], reports)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., object],
    args: tuple[object, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call ``fn(i, *args)`` in *nprocs* spawned processes; see `start_processes`.

    Args:
        fn: A function at the top level of a module.
        args: Its further arguments. Tensors in them are shared.
        nprocs: Number of processes.
        join: Wait for them, and raise if one fails.
        daemon: Make them daemon processes.
        start_method: Another one than ``"spawn"`` is ignored with a `FutureWarning`.

    Returns:
        None if *join*, else the context to join.

    Raises:
        ProcessRaisedException: A process raised; the text has its traceback.
        ProcessExitedException: A process was killed or exited with another status than 0.

    Source:
        torch.multiprocessing.spawn.
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t"
            " torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")


class _CallableOverlay(Overlay):
    """The module, which is the function `spawn` as well."""

    def __call__(
        self,
        fn: Callable[..., object],
        args: tuple[object, ...] = (),
        nprocs: int = 1,
        join: bool = True,
        daemon: bool = False,
        start_method: str = "spawn",
    ) -> ProcessContext | None:
        return spawn(fn, args, nprocs, join, daemon, start_method)


_CallableOverlay.install(__name__, _standard)
