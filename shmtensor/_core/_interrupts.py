"""Conditions and events that an interrupted thread leaves usable.

Note [Interrupted waits]
A signal handler may raise between any two steps of Python code. `threading.Condition` takes its
lock in a method of Python: after an exception between the lock and the block of the ``with``, the
lock stays taken, and the next thread that wants it, the one that has the result, waits for ever. So
what the program's threads share with threads of ours is one of these. ``make lint`` finds others.
"""

from __future__ import annotations

import collections
import contextlib
import threading
from typing import Any

__all__ = ["Condition", "Event"]


def _as_of_locks(timeout: float | None) -> float:
    """Return a timeout as locks take it: -1 for ever, and no more than they can count."""
    return -1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)


class Condition:
    """What `threading.Condition` is, with a ``with`` that is its lock's own and so one step.

    Args:
        lock: An `RLock`; None: a new one. No thread waits that has taken it twice.
    """

    def __init__(self, lock: Any = None) -> None:
        self._lock: Any = lock or threading.RLock()
        self._waiters: collections.deque[Any] = collections.deque()

    # `with` looks up both before it calls one.
    __enter__ = property(lambda self: self._lock.__enter__)
    __exit__ = property(lambda self: self._lock.__exit__)

    @property
    def acquire(self) -> Any:
        """Take its lock, as a step of the lock's own."""
        return self._lock.acquire

    @property
    def release(self) -> Any:
        """Give its lock back."""
        return self._lock.release

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock, wait to be notified, and take it again; False: nobody did in time."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        is_notified = False
        try:
            try:
                self._lock.release()
                is_notified = waiter.acquire(timeout=_as_of_locks(timeout))
            finally:
                self._take_again()
        finally:  # an interrupt may have come in between
            self._take_again()
            if not is_notified:
                with contextlib.suppress(ValueError):
                    self._waiters.remove(waiter)
        return is_notified

    def _take_again(self) -> None:
        if not self._lock._is_owned():
            self._lock.acquire()

    def notify(self) -> None:
        """Wake one thread that waits. The caller has the lock."""
        if self._waiters:
            self._waiters.popleft().release()

    def notify_all(self) -> None:
        """Wake all threads that wait. The caller has the lock."""
        while self._waiters:
            self.notify()

    def _at_fork_reinit(self) -> None:
        self._lock = threading.RLock()
        self._waiters.clear()


class Event:
    """A `threading.Event` that is set once."""

    def __init__(self) -> None:
        self._is_set = False
        self._gate = threading.Lock()  # free when set, but for moments
        self._gate.acquire()

    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._is_set

    def set(self) -> None:
        """Wake all that wait, and let nobody wait from now on."""
        self._is_set = True
        self._open()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `set`; False: it was not called, in *timeout* seconds."""
        if not self._is_set:
            try:
                self._gate.acquire(timeout=_as_of_locks(timeout))
            finally:  # whoever waits as well
                if self._is_set:
                    self._open()
        return self._is_set

    def _open(self) -> None:
        try:
            self._gate.release()
        except RuntimeError:  # it is open
            return

    def _at_fork_reinit(self) -> None:
        self._gate = threading.Lock()
        if not self._is_set:
            self._gate.acquire()
