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
from shmtensor.storage import from_files

__all__ = ["FileStore"]

_USERS = b"refcount/"


class FileStore(Store):
    """A store in a file, for processes that share a file system.

    If *world_size* is given, the last user removes the file. If killed processes have left a file,
    remove it before you use its name again.

    Args:
        file_name: Its path; created if missing.
        world_size: Number of processes.

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
        self._log = _Log(self.path)
        self._log.apply(Op.ADD, [_USERS, number_field(1)])
        weakref.finalize(self, _leave, self._log, world_size, os.getpid())

    def _ask(self, op: Op, fields: list[bytes], seconds: float) -> list[bytes]:
        deadline = time.monotonic() + seconds
        pause = 0.001
        while True:
            try:
                return self._log.apply(op, fields)
            except WaitForKeys:
                if time.monotonic() >= deadline:
                    raise timed_out(op, fields, seconds) from None
            time.sleep(pause)
            pause = min(2 * pause, 0.02)


def _leave(log: _Log, world_size: int, pid: int) -> None:
    if os.getpid() != pid:
        return
    with suppress(OSError, DistStoreError, ValueError):
        left = number_of(log.apply(Op.ADD, [_USERS, number_field(-1)])[0])
        if left <= 0 and world_size > 0:
            os.unlink(log.path)


#: Descriptors that have the lock of a file at this moment.
_locked_fds: set[int] = set()


def _close_in_child() -> None:
    """After a fork: a description that the child keeps would keep the lock, too."""
    for fd in list(_locked_fds):
        with suppress(OSError):
            os.close(fd)
    _locked_fds.clear()


os.register_at_fork(after_in_child=_close_in_child)


class _Log:
    """The file, and the table that its requests make.

    Note [Locks of files across fork]
    The lock belongs to the open description of the file, which a forked child shares. So it is
    released by name before the descriptor is closed, and a child closes its copies at once: else
    a child would keep the lock for as long as it lives. And another thread may have been in the
    middle of a request, so a child reads the file from its beginning.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._forget()
        with self._locked():
            pass

    def _forget(self) -> None:
        """Begin again: the next request reads the whole file."""
        self._table = Table()
        self._at = 0
        self._pid = os.getpid()

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            fd = from_files.open_descriptor(self.path, os.O_RDWR | os.O_CREAT)
        except ValueError as error:
            raise_of_handler(error)
            raise DistStoreError(f"not a store file: {error}") from None
        _locked_fds.add(fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            if self._pid != os.getpid():
                self._forget()
            try:
                yield fd
            finally:
                fcntl.flock(fd, fcntl.LOCK_UN)
        finally:
            _locked_fds.discard(fd)
            os.close(fd)

    def apply(self, op: int, fields: list[bytes]) -> list[bytes]:
        """Do a request after all that others have written; append it if it changes the table.

        Raises:
            OSError: It cannot be written; the file is as before.
        """
        with self._locked() as fd:
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
