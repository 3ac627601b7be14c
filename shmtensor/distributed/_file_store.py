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

from shmtensor.distributed._errors import DistStoreError
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

__all__ = ["FileStore"]

_USERS = b"refcount/"


class FileStore(Store):
    """A store in a file, for processes that have a file system in common.

    The file is removed when *world_size* is given and its last user is gone. A file that killed
    processes have left must be removed before its name is used again.

    Args:
        file_name: Its path; it is made if it is not there.
        world_size: Number of processes.

    Raises:
        OSError: The file cannot be made.

    Source:
        torch.distributed.FileStore.
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self.path = str(file_name)
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


class _Log:
    """The file, and the table that its requests make."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._table = Table()
        self._at = 0
        with self._locked():
            pass

    @contextmanager
    def _locked(self) -> Iterator[int]:
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield fd
        finally:
            os.close(fd)  # ends the lock

    def apply(self, op: int, fields: list[bytes]) -> list[bytes]:
        """Do a request after all that others have written; append it if it changes the table."""
        with self._locked() as fd:
            self._replay(fd)
            if op not in MUTATING:
                return self._table.apply(op, fields)
            message = pack(op, fields)
            reply = self._table.apply(op, fields)
            # One write: a process that is killed here has written all or a part, which _replay
            # cuts off.
            os.pwrite(fd, message, self._at)
            self._at += len(message)
            return reply

    def _replay(self, fd: int) -> None:
        end = os.fstat(fd).st_size
        while self._at < end:
            head = os.pread(fd, 4, self._at)
            size = int.from_bytes(head, "little")
            if size > MAX_MESSAGE:
                raise DistStoreError(
                    f"{self.path} is no file of a store: a message of {size} bytes"
                )
            body = os.pread(fd, size, self._at + 4)
            if len(head) < 4 or len(body) < size:
                os.ftruncate(fd, self._at)  # its writer was killed
                return
            try:
                self._table.apply(*unpack(body))
            except (ValueError, WaitForKeys, DistStoreError) as error:
                raise DistStoreError(f"{self.path} is no file of a store: {error}") from None
            self._at += 4 + size
