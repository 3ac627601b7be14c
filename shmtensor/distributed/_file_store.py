"""A store in a file: the requests that change it, one after the other.

Every process replays the requests that it has not seen, under a lock on the file.
"""

from __future__ import annotations

import fcntl
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shmtensor._core._signal_handlers import came_from_handler, raise_of_handler
from shmtensor.distributed._errors import DistStoreError, QueueEmptyError
from shmtensor.distributed._stores import Store
from shmtensor.distributed._table import (
    MAX_MESSAGE,
    MUTATING,
    Op,
    Table,
    WaitForKeys,
    number_field,
    number_of,
    pack,
    timed_out,
    unpack,
)
from shmtensor.distributed._timeouts import Limit
from shmtensor.storage import from_files

__all__ = ["FileStore"]

# Keys of the store itself: how many use it now, and how many have finished.
_USERS, _FINISHED = b"refcount/", b"cleanup/"


class FileStore(Store):
    """A store in a file, for processes that share a file system.

    If *world_size* is given, the file is removed once so many users have finished and nobody uses
    it. If killed processes have left a file, remove it before you use its name again.

    Args:
        file_name: Its path; created if missing.
        world_size: Number of processes; negative: not known, and nobody removes the file.

    Raises:
        OSError: The file cannot be created. Later: a request could not be written, for example to
            a full disk; the file is as before.

    Source:
        torch.distributed.FileStore.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = os.fsdecode(file_name)
        self.world_size = world_size
        self._log = _Log(os.path.abspath(self.path))
        self._log.join()
        weakref.finalize(self, _leave, self._log, world_size, os.getpid())

    def _ask(self, op: Op, fields: list[bytes], limit: Limit) -> list[bytes]:
        pause = 0.001
        while True:
            try:
                return self._log.apply(op, fields)
            except WaitForKeys:
                if limit.is_over():
                    raise timed_out(op, fields, limit.seconds) from None
            time.sleep(min(pause, limit.left()))
            pause = min(2 * pause, 0.02)


def _leave(log: _Log, world_size: int, pid: int) -> None:
    if os.getpid() != pid:
        return
    with suppress(OSError, DistStoreError, ValueError):
        log.leave(world_size)


#: Descriptors that have the lock of a file at this moment.
_locked_fds: set[int] = set()


def _close_in_child() -> None:
    """After a fork: a description that the child keeps would keep the lock, too."""
    for fd in list(_locked_fds):
        with suppress(OSError):
            os.close(fd)
    _locked_fds.clear()


os.register_at_fork(after_in_child=_close_in_child)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


class _Log:
    """The file, and the table that its requests make.

    The last user removes the file under its lock. Whoever has opened it and waits for the lock then
    finds that the path leads elsewhere, and opens what is there, or a new file.

    Note [Locks of files across fork]
    The lock belongs to the open description of the file, which a forked child shares. So it is
    released by name before the descriptor is closed, and a child closes its copies at once: else
    a child would keep the lock for as long as it lives. And another thread may have been in the
    middle of a request, so a child reads the file from its beginning.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: tuple[int, int] | None = None
        self._joined: tuple[int, int] | None = None
        self._forget()

    def _forget(self) -> None:
        """Begin again: the next request reads the whole file."""
        self._table = Table()
        self._at = 0
        self._pid = os.getpid()

    def _open(self, flags: int) -> int:
        try:
            return from_files.open_descriptor(self.path, os.O_RDWR | flags)
        except ValueError as error:
            raise_of_handler(error)
            raise DistStoreError(f"not a store file: {error}") from None

    @contextmanager
    def _held(self, flags: int) -> Iterator[tuple[int, bool]]:
        """Open and lock what the path leads to; also yields whether it led there still."""
        fd = self._open(flags)
        _locked_fds.add(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            try:
                yield fd, self._leads_to(fd)
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            _locked_fds.discard(fd)
            os.close(fd)

    def _leads_to(self, fd: int) -> bool:
        try:
            return _identity(os.stat(self.path)) == _identity(os.fstat(fd))
        except FileNotFoundError:
            return False

    @contextmanager
    def _locked(self, flags: int = os.O_CREAT) -> Iterator[int]:
        """Open and lock the file that the path leads to; yields its descriptor."""
        while True:
            with self._held(flags) as (fd, is_there):
                if not is_there:  # removed while we waited
                    continue
                file = _identity(os.fstat(fd))
                if (self._pid, self._file) != (os.getpid(), file):
                    self._forget()
                    self._file = file
                yield fd
                return

    def apply(self, op: int, fields: list[bytes]) -> list[bytes]:
        """Do a request after all that others have written; append it if it changes the table.

        Raises:
            OSError: It cannot be written; the file is as before.
        """
        with self._locked() as fd:
            return self._apply(fd, op, fields)

    def join(self) -> None:
        """Count one user more.

        Raises:
            OSError: The file cannot be created or written.
            DistStoreError: It is not a store file.
        """
        with self._locked() as fd:
            self._apply(fd, Op.ADD, [_USERS, number_field(1)])
            self._joined = self._file

    def leave(self, world_size: int) -> None:
        """Count one user less, and one more that has finished; the last one removes the file.

        Raises:
            OSError: The file is not there any more, or it cannot be written.
        """
        with self._locked(flags=0) as fd:
            if self._file != self._joined:  # made anew, by others who have not counted us
                return
            n_finished = number_of(self._apply(fd, Op.ADD, [_FINISHED, number_field(1)])[0])
            n_users = number_of(self._apply(fd, Op.ADD, [_USERS, number_field(-1)])[0])
            if n_users <= 0 and 0 <= world_size <= n_finished:
                os.unlink(self.path)

    def _apply(self, fd: int, op: int, fields: list[bytes]) -> list[bytes]:
        try:
            self._replay(fd)
            if op not in MUTATING:
                return self._table.apply(op, fields)
            message = pack(op, fields)
            reply = self._table.apply(op, fields)
            self._write(fd, message)
        except BaseException as error:
            is_of_request = isinstance(error, (WaitForKeys, QueueEmptyError, ValueError))
            if not is_of_request or came_from_handler(error):
                self._forget()  # the table may have what the file has not
            raise
        return reply

    def _write(self, fd: int, message: bytes) -> None:
        """Append a message, whole or not at all. If this is killed, _replay cuts off the part."""
        done = 0
        try:
            while done < len(message):
                done += os.pwrite(fd, message[done:], self._at + done)
        except BaseException as error:
            os.ftruncate(fd, self._at)
            raise_of_handler(error)
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, self.path) from None
            raise
        self._at += len(message)

    def _replay(self, fd: int) -> None:
        end = os.fstat(fd).st_size
        if end < self._at:  # the file was made anew
            self._forget()
        while self._at < end:
            head = os.pread(fd, 4, self._at)
            size = int.from_bytes(head, "little")
            if len(head) == 4 and not 0 < size <= MAX_MESSAGE:
                raise DistStoreError(f"{self.path} is not a store file: a message of {size} bytes")
            body = os.pread(fd, size, self._at + 4)
            if len(head) < 4 or len(body) < size:
                os.ftruncate(fd, self._at)  # its writer was killed
                return
            try:
                self._table.apply(*unpack(body))
            except (ValueError, WaitForKeys, DistStoreError) as error:
                raise_of_handler(error)
                raise DistStoreError(f"{self.path} is not a store file: {error}") from None
            self._at += 4 + size
