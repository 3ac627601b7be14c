"""What a child leaves behind: a small file without a name, which it writes and its parent reads.

Writing a file cannot block when nobody reads, and works in signal handlers and in any state of the
interpreter. No other process can open, replace or forge it: it has no path that could be guessed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from multiprocessing import context
from multiprocessing.reduction import DupFd
from typing import Any

__all__ = ["Report"]

_MOST_BYTES = 1 << 20


def _nameless_file() -> int:
    try:
        return os.memfd_create("shmtensor-report", os.MFD_CLOEXEC)
    except OSError:  # an old kernel, or a sandbox
        flags = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
        return os.open(tempfile.gettempdir(), flags, 0o600)


class Report:
    """The file of one child. It is sent to the child at its start."""

    fd = -1

    def __init__(self, fd: int | None = None) -> None:
        self.fd = _nameless_file() if fd is None else fd

    def __reduce__(self) -> Any:
        context.assert_spawning(self)
        return _open_report, (DupFd(self.fd),)

    def __fspath__(self) -> str:
        """Return a path under which this process finds the file while it is open."""
        return f"/proc/self/fd/{self.fd}"

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        # Bound now, because the names of modules do not exist when the interpreter ends.
        if self.fd >= 0:
            close(self.fd)
            self.fd = -1

    def close(self) -> None:
        """Close the file in this process."""
        self.__del__()

    def write(self, text: str) -> None:
        """Replace what the file has."""
        data = text.encode("utf-8", "backslashreplace")[-_MOST_BYTES:]
        self.clear()
        os.pwrite(self.fd, data, 0)

    def clear(self) -> None:
        """Make the file empty."""
        os.ftruncate(self.fd, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)  # for both processes, which share the file position

    def text(self) -> str:
        """Return what the file has."""
        return os.pread(self.fd, _MOST_BYTES, 0).decode("utf-8", "replace")


def _open_report(duplicate: Any) -> Report:
    """Return the report for the parent's descriptor. A starting child unpickles this call."""
    return Report(duplicate.detach())
