"""Queue classes under the module path from which some programs import them."""

from __future__ import annotations

import pickle
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Protocol

from shmtensor.multiprocessing.queues import Queue, SimpleQueue

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["ConnectionWrapper", "Queue", "SimpleQueue"]


class _Bytes(Protocol):
    """What a wrapped connection needs to have."""

    def send_bytes(self, buf: Buffer, /) -> None: ...
    def recv_bytes(self) -> bytes: ...


class ConnectionWrapper:
    """A connection that pickles with the pickler for tensors; other attributes are *conn*'s.

    Source:
        torch.multiprocessing.queue.ConnectionWrapper.
    """

    def __init__(self, conn: _Bytes) -> None:
        self.conn = conn

    def send(self, obj: object) -> None:
        """Send an object."""
        self.conn.send_bytes(ForkingPickler.dumps(obj))

    def recv(self) -> Any:
        """Receive an object.

        Raises:
            EOFError: The other end is closed and nothing is left.
        """
        return pickle.loads(self.conn.recv_bytes())

    def __getattr__(self, name: str) -> Any:
        if "conn" not in self.__dict__:  # while it is unpickled
            raise AttributeError(f"{type(self).__name__!r} object has no attribute 'conn'")
        return getattr(self.conn, name)
