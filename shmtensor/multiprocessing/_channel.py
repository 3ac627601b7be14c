"""The supervisor's end of a worker's connection: sends and receives whole messages without waiting.

The worker's end is a standard `Connection`. The framing is the same: the length of a message comes
first, in 4 bytes in network order; after a length of -1 the next 8 bytes have it.
"""

from __future__ import annotations

import os
import socket
import struct
import weakref
from multiprocessing.connection import Connection

from shmtensor import _C
from shmtensor._boundary.descriptors import Descriptor

__all__ = ["Channel"]

_SHORT = struct.Struct("!i")
_LONG = struct.Struct("!Q")
#: Bytes to read at once, except in the middle of a long message.
_CHUNK_BYTES = 1 << 16

#: All channels of this process; its forked children close them.
_open: weakref.WeakSet[Channel] = weakref.WeakSet()


class Channel:
    """One end of a pair of sockets.

    One thread at a time may use `sender`, and one may call `receive`.

    Attributes:
        sender: Gives the worker tasks.
        worker_end: For the worker. Call `close_worker_end` when the worker has its copy.
        is_at_end: The worker has closed its end.
        is_unreadable: It announced a message for which there is no memory; nothing more is read.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._socket = Descriptor(ours.detach())
        self.sender = _C._TaskSender(self._socket)
        self.worker_end: Connection = Connection(theirs.detach())
        self._head = bytearray()
        self._body: bytearray | None = None
        self._n_body = 0
        self.is_at_end = self.is_unreadable = False
        _open.add(self)

    def fileno(self) -> int:
        """The descriptor, for selectors; -1: closed."""
        return self._socket.fileno()

    def close_worker_end(self) -> None:
        """Close this process's copy of the worker's end."""
        if not self.worker_end.closed:
            self.worker_end.close()

    def close(self) -> None:
        """Close both ends in this process."""
        self.close_worker_end()
        self._socket.close()
        self.sender.drop()
        self.is_at_end = True

    def receive(self) -> list[bytearray]:
        """Read what has arrived, and return the messages that are complete, perhaps none."""
        messages: list[bytearray] = []
        while not self.is_at_end and not self.is_unreadable:
            try:
                if self._body is None:
                    data = os.read(self._socket.fileno(), _CHUNK_BYTES)
                    n = len(data)
                    self._head += data
                else:
                    n = os.readv(self._socket.fileno(), [memoryview(self._body)[self._n_body :]])
                    self._n_body += n
            except BlockingIOError:
                break
            except OSError:
                n = 0
            self.is_at_end = n == 0
            is_empty = self._body is None and n < _CHUNK_BYTES
            self._take_complete(messages)
            if is_empty and messages:
                break  # without another call that finds nothing
        return messages

    def _take_complete(self, messages: list[bytearray]) -> None:
        """Append complete messages to the list, and begin the body of an incomplete one."""
        if self._body is not None:
            if self._n_body < len(self._body):
                return
            messages.append(self._body)
            self._body = None
        while True:
            n_head, n = self._read_head()
            if n_head == 0:
                return
            rest = self._head[n_head : n_head + n]
            del self._head[: n_head + n]
            if len(rest) < n:
                try:
                    self._body = bytearray(n)
                except (MemoryError, OverflowError):
                    self.is_unreadable = True
                    return
                self._body[: len(rest)] = rest
                self._n_body = len(rest)
                return
            messages.append(rest)

    def _read_head(self) -> tuple[int, int]:
        """Return the size of the head (0: not arrived yet), and of the message after it."""
        if len(self._head) < _SHORT.size:
            return 0, 0
        (n,) = _SHORT.unpack_from(self._head)
        if n >= 0:
            return _SHORT.size, n
        if len(self._head) < _SHORT.size + _LONG.size:
            return 0, 0
        return _SHORT.size + _LONG.size, _LONG.unpack_from(self._head, _SHORT.size)[0]


def _close_in_child() -> None:
    """Close a forked child's copies.

    A worker notices the end of its pool when the last copy is closed.
    """
    for channel in list(_open):
        channel._socket.close()


os.register_at_fork(after_in_child=_close_in_child)
