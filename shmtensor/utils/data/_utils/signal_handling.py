"""Signals of worker processes: reports of crashes and hangs, and the end with the parent.

When a worker crashes or does not answer, its signal handlers write the traceback to a small unnamed
file that its parent has open. That works in any state of the interpreter.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import context, process
from multiprocessing.reduction import DupFd
from typing import Any

from shmtensor._boundary.process import set_parent_death_signal

__all__ = [
    "ParentWatch",
    "Report",
    "describe_exit",
    "interrupts_blocked",
    "is_stopped",
    "may_die_with_parent",
    "prepare_worker",
]

#: Has a worker write its traceback. The C library keeps the first real-time signals for itself.
_DUMP_SIGNAL = signal.SIGRTMIN + 5
_ANSWER_S = 0.5
_MOST_BYTES = 1 << 16
#: The function that a worker's process runs.
_OUTERMOST = "_worker_loop"


def _nameless_file() -> int:
    try:
        return os.memfd_create("shmtensor-worker", os.MFD_CLOEXEC)
    except OSError:  # an old kernel, or a sandbox
        flags = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
        return os.open(tempfile.gettempdir(), flags, 0o600)


class Report:
    """The file to which a worker's signal handlers write. It is sent to the worker at its start."""

    fd = -1

    def __init__(self, fd: int | None = None) -> None:
        self.fd = _nameless_file() if fd is None else fd

    def __reduce__(self) -> Any:
        context.assert_spawning(self)
        return _open_report, (DupFd(self.fd),)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # Bound now, because the names of modules do not exist when the interpreter ends.
        if self.fd >= 0:
            close(self.fd)
            self.fd = -1

    def text(self) -> str:
        """Return the traceback in the file, without the frames of the worker's parent."""
        return _of_worker(os.pread(self.fd, _MOST_BYTES, 0).decode("utf-8", "replace"))

    def ask(self, pid: int) -> str:
        """Return the present traceback of *pid*, the process of this report; empty: unknown."""
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)  # for both processes, which share the file position
        with contextlib.suppress(OSError):
            os.kill(pid, _DUMP_SIGNAL)
        deadline = time.monotonic() + _ANSWER_S
        text = ""
        while time.monotonic() < deadline:
            time.sleep(0.02)
            before, text = text, self.text()
            if text and text == before:
                break
        return text


def _of_worker(trace: str) -> str:
    """Remove the frames below the worker's own: a forked worker also has those of its parent."""
    kept = []
    is_below = False
    for line in trace.partition("\nExtension modules:")[0].splitlines():
        if not line.startswith("  "):
            is_below = False
        if not is_below:
            kept.append(line)
        is_below |= line.endswith(f"in {_OUTERMOST}")
    return "\n".join(kept).strip()


def _open_report(duplicate: Any) -> Report:
    """Return the report for the parent's descriptor. A starting worker unpickles this call."""
    return Report(duplicate.detach())


def prepare_worker(report: Report, dies_with_parent: bool) -> None:
    """Set up this worker process's signals.

    Args:
        report: Gets the traceback when the process crashes, or on request.
        dies_with_parent: Let the kernel kill this process when its parent ends, even when it is
            stopped or in a call that does not return.
    """
    # A forked worker inherits signal handlers, and a descriptor that an event loop reads.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    faulthandler.enable(report.fd, all_threads=True)
    faulthandler.register(_DUMP_SIGNAL, report.fd, all_threads=True, chain=False)
    if dies_with_parent:
        set_parent_death_signal(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Delay SIGINT in a process that is started in the block, until it is prepared.

    In this process, SIGINT is delayed until the block ends.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def may_die_with_parent() -> bool:
    """Whether the kernel may be told to kill a process that this thread starts with its parent.

    For the kernel, the parent is a thread. Only the main thread lives as long as the process.
    """
    return threading.current_thread() is threading.main_thread()


class ParentWatch:
    """Tells a worker whether the process that started it still runs.

    Args:
        parent_pid: Process id of the parent; 0: the parent is a fork server.
    """

    def __init__(self, parent_pid: int) -> None:
        self._parent_pid = parent_pid or os.getppid()
        self._parent = process.parent_process()

    def is_alive(self) -> bool:
        """Whether the parent runs; for a worker of a fork server, whether both run."""
        if os.getppid() != self._parent_pid:
            return False
        return self._parent is None or self._parent.is_alive()

    def arm(self) -> None:
        """Let the kernel kill this process when no process has the parent's end of a pipe any more.

        Call it after the parent has written everything to that pipe. It also works where the
        parent-death signal does not: for the kernel, the parent may be a fork server, or a thread
        that has ended.
        """
        sentinel = getattr(self._parent, "sentinel", None)
        if sentinel is None:
            return
        with contextlib.suppress(OSError):  # some sandboxes do not support it
            fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(sentinel, fcntl.F_SETSIG, signal.SIGKILL)
            flags = fcntl.fcntl(sentinel, fcntl.F_GETFL)
            fcntl.fcntl(sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)


def is_stopped(pid: int) -> bool:
    """Whether process *pid* is stopped, so that only SIGKILL and SIGCONT have an effect."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "T"
    except (OSError, IndexError):
        return False


def describe_exit(pid: int, exitcode: int | None) -> str:
    """Return how a worker ended, in torch's words."""
    if exitcode is not None and exitcode < 0:
        name = signal.strsignal(-exitcode) or f"Unknown signal {-exitcode}"
        text = f"DataLoader worker (pid {pid}) is killed by signal: {name}. "
        if -exitcode == signal.SIGBUS:
            text += (
                "It is possible that dataloader's workers are out of shared memory. "
                "Please try to raise your shared memory limit."
            )
        return text
    return (
        f"DataLoader worker (pid {pid}) exited unexpectedly with exit code {exitcode}. "
        "Details are lost due to multiprocessing. "
        "Rerunning with num_workers=0 may give better error trace."
    )
