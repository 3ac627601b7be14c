"""The end of a child with the process that started it, however that one ends.

A process keeps the writing end of a pipe, its *lifeline*, for as long as it lives and never writes.
Its children get the reading end: forked ones by inheritance, others with their configuration. The
kernel closes the writing end when the process ends, and then sends each child that wants it a
signal (``O_ASYNC``). So the child ends also when it is stopped, or in a call that does not return.

Note: the lifeline is the process's, not a thread's. The kernel's parent-death signal follows the
thread that started the child: it kills children of a thread that ends, although its process lives;
and under a fork server it follows the server. Therefore nothing here relies on it for a parent.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import threading
from multiprocessing import context, process
from multiprocessing.reduction import DupFd
from typing import Any

from shmtensor._boundary.descriptors import Descriptor
from shmtensor._boundary.process import set_parent_death_signal
from shmtensor._core._fork_locks import module_lock

__all__ = ["adopt_lifeline", "end_with_parent", "lifeline_for_child"]


class _Lifeline:
    """A process's pipe, as the process itself has it."""

    def __init__(self) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.pid = os.getpid()
        self.is_high = False
        self.reader, self.writer = Descriptor(reader, high=False), Descriptor(writer, high=False)

    def move_high(self) -> None:
        """Give it numbers that programs do not close, before a child depends on it.

        Not at once: a process with threads waits some ms for the kernel's larger table of numbers.
        """
        if not self.is_high:
            low = self.reader, self.writer
            self.reader, self.writer = (Descriptor(os.dup(end.fileno())) for end in low)
            self.is_high = True
            for end in low:
                end.close()

    def is_whole(self) -> bool:
        return self.reader.fileno() >= 0 and self.writer.fileno() >= 0

    def close(self) -> None:
        self.reader.close()
        self.writer.close()


class _Parent:
    """The process that started this one, seen by the reading end of its lifeline."""

    def __init__(self, reader: Descriptor, pid: int) -> None:
        self.reader = reader
        self.pid = pid
        self._armed: Descriptor | None = None

    def arm(self, number: int) -> bool:
        """Have the kernel send this process a signal when the parent ends; False: it cannot."""
        try:
            if self._armed is None or self._armed.fileno() < 0:
                if self.reader.fileno() < 0:
                    return False
                # Owner and signal belong to an open file, and the children share the reader's.
                path = f"/proc/self/fd/{self.reader.fileno()}"
                self._armed = Descriptor(os.open(path, os.O_RDONLY | _FLAGS))
            fd = self._armed.fileno()
            fcntl.fcntl(fd, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(fd, fcntl.F_SETSIG, number)
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_ASYNC)
        except OSError:  # no /proc, or a sandbox without such signals
            return False
        if _has_ended(fd, 0):  # before there was a signal
            os.kill(os.getpid(), number)
        return True

    def close(self) -> None:
        self.reader.close()
        if self._armed is not None:
            self._armed.close()


_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC
_mine: _Lifeline | None = None
_parent: _Parent | None = None
#: Guards both, also across a fork: no child has an end of a pipe that it does not know of.
_lock = module_lock()


def _make_mine() -> _Lifeline | None:
    """Return this process's lifeline; None where no descriptor is left. The caller has the lock."""
    global _mine
    if _mine is None or not _mine.is_whole():
        if _mine is not None:
            _mine.close()
            _mine = None
        with contextlib.suppress(OSError):
            _mine = _Lifeline()
    return _mine


def _for_a_child() -> _Lifeline | None:
    """Return the lifeline, as a child may have it. The caller has the lock."""
    line = _make_mine()
    if line is not None:
        with contextlib.suppress(OSError):  # no descriptor is left
            line.move_high()
    return line


def _before_fork() -> None:
    with _lock:
        _for_a_child()


def _after_fork_in_child() -> None:
    global _mine, _parent
    if _parent is not None:
        _parent.close()
    line, _mine, _parent = _mine, None, None
    if line is not None:
        line.writer.close()
        _parent = _Parent(line.reader, line.pid)


with _lock:
    _make_mine()  # with the import, so that starting a child opens nothing that stays
os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)


def lifeline_for_child() -> Any:
    """Return what a child that is not forked is sent for `adopt_lifeline`."""
    if context.get_spawning_popen() is None:
        return None
    with _lock:
        line = _for_a_child()
        return None if line is None else (DupFd(line.reader.fileno()), line.pid)


def adopt_lifeline(sent: Any) -> None:
    """Take over the lifeline of the process that started this one, as the child that it sent it."""
    global _parent
    if sent is None:
        return
    duplicate, pid = sent
    fd = duplicate.detach()
    os.set_inheritable(fd, False)
    with _lock:
        if _parent is not None:  # a fork server's
            _parent.close()
        _parent = _Parent(Descriptor(fd), pid)


def end_with_parent(number: int = signal.SIGKILL) -> None:
    """Kill this process, or send it *number*, when the process that started it ends.

    It works however the parent ends, whichever thread started this process, and even if this
    process is stopped. It does nothing in a process that neither `multiprocessing` nor
    ``os.fork()`` started. A child of a fork server ends with the program that asked for it; with
    SIGKILL it also ends with the server, because only the server can tell its exit status.

    Args:
        number: The signal; SIGKILL unless given.
    """
    with _lock:
        parent = _parent
        if parent is not None and parent.arm(number):
            if number == signal.SIGKILL and os.getppid() not in (0, parent.pid):
                set_parent_death_signal(number)  # the fork server has one thread
            return
    if parent is not None and parent.reader.fileno() >= 0:
        watched = parent.reader.fileno()
    else:
        standard = process.parent_process()
        if standard is None:
            return
        watched = standard.sentinel
    threading.Thread(
        target=_wait_and_end, args=(watched, number), name="shmtensor-lifeline", daemon=True
    ).start()


def _has_ended(fd: int, timeout: float | None) -> bool:
    """Whether the other ends of a pipe are closed; waits for that up to *timeout* milliseconds."""
    poll = select.poll()
    poll.register(fd, 0)
    return bool(poll.poll(timeout))


def _wait_and_end(fd: int, number: int) -> None:
    _has_ended(fd, None)
    os.kill(os.getpid(), number)
