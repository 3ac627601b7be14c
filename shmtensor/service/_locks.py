"""Locks, semaphores and barriers that unrelated processes find by name.

A permit belongs to the process that took it. When that process ends, even if it is killed, the
service's manager releases its permits. So a killed owner blocks nobody.

C takes and releases permits (Note [Taken for a caller] in csrc/python/ipc/named/named_lock.c): if a
signal handler raises an exception, no permit stays taken without the object knowing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from shmtensor import _C
from shmtensor.errors import WaitTimeoutError

if TYPE_CHECKING:
    from typing_extensions import Self

    from shmtensor.service._service import Service

__all__ = ["Barrier", "Lock", "Semaphore"]

_SEMAPHORE, _BARRIER = 1, 2
_OPEN = 0  # a number of permits that is left open


class _NamedLock(_C._NamedLock):  # type: ignore[misc]
    """The base of locks. A lock is opened when it is made, and again in a forked child."""

    _service: Service
    _name: str
    _n: int

    @classmethod
    def _open(cls, service: Service, name: str, kind: int, n: int) -> Self:
        service._check_name(name)
        lock: Self = _C._NamedLock.__new__(cls, service._handle.address, name, kind, n)
        lock._service, lock._name, lock._n = service, name, n
        return lock

    def _state(self) -> str:
        """Say what is known without asking the service."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of {self._service!r}, {self._state()}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is opened by its name, it cannot be pickled")


class Semaphore(_NamedLock):
    """A semaphore with *n* permits; each permit belongs to one process at a time.

    Args:
        service: The service that has the name.
        name: 1 to 95 bytes.
        n: Number of permits, 1 to 232. None leaves it open: there is 1 until somebody says how
            many there are, which settles it for everybody.

    Raises:
        ValueError: The name is in use for another kind of lock, or another number was said before.
        ManagerError: The service cannot be reached.
    """

    def __new__(cls, service: Service, name: str, n: int | None = None) -> Semaphore:
        """Open it; see the class."""
        if n is None:
            n = _OPEN
        elif not 1 <= n <= _C._MOST_PERMITS:
            raise ValueError(f'"{name}" needs 1 to {_C._MOST_PERMITS} places, got {n}')
        return cls._open(service, name, _SEMAPHORE, n)  # type: ignore[no-any-return]

    if TYPE_CHECKING:

        def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool: ...
        def release(self) -> None: ...
        def __enter__(self) -> bool: ...
        def __exit__(self, *_: object) -> None: ...

    def _state(self) -> str:
        permits = {_OPEN: "some permits", 1: "1 permit"}.get(self._n, f"{self._n} permits")
        return f"{permits}, {self._n_held} taken here"

    @property
    def value(self) -> int:
        """How many permits are free at this moment."""
        return int(self._n_free)


class Lock(Semaphore):
    """A semaphore with one permit: one process has it at a time. It is not recursive.

    Args:
        service: The service that has the name.
        name: 1 to 95 bytes.

    Raises:
        ValueError: The name is in use as a semaphore of more permits, or as a barrier.
        ManagerError: The service cannot be reached.
    """

    def __new__(cls, service: Service, name: str) -> Lock:
        """Open it; see the class."""
        return cls._open(service, name, _SEMAPHORE, 1)  # type: ignore[no-any-return]

    def _state(self) -> str:
        return "taken here" if self._n_held else "not taken here"

    def locked(self) -> bool:
        """Whether a process has the lock."""
        return self.value == 0


class Barrier(_NamedLock):
    """A barrier at which *parties* processes wait for each other, as often as they like.

    If a waiting party is killed, another process can take its place; the others continue to wait.
    A timeout or an exception withdraws only the arrival of its own caller.

    Args:
        service: The service that has the name.
        name: 1 to 95 bytes.
        parties: Number of parties, 1 to 48; must be the same in every process.

    Raises:
        ValueError: The name is in use for another kind of lock, or with another number.
        ManagerError: The service cannot be reached.
    """

    def __new__(cls, service: Service, name: str, parties: int) -> Barrier:
        """Open it; see the class."""
        if not 1 <= parties <= _C._MOST_PARTIES:
            raise ValueError(f'"{name}" needs 1 to {_C._MOST_PARTIES} places, got {parties}')
        return cls._open(service, name, _BARRIER, parties)  # type: ignore[no-any-return]

    def _state(self) -> str:
        return f"{self._n} parties"

    @property
    def parties(self) -> int:
        """Number of parties."""
        return self._n

    @property
    def n_waiting(self) -> int:
        """How many parties have arrived at this moment."""
        return int(self._n - self._n_free)

    def wait(self, timeout: float | None = None) -> bool:
        """Arrive, and wait for the other parties.

        Args:
            timeout: Seconds to wait; None waits forever.

        Returns:
            True in the party that arrived last, False in the others.

        Raises:
            WaitTimeoutError: The others did not arrive in time. This arrival is withdrawn. It is a
                TimeoutError.
        """
        was_last: bool | None = self._wait(timeout)
        if was_last is None:
            raise WaitTimeoutError(
                f"barrier {self._name!r}: {self.n_waiting} of {self._n} parties after {timeout} s"
            )
        return was_last
