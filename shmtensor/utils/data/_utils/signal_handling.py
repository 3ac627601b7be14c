"""What becomes of a worker process: how it ends, and where it was.

The traceback of a worker that crashes, or does not answer, is written by its signal handlers into
a small file without a name that its parent has open, whatever state its interpreter is in.
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
    """The file that a worker's signal handlers write to; it travels when its worker is started."""

    fd = -1

    def __init__(self, fd: int | None = None) -> None:
        self.fd = _nameless_file() if fd is None else fd

    def __reduce__(self) -> Any:
        context.assert_spawning(self)
        return _open_report, (DupFd(self.fd),)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # Bound now: at the end of the interpreter the names of modules are gone.
        if self.fd >= 0:
            close(self.fd)
            self.fd = -1

    def text(self) -> str:
        """The traceback that is written there, as far as it is of the worker."""
        return _of_worker(os.pread(self.fd, _MOST_BYTES, 0).decode("utf-8", "replace"))

    def ask(self, pid: int) -> str:
        """Return where process *pid*, whose report this is, is at the moment; empty if unknown."""
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)  # of both processes: they share the position
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
    """Leave out what lies below a worker: a forked one has the frames of its parent."""
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
    """Return the report of the parent's descriptor; what a starting worker unpickles."""
    return Report(duplicate.detach())


def prepare_worker(report: Report, dies_with_parent: bool) -> None:
    """Set this worker process's signals.

    Args:
        report: Gets the traceback when the process crashes, or is asked.
        dies_with_parent: Have the kernel kill this process when its parent ends, even if it is
            stopped or does not come back from a call.
    """
    # What a forked worker has of its parent: handlers, and a descriptor that an event loop reads.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    faulthandler.enable(report.fd, all_threads=True)
    faulthandler.register(_DUMP_SIGNAL, report.fd, all_threads=True, chain=False)
    if dies_with_parent:
        set_parent_death_signal(signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Have a process that is started in the block put SIGINT off until it is prepared.

    In this process too it comes when the block ends.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def may_die_with_parent() -> bool:
    """Whether a process that this thread starts may be killed by the kernel with its parent.

    The kernel's parent of a process is a thread; only the main one lives as long as the process.
    """
    return threading.current_thread() is threading.main_thread()


class ParentWatch:
    """Tells a worker whether the process that started it still runs.

    Args:
        parent_pid: Whose child it is; 0: its fork server's.
    """

    def __init__(self, parent_pid: int) -> None:
        self._parent_pid = parent_pid or os.getppid()
        self._parent = process.parent_process()

    def is_alive(self) -> bool:
        """Whether the parent runs; of a worker of a fork server, whether both run."""
        if os.getppid() != self._parent_pid:
            return False
        return self._parent is None or self._parent.is_alive()

    def arm(self) -> None:
        """Have the kernel kill this process when nobody has the parent's end of a pipe any more.

        To be called when the parent has written all to that pipe that it ever will. It works where
        the signal of a parent's death does not: the kernel's parent may be a fork server, or a
        thread that has ended.
        """
        sentinel = getattr(self._parent, "sentinel", None)
        if sentinel is None:
            return
        with contextlib.suppress(OSError):  # some sandboxes have none of this
            fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(sentinel, fcntl.F_SETSIG, signal.SIGKILL)
            flags = fcntl.fcntl(sentinel, fcntl.F_GETFL)
            fcntl.fcntl(sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)


def is_stopped(pid: int) -> bool:
    """Whether process *pid* is stopped by a signal, and will not act on any but SIGKILL."""
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
