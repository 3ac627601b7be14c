"""The supervisor's end of a worker's connection: whole messages, and no call that waits.

The worker's end is a standard `Connection`, whose framing this speaks: a message is preceded by
its length in 4 bytes, network order; a length of -1 says that 8 more bytes have it.
"""

from __future__ import annotations

import os
import socket
import struct
import weakref
from multiprocessing.connection import Connection

from shmtensor import _C

__all__ = ["Channel"]

_SHORT = struct.Struct("!i")
_LONG = struct.Struct("!Q")
_LONGEST_SHORT = 0x7FFFFFFF
#: Read at once while no long message is under way.
_CHUNK_BYTES = 1 << 16

#: All of this process, for its forked children.
_open: weakref.WeakSet[Channel] = weakref.WeakSet()


class Channel:
    """One end of a pair of sockets.

    `send` and `receive` are each for one thread at a time.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._socket = ours
        #: For the worker; `close_worker_end` once it has its copy.
        self.worker_end: Connection = Connection(theirs.detach())
        self._unsent: list[memoryview] = []
        self._head = bytearray()
        self._body: bytearray | None = None
        self._n_body = 0
        self.is_at_end = False
        _open.add(self)

    def fileno(self) -> int:
        """The descriptor, for selectors; -1 when closed."""
        return self._socket.fileno()

    def close_worker_end(self) -> None:
        """Close this process's copy of the worker's end."""
        if not self.worker_end.closed:
            self.worker_end.close()

    def close(self) -> None:
        """Close both ends here."""
        self.close_worker_end()
        self._socket.close()
        self._unsent.clear()
        self.is_at_end = True

    # --- sending ------------------------------------------------------------------------------

    def send(self, message: bytes | memoryview) -> bool:
        """Send a message, or its first part; returns whether nothing is left to `flush`."""
        _C._bind_message(self, message)
        n = len(message)
        head = _SHORT.pack(n) if n <= _LONGEST_SHORT else _SHORT.pack(-1) + _LONG.pack(n)
        if n <= _CHUNK_BYTES:
            self._unsent.append(memoryview(head + bytes(message)))
        else:
            self._unsent += [memoryview(head), memoryview(message)]
        return self.flush()

    def has_unsent(self) -> bool:
        """Whether `flush` has something to do."""
        return bool(self._unsent)

    def flush(self) -> bool:
        """Go on sending; returns whether nothing is left."""
        while self._unsent:
            part = self._unsent[0]
            try:
                n = self._socket.send(part)
            except BlockingIOError:
                return False
            except OSError:  # the worker is gone; whoever waits for it will find out
                self._unsent.clear()
                break
            if n == len(part):
                del self._unsent[0]
            else:
                self._unsent[0] = part[n:]
        return True

    # --- receiving ----------------------------------------------------------------------------

    def receive(self) -> list[bytearray]:
        """Take what has arrived; returns the messages that are complete, maybe none."""
        messages: list[bytearray] = []
        while not self.is_at_end:
            try:
                if self._body is None:
                    data = self._socket.recv(_CHUNK_BYTES)
                    n = len(data)
                    self._head += data
                else:
                    n = self._socket.recv_into(memoryview(self._body)[self._n_body :])
                    self._n_body += n
            except BlockingIOError:
                break
            except OSError:
                n = 0
            self.is_at_end = n == 0
            self._take_complete(messages)
        return messages

    def _take_complete(self, messages: list[bytearray]) -> None:
        """Move complete messages, and begin the body of an incomplete one."""
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
                self._body = bytearray(n)
                self._body[: len(rest)] = rest
                self._n_body = len(rest)
                return
            messages.append(rest)

    def _read_head(self) -> tuple[int, int]:
        """Bytes of the head that has arrived, 0 for none, and of the message behind it."""
        if len(self._head) < _SHORT.size:
            return 0, 0
        (n,) = _SHORT.unpack_from(self._head)
        if n >= 0:
            return _SHORT.size, n
        if len(self._head) < _SHORT.size + _LONG.size:
            return 0, 0
        return _SHORT.size + _LONG.size, _LONG.unpack_from(self._head, _SHORT.size)[0]


def _close_in_child() -> None:
    """Close a forked child's copies: workers notice the end of their pool by the last one's."""
    for channel in list(_open):
        channel._socket.close()


os.register_at_fork(after_in_child=_close_in_child)
