"""Descriptors that Python code of the library keeps: Note [Kept descriptors] in os/descriptor.h."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
import weakref

__all__ = ["Descriptor", "Flag"]

#: Where numbers that are kept begin: at half of the limit, at most here.
_HIGH = 1024


def _identity(number: int) -> tuple[int, int, int]:
    found = os.fstat(number)
    return found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode)


def _leads_to(number: int, identity: tuple[int, int, int]) -> bool:
    try:
        return _identity(number) == identity
    except OSError:
        return False


def _close(number: int, identity: tuple[int, int, int]) -> None:
    if _leads_to(number, identity):
        os.close(number)


class Descriptor:
    """A descriptor that is used and closed only while its number is still ours.

    Args:
        number: A close-on-exec descriptor, which belongs to this object from now on.
        high: Move it to a high number, if there is one. It must be low for ``select.select``.
    """

    def __init__(self, number: int, high: bool = True) -> None:
        lowest = min(os.sysconf("SC_OPEN_MAX") // 2, _HIGH) if high else 3
        if number < lowest:
            with contextlib.suppress(OSError):  # there is none
                moved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, lowest)
                os.close(number)
                number = moved
        self._number = number
        self._identity = _identity(number)
        self._closing = weakref.finalize(self, _close, number, self._identity)
        self._closing.atexit = False

    def fileno(self) -> int:
        """The number, to be used at once; -1: it was closed, or leads elsewhere by now."""
        is_ours = self._closing.alive and _leads_to(self._number, self._identity)
        return self._number if is_ours else -1

    def close(self) -> None:
        """Close it if it is still ours, and forget it."""
        self._closing()


class Flag(Descriptor):
    """A descriptor that is readable while it is set, for selectors."""

    def __init__(self) -> None:
        # Connected to itself, with an address that the kernel chooses. All eventfds share an inode.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as made:
            made.bind("")
            made.connect(made.getsockname())
            super().__init__(made.detach())

    def set(self) -> None:
        """Make it readable."""
        with contextlib.suppress(OSError):  # full, which will do; or gone
            os.write(self.fileno(), b"\0")

    def clear(self) -> None:
        """Make it unreadable."""
        with contextlib.suppress(OSError):
            while True:
                os.read(self.fileno(), 1)
