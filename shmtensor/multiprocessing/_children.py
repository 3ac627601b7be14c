"""Child processes as the process that started them watches and ends them.

Note: only the process that started a child acts on it. A forked copy of the parent has copies of
its objects, and unwinds copies of its frames when it exits; it must not end what is not its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from typing import Any

from shmtensor._boundary.descriptors import Descriptor
from shmtensor._core._waits import LONGEST_S
from shmtensor.multiprocessing._stdlib import forget_child, forget_children, popen_of

__all__ = ["Child", "child_of", "end_all", "is_stopped", "kill_all", "terminate_all", "wait_all"]

#: Number of checks, a millisecond apart, in which another thread notes a status.
_N_LOOKS = 20


class Child:
    """A child process.

    Args:
        process: A process object of `multiprocessing`, started or not.

    Attributes:
        process: The same object.
    """

    def __init__(self, process: Any) -> None:
        self.process = process
        self._owner = os.getpid()
        self._has_ended = False
        self._pidfd: Descriptor | None = None
        if popen_of(process) is not None:
            self._open_pidfd()

    def start(self) -> None:
        """Start the process.

        An interrupt may come right after its start. So keep this object where it is ended from,
        before this call.
        """
        self.process.start()
        self._open_pidfd()

    def _open_pidfd(self) -> None:
        # What a fork server forks is not this process's to wait for, and its number may be another
        # process's by now.
        if popen_of(self.process).method != "forkserver":
            with contextlib.suppress(OSError, AttributeError):
                self._pidfd = Descriptor(os.pidfd_open(self.process.pid))

    def close(self) -> None:
        """Close its descriptor. Call it when the process has ended and nothing waits for it."""
        self._has_ended = True
        if self._pidfd is not None:
            self._pidfd.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        return int(self.process.pid)

    @property
    def sentinel(self) -> int:
        """A descriptor that is readable when the process has ended."""
        # The standard sentinel of a forked process stays open in what is forked meanwhile.
        number = self._pidfd_number()
        return number if number >= 0 else int(self.process.sentinel)

    def _pidfd_number(self) -> int:
        return -1 if self._pidfd is None else self._pidfd.fileno()

    def has_ended(self) -> bool:
        """Whether the process does not run: it has ended, or was never started."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the process has ended; False: it has not, in *timeout* seconds."""
        if popen_of(self.process) is None:
            return True
        if not self._has_ended and self._is_mine():
            limit = None if timeout is None else min(timeout, LONGEST_S)
            self._has_ended = bool(connection.wait([self.sentinel], limit))
        return self._has_ended

    def status(self) -> int | None:
        """Return the exit status of the process, which has ended; None: nobody knows it."""
        if popen_of(self.process) is None or not self._is_mine():
            return None
        status: int | None = self.process.exitcode
        n_looks = 0
        while status is None and n_looks < _N_LOOKS:
            time.sleep(0.001)  # another thread may have got it from the kernel just now
            status = self.process.exitcode
            n_looks += 1
        forget_child(self.process)
        return status

    def send_signal(self, number: int) -> None:
        """Send the process a signal, unless it has ended."""
        if not self._is_mine() or self.has_ended():
            return
        with contextlib.suppress(ProcessLookupError):
            if (pidfd := self._pidfd_number()) >= 0:
                signal.pidfd_send_signal(pidfd, number)
            else:
                os.kill(self.process.pid, number)

    def _is_mine(self) -> bool:
        return os.getpid() == self._owner


class _Lookalike(Child):
    """What stands for a process, though it is none of `multiprocessing`.

    A program's own context may make such objects. Of them only documented methods are called.
    """

    def __init__(self, process: Any) -> None:
        self.process = process
        self._is_started = False

    def start(self) -> None:
        self._is_started = True
        self.process.start()

    def close(self) -> None:
        pass

    @property
    def sentinel(self) -> int:
        return int(self.process.sentinel)

    def wait(self, timeout: float | None = None) -> bool:
        if not self._is_started:
            return True
        if timeout is None:
            self.process.join()
        deadline = time.monotonic() + (timeout or 0)
        while (is_alive := self.process.is_alive()) and time.monotonic() < deadline:
            time.sleep(0.01)
        return not is_alive

    def status(self) -> int | None:
        status: int | None = self.process.exitcode
        return status

    def send_signal(self, number: int) -> None:
        if self.has_ended():
            return
        if number == signal.SIGTERM:
            self.process.terminate()
        elif number == signal.SIGKILL:
            getattr(self.process, "kill", self.process.terminate)()


def child_of(process: Any) -> Child:
    """Return the child of a process object that some context has made and nobody has started."""
    return (Child if isinstance(process, BaseProcess) else _Lookalike)(process)


def wait_all(children: Iterable[Child], timeout: float) -> bool:
    """Wait until all have ended; False: some have not, in *timeout* seconds."""
    deadline = time.monotonic() + timeout
    return all(child.wait(max(0.0, deadline - time.monotonic())) for child in children)


def terminate_all(children: Iterable[Child]) -> None:
    """Ask processes to end, also those that are stopped."""
    for child in children:
        child.send_signal(signal.SIGTERM)
        child.send_signal(signal.SIGCONT)  # a stopped process handles no other signal


def end_all(children: Sequence[Child], grace: float) -> None:
    """End processes by SIGTERM, those that run on after *grace* seconds by SIGKILL; and reap them.

    Also when an exception comes in between, none of them runs any more at the end.
    """
    try:
        terminate_all(children)
        wait_all(children, grace)
    finally:
        kill_all(children)


def kill_all(children: Sequence[Child]) -> None:
    """End processes by SIGKILL, and reap them."""
    for child in children:
        child.send_signal(signal.SIGKILL)
    for child in children:
        if child.wait():
            child.status()


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, so that only SIGKILL and SIGCONT have an effect."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except (OSError, IndexError):
        return False


# A forked child does not end and join its parent's children when it exits.
os.register_at_fork(after_in_child=forget_children)
