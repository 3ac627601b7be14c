"""Descriptors that Python code of the library keeps: Note [Kept descriptors] in os/descriptor.h."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import TYPE_CHECKING

from shmtensor import _C

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Descriptor", "Flag"]

Descriptor = _C._Descriptor


class Flag(Descriptor):
    """A descriptor that is readable while it is set, for selectors."""

    def __new__(cls) -> Self:
        # Connected to itself, with an address that the kernel chooses. All eventfds share an inode.
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as made:
            made.bind("")
            made.connect(made.getsockname())
            return super().__new__(cls, made.detach())

    def set(self) -> None:
        """Make it readable."""
        with contextlib.suppress(OSError):  # full, which will do; or gone
            os.write(self.fileno(), b"\0")

    def clear(self) -> None:
        """Make it unreadable."""
        with contextlib.suppress(OSError):
            while True:
                os.read(self.fileno(), 1)
