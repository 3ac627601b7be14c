"""What a child leaves behind: a small file without a name, which it writes and its parent reads.

Writing a file cannot block when nobody reads, and works in signal handlers and in any state of the
interpreter. No other process can open, replace or forge it: it has no path that could be guessed.
"""

from __future__ import annotations

import os
import tempfile
from multiprocessing import context
from multiprocessing.reduction import DupFd
from typing import Any

from shmtensor._boundary.descriptors import Descriptor

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

    def __init__(self, fd: int | None = None) -> None:
        self._file = Descriptor(_nameless_file() if fd is None else fd)

    def __reduce__(self) -> Any:
        context.assert_spawning(self)
        return _open_report, (DupFd(self.fileno()),)

    def __fspath__(self) -> str:
        """Return a path under which this process finds the file while it is open."""
        return f"/proc/self/fd/{self.fileno()}"

    def fileno(self) -> int:
        """The file's descriptor; -1: it was closed."""
        return self._file.fileno()

    def close(self) -> None:
        """Close the file in this process."""
        self._file.close()

    def write(self, text: str) -> None:
        """Replace what the file has."""
        data = text.encode("utf-8", "backslashreplace")[-_MOST_BYTES:]
        fd = self.fileno()
        if fd >= 0:
            self.clear()
            os.pwrite(fd, data, 0)

    def clear(self) -> None:
        """Make the file empty."""
        fd = self.fileno()
        if fd >= 0:
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)  # for both processes, which share the file position

    def text(self) -> str:
        """Return what the file has."""
        fd = self.fileno()
        return "" if fd < 0 else os.pread(fd, _MOST_BYTES, 0).decode("utf-8", "replace")


def _open_report(duplicate: Any) -> Report:
    """Return the report for the parent's descriptor. A starting child unpickles this call."""
    return Report(duplicate.detach())
