"""Locks, semaphores and barriers that unrelated processes find by name.

A permit belongs to the process that took it. When that process ends, in whatever manner, the
service's manager releases its permits. So a killed owner blocks nobody.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from shmtensor._boundary.service import SLICE_MS
from shmtensor._fork_locks import free_in_child

if TYPE_CHECKING:
    from shmtensor.service._service import Service

__all__ = ["Barrier", "Lock", "Semaphore"]

_SEMAPHORE, _BARRIER = 1, 2


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None else time.monotonic() + max(timeout, 0.0)


def _slice_ms(deadline: float | None) -> int:
    """Milliseconds to wait next; 0: the deadline has passed."""
    if deadline is None:
        return SLICE_MS
    left = deadline - time.monotonic()
    return 0 if left <= 0 else min(SLICE_MS, int(left * 1000) + 1)


class _NamedLock:
    """The base of locks. A lock is opened when it is made, and again in a forked child."""

    def __init__(self, service: Service, name: str, kind: int, n: int) -> None:
        self._service = service
        self._handle = service._handle
        self._name, self._kind, self._n = name, kind, n
        self._guard = free_in_child(threading.Lock())
        self._opened = self._handle.open_lock(name, kind, n)

    def _reopen(self) -> tuple[int, int]:
        with self._guard:
            self._opened = self._handle.open_lock(self._name, self._kind, self._n)
            return self._opened

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of {self._service!r}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} is opened by its name, it cannot be pickled")


class Semaphore(_NamedLock):
    """A semaphore with *n* permits; each permit belongs to one process at a time.

    Args:
        service: The service that has the name.
        name: 1 to 95 bytes.
        n: Number of permits, 1 to 232; must be the same in every process.

    Raises:
        ValueError: The name is in use for another kind of lock, or with another number.
        ManagerError: The service cannot be reached.
    """

    def __init__(self, service: Service, name: str, n: int = 1) -> None:
        super().__init__(service, name, _SEMAPHORE, n)
        self._held: list[tuple[tuple[int, int], int]] = []  # taken by this object: opened, slot

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take a permit.

        Args:
            blocking: Whether to wait when none is free.
            timeout: Seconds to wait; None waits forever.

        Returns:
            Whether a permit was taken.
        """
        deadline = _deadline(timeout) if blocking else time.monotonic()
        opened = self._reopen() if self._is_stale() else self._opened
        while True:
            wait_ms = _slice_ms(deadline)
            slot = self._handle.acquire(opened, wait_ms)
            if slot is not None:
                with self._guard:
                    self._held.append((opened, slot))
                return True
            if wait_ms == 0:
                return False

    def _is_stale(self) -> bool:
        try:
            self._handle.check_lock(self._opened)
        except RuntimeError:
            return True
        return False

    def release(self) -> None:
        """Release the permit that this object took last.

        Raises:
            ValueError: This object has none, or it was taken before this process was forked.
        """
        with self._guard:
            if not self._held:
                raise ValueError(f"release(): no permit of {self._name!r} was taken by this object")
            opened, slot = self._held.pop()
        try:
            self._handle.release(opened, slot)
        except RuntimeError as error:
            raise ValueError(str(error)) from error

    @property
    def value(self) -> int:
        """How many permits are free at this moment."""
        return self._handle.value(self._opened)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Lock(Semaphore):
    """A semaphore with one permit: one process holds it at a time. It is not recursive.

    Args:
        service: The service that has the name.
        name: 1 to 95 bytes.

    Raises:
        ValueError: The name is in use as a semaphore of more permits, or as a barrier.
        ManagerError: The service cannot be reached.
    """

    def __init__(self, service: Service, name: str) -> None:
        super().__init__(service, name, 1)

    def locked(self) -> bool:
        """Whether a process holds the lock."""
        return self.value == 0


class Barrier(_NamedLock):
    """A barrier at which *parties* processes wait for each other, as often as they like.

    When a waiting party is killed, another process can take its place; the others continue to wait.
    A timeout withdraws only the arrival of the caller whose time is over.

    Args:
        service: The service that has the name.
        name: 1 to 95 bytes.
        parties: Number of parties, 1 to 48; must be the same in every process.

    Raises:
        ValueError: The name is in use for another kind of lock, or with another number.
        ManagerError: The service cannot be reached.
    """

    def __init__(self, service: Service, name: str, parties: int) -> None:
        super().__init__(service, name, _BARRIER, parties)

    @property
    def parties(self) -> int:
        """Number of parties."""
        return self._n

    @property
    def n_waiting(self) -> int:
        """How many parties have arrived at this moment."""
        return self._n - self._handle.value(self._opened)

    def wait(self, timeout: float | None = None) -> bool:
        """Arrive, and wait for the other parties.

        Args:
            timeout: Seconds to wait; None waits forever.

        Returns:
            True in the party that arrived last, False in the others.

        Raises:
            TimeoutError: The others did not arrive in time. This arrival is withdrawn.
        """
        deadline = _deadline(timeout)
        opened = self._reopen()
        while (place := self._handle.arrive(opened)) is None:
            wait_ms = _slice_ms(deadline)
            if wait_ms == 0:
                raise self._late(timeout)
            time.sleep(min(wait_ms, 1) / 1000)  # the parties of the last phase are still leaving
        slot, phase, was_last = place
        if was_last:
            return True
        try:
            while True:
                wait_ms = _slice_ms(deadline)
                if self._handle.wait_phase(opened, slot, phase, wait_ms):
                    return False
                if wait_ms == 0:
                    break
        except BaseException:
            self._handle.withdraw(opened, slot, phase)
            raise
        if self._handle.withdraw(opened, slot, phase):
            raise self._late(timeout)
        return False

    def _late(self, timeout: float | None) -> TimeoutError:
        return TimeoutError(
            f"barrier {self._name!r}: {self.n_waiting} of {self._n} parties after {timeout} s"
        )
