"""A lock for processes that is free again when its holder is killed."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from types import TracebackType

__all__ = ["FileLock"]


class FileLock:
    """Holds the kernel's lock of a file inside ``with``.

    A semaphore stays taken when its holder is killed; the kernel gives a file's lock back.

    Args:
        path: The file; it is made, and stays empty.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self._pid = 0

    def __enter__(self) -> None:
        # A descriptor from before a fork would share its lock with the other process.
        if self._pid != os.getpid():
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._pid = os.getpid()
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)
