"""Runs one function in several processes; this is also the standard `spawn` module.

The module can be called: ``multiprocessing.spawn(function, ...)`` calls its function `spawn`. The
names of the standard module, such as ``multiprocessing.spawn.set_executable``, work too.

A child that raises writes its traceback to a file and not to a queue, because writing a file cannot
block when nobody reads. `ProcessContext.join` waits for the first failure, ends the other processes
and raises the error of the first one.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing.connection
import multiprocessing.spawn as _standard
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from shmtensor._boundary.process import set_parent_death_signal
from shmtensor.multiprocessing._label import label_this
from shmtensor.multiprocessing._overlay import Overlay
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

log = logging.getLogger(__name__)


class ProcessException(Exception):
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
        exit_code: Its exit status; negative for a signal.
        signal_name: Name of the signal, if it was one.
    """

    __slots__ = ("exit_code", "signal_name")

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        values = (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)
        return type(self), values


def _run(fn: Callable[..., object], index: int, args: tuple[Any, ...], error_file: str) -> None:
    """Call *fn* in the child."""
    label_this(fn)
    # Let the child end when its parent is killed, also when it is not a daemon. When SIGINT is
    # ignored (in a job that a shell runs in the background), use SIGTERM.
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    set_parent_death_signal(signal.SIGTERM if ignored else signal.SIGINT)
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent ended, or the user ended both
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """A group of started processes.

    Args:
        processes: Started processes.
        error_files: For each of them, where its traceback is if it raises.

    Source:
        torch.multiprocessing.ProcessContext.
    """

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        self.error_files = error_files
        self.processes = processes
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Return the process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for the processes, or for the first one that fails.

        When one fails, the others are ended. They have *grace_period* seconds to end by themselves;
        then they get SIGTERM, and after another such period (30 seconds without one) SIGKILL.

        Args:
            timeout: Seconds to wait for a process to end; None waits forever.
            grace_period: Seconds; None: no time to end by themselves.

        Returns:
            True if all have ended well, False if some are still running.

        Raises:
            ProcessRaisedException: A process raised; the text has its traceback.
            ProcessExitedException: A process was killed or exited with another status than 0.
        """
        if not self.sentinels:
            return True
        ready = multiprocessing.connection.wait(list(self.sentinels), timeout=timeout)
        for sentinel in ready:
            index = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                self._end_others(grace_period)
                raise self._failure(index)
        return not self.sentinels

    def _join_all(self, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))

    def _end_others(self, grace_period_s: float | None) -> None:
        if grace_period_s is not None:
            self._join_all(grace_period_s)
        for process in self.processes:
            if process.is_alive():
                log.warning("Terminating process %s via signal SIGTERM", process.pid)
                process.terminate()
        self._join_all(_KILL_AFTER_S if grace_period_s is None else grace_period_s)
        for process in self.processes:
            if process.is_alive():
                log.warning(
                    "Unable to shutdown process %s via SIGTERM , forcefully exiting via SIGKILL",
                    process.pid,
                )
                process.kill()
            process.join()

    def _failure(self, index: int) -> ProcessException:
        """Return the exception that tells why a process failed."""
        process = self.processes[index]
        try:
            with open(self.error_files[index], "rb") as file:
                text = pickle.load(file)
        except (OSError, EOFError, pickle.UnpicklingError):
            return self._exit_failure(index, process)
        with contextlib.suppress(OSError):
            os.unlink(self.error_files[index])
        text = f"\n\n-- Process {index:d} terminated with the following error:\n{text}"
        return ProcessRaisedException(text, index, process.pid)

    def _exit_failure(self, index: int, process: Any) -> ProcessExitedException:
        code = process.exitcode
        if code >= 0:
            text = f"process {index:d} terminated with exit code {code:d}"
            return ProcessExitedException(text, index, process.pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        text = f"process {index:d} terminated with signal {name}"
        return ProcessExitedException(text, index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """The former name of `ProcessContext`. It warns."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, error_files)


def _error_file() -> str:
    """Return an unused path in the directory for temporary files."""
    # Only a child that raises makes the file; that the file exists means failure.
    descriptor, path = tempfile.mkstemp(prefix="shmtensor-error-", suffix=".pickle")
    os.close(descriptor)
    os.unlink(path)
    return path


def start_processes(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
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

    Source:
        torch.multiprocessing.start_processes.
    """
    context = _default_context.get_context(start_method)
    error_files = [_error_file() for _ in range(nprocs)]
    processes = [
        context.Process(target=_run, args=(fn, i, args, error_files[i]), daemon=daemon)
        for i in range(nprocs)
    ]
    in_parallel = start_method == "forkserver" and os.environ.get(ENV_VAR_PARALLEL_START) == "1"
    try:
        if in_parallel and nprocs:
            with ThreadPoolExecutor(max_workers=nprocs) as executor:
                for future in [executor.submit(process.start) for process in processes]:
                    future.result()
        else:
            for process in processes:
                process.start()
    except BaseException:
        _give_up(processes)
        raise
    started = ProcessContext(processes, error_files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def _give_up(processes: list[Any]) -> None:
    """End the processes that have started, after another could not start."""
    running = [process for process in processes if process.pid is not None]
    for process in running:
        process.terminate()
    for process in running:
        process.join()


def spawn(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
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
        args: tuple[Any, ...] = (),
        nprocs: int = 1,
        join: bool = True,
        daemon: bool = False,
        start_method: str = "spawn",
    ) -> ProcessContext | None:
        return spawn(fn, args, nprocs, join, daemon, start_method)


_CallableOverlay.install(__name__, _standard)
