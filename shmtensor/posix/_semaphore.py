"""Named POSIX semaphores."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, NoReturn

from shmtensor._boundary import storage as _c
from shmtensor.posix import _names

if TYPE_CHECKING:
    from shmtensor._boundary.storage import StorageRef
    from shmtensor.service import Service

__all__ = ["Semaphore"]

_PREFIX = "sem."
_MOST = 2**31 - 1


class Semaphore:
    """A semaphore that any program opens by ``sem_open(name, ...)``.

    **A killed process keeps its permits**: nobody knows who took one. `shmtensor.service.Semaphore`
    gives them back; take this one if a program without this package takes part.

    Args:
        name: A slash and 1 to 170 bytes, none of them a slash or 0; up to 250 with *linger* or
            without *value*.
        value: How many permits a new semaphore has, 0 to 2147483647. It is made if there is none of
            this name, and otherwise opened with the permits that it has. None: it must exist.
        mode: Permission bits of a new one; those of the umask are taken off.
        linger: The name stays until someone calls `unlink`. Otherwise each process that gave a
            *value* is an owner of the name, as in `shmtensor.posix.create`: the name is removed
            when the last owner has closed the semaphore or has ended, even if it was killed.
        service: The service whose manager removes the name; None: the user's default service.

    Raises:
        FileNotFoundError: There is none of this name, and no *value*.
        PermissionError: It is another user's.
        ValueError: The name or *value* is none; the name is that of something else; or the service
            cannot remove it, as in `shmtensor.posix.create`.
        ManagerError: The service cannot be reached.

    ``with`` takes a permit and gives it back. After a fork both processes have the semaphore.
    """

    def __init__(
        self,
        name: str,
        value: int | None = None,
        *,
        mode: int = 0o600,
        linger: bool = False,
        service: Service | None = None,
    ) -> None:
        _names.check(name, _PREFIX)
        if value is not None and not 0 <= value <= _MOST:
            raise ValueError(f"a semaphore has 0 to {_MOST} permits, got value={value}")
        if value is None and service is not None:
            raise ValueError("Semaphore(): a service is named with a value only")
        self.name = name
        self._owned: StorageRef | None = None
        self._semaphore: _names.Opened | None = (
            self._opened() if value is None else self._made(value, mode, linger, service)
        )

    @property
    def _file(self) -> str:
        return f"/{_PREFIX}{self.name[1:]}"

    def _opened(self) -> _names.Opened:
        self._check_file()
        with _names.errors_of("Semaphore()", self.name):
            return _names.Opened(_names.posix_ipc.Semaphore(self.name))

    def _check_file(self) -> None:
        """Refuse what is no semaphore: ``sem_open`` would map it whatever its size."""
        try:
            facts = os.lstat(_names.path_of(self._file))
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name) from None
        nbytes = _c.semaphore_bytes()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size < nbytes:
            raise ValueError(
                f"{self.name} is no semaphore: {_names.path_of(self._file)} is "
                f"{stat.filemode(facts.st_mode)} of {facts.st_size} bytes, a semaphore has {nbytes}"
            )

    def _made(self, value: int, mode: int, linger: bool, service: Service | None) -> _names.Opened:
        remover = _names.check_service(service, linger)
        while True:
            with contextlib.suppress(FileExistsError):
                self._make(value, mode, remover)
            with contextlib.suppress(FileNotFoundError):
                if remover is not None and self._owned is None:
                    self._own(remover)
                return self._opened()
            self._owned = None  # another program removed it meanwhile

    def _make(self, value: int, mode: int, remover: Service | None) -> None:
        if os.path.lexists(_names.path_of(self._file)):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.name)
        nbytes = _c.semaphore_bytes()
        with _names.unnamed_file(nbytes, mode) as fd:
            ref = _names.map_shared(fd, self._file, nbytes)
            _c.init_semaphore(ref, value)
            if remover is not None:
                _names.own(remover, ref, fd, self._file, is_new=True)
            _names.link(fd, self._file)
        self._owned = None if remover is None else ref

    def _own(self, remover: Service) -> None:
        """Become an owner of the semaphore that there is."""
        nbytes = _c.semaphore_bytes()
        self._check_file()
        with _names.opened_file(self._file, writable=True) as fd:
            ref = _names.map_shared(fd, self._file, nbytes)
            _names.own(remover, ref, fd, self._file, is_new=False)
        self._owned = ref

    def _of_open(self) -> _names.Opened:
        if self._semaphore is None:
            raise ValueError(f"semaphore {self.name} is closed")
        return self._semaphore

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take a permit.

        Args:
            blocking: Wait for one.
            timeout: Seconds to wait; None waits forever.

        Returns:
            Whether a permit was taken. Signal handlers run meanwhile.

        Raises:
            ValueError: The semaphore is closed, also meanwhile, or *timeout* was given without
                *blocking*.
        """
        opened = self._of_open()
        if not blocking and timeout is not None:
            raise ValueError("acquire(): a timeout goes with blocking=True only")
        try:
            _names.wait(opened.of.acquire, timeout if blocking else 0.0, self._of_open)
        except _names.posix_ipc.BusyError:
            return False
        return True

    def release(self) -> None:
        """Give a permit back, or add one.

        Raises:
            ValueError: The semaphore is closed, or has all permits that it can have.
        """
        opened = self._of_open()
        try:
            opened.of.release()
        except OSError as error:
            if error.errno != errno.EOVERFLOW:
                raise
            raise ValueError(f"semaphore {self.name} has {_MOST} permits, and no more") from None

    @property
    def value(self) -> int:
        """How many permits are free at this moment."""
        opened = self._of_open()
        return int(opened.of.value)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Remove the name; whoever has opened the semaphore keeps it.

        Args:
            missing_ok: Raise nothing if there is no such name.

        Raises:
            FileNotFoundError: There is no such name.
            PermissionError: It is another user's.
        """
        try:
            with _names.errors_of("unlink()", self.name):
                _names.posix_ipc.unlink_semaphore(self.name)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def close(self) -> None:
        """Stop using it; it may be done twice. This process is no owner from now on.

        Waits of other threads end with ValueError within a second.
        """
        self._semaphore = self._owned = None

    def __enter__(self) -> Semaphore:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "closed" if self._semaphore is None else f"value {self.value}"
        return f"<Semaphore {self.name!r}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Semaphore is opened by its name, it cannot be pickled")
