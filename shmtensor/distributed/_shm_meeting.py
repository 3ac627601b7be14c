"""How the ranks of a group get to map the same memory.

Rank 0 makes the memory and listens on an abstract Unix socket, whose name is in the store. The
others connect, and get the descriptor when they belong to the same user. Neither the socket nor the
memory has a name that could stay behind.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct

from shmtensor._boundary import group as memory
from shmtensor._boundary.descriptors import Descriptor
from shmtensor._boundary.process import is_known_user
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor.distributed._errors import DistBackendError, DistStoreError
from shmtensor.distributed._stores import Store
from shmtensor.distributed._table import Op
from shmtensor.distributed._timeouts import Limit

__all__ = ["meet"]

_KEY = b"memory"
_CREDENTIALS = struct.Struct("iII")
#: Seconds between looks at the ranks, and for a rank to take the descriptor.
_LOOK_S, _SEND_S = 0.02, 1.0
_SHORTEST_S = 0.001  # 0 would not wait at all, and be another error


def meet(store: Store, rank: int, size: int, slot_bytes: int, limit: Limit) -> memory.GroupMemory:
    """Open the memory of a group, together with all other ranks.

    Raises:
        DistBackendError: Rank 0 is not on this machine, or has ended, or is another user's.
        DistStoreError: Ranks have not come in time.
    """
    if rank == 0:
        return _host(store, size, slot_bytes, limit)
    return _visit(store, rank, size, limit)


def _same_user(connection: socket.socket) -> bool:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(raw)[1]
    return uid == os.geteuid() and is_known_user(uid)


def _host(store: Store, size: int, slot_bytes: int, limit: Limit) -> memory.GroupMemory:
    file = Descriptor(memory.create(size, slot_bytes))
    try:
        opened = memory.GroupMemory(file.fileno(), 0, size)
        try:
            if size > 1:
                _serve(store, file, opened, size, limit)
        except BaseException:
            opened.close()
            raise
        return opened
    finally:
        file.close()


def _serve(
    store: Store, file: Descriptor, opened: memory.GroupMemory, size: int, limit: Limit
) -> None:
    """Hand the descriptor out until all ranks have opened it."""
    name = f"shmtensor-group-{secrets.token_hex(16)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("\0" + name)
        listener.listen(size + 16)
        listener.settimeout(_LOOK_S)
        store._request(Op.SET, _KEY, name.encode(), limit=limit)
        while opened.n_opened() < size:
            _check(opened, size, limit)
            try:
                connection, _ = listener.accept()
            except TimeoutError as error:
                raise_of_handler(error)
                continue
            with connection:
                _hand_out(connection, file, limit)


def _check(opened: memory.GroupMemory, size: int, limit: Limit) -> None:
    """Raise if a rank that has come has ended, or if time is over."""
    try:
        opened.check_ranks()
    except memory.Broken as broken:
        raise DistBackendError(
            f"rank {broken.rank} of the group has ended while the others were coming"
        ) from None
    if limit.is_over():
        raise DistStoreError(
            f"after {limit.seconds:g} s {opened.n_opened()} of {size} ranks have come to the group"
        )


def _hand_out(connection: socket.socket, file: Descriptor, limit: Limit) -> None:
    if not _same_user(connection):
        return
    try:
        connection.settimeout(max(min(limit.left(), _SEND_S), _SHORTEST_S))
        socket.send_fds(connection, [b"m"], [file.fileno()])
    except OSError as error:
        raise_of_handler(error)  # else it has gone


def _visit(store: Store, rank: int, size: int, limit: Limit) -> memory.GroupMemory:
    name = store._request(Op.GET, _KEY, limit=limit)[0].decode("utf-8", "replace")
    fds = _received(name, rank, limit)
    if not fds:
        raise DistBackendError("rank 0 of the group does not accept this process, or has ended")
    try:
        return memory.GroupMemory(fds[0], rank, size)
    finally:
        for fd in fds:
            os.close(fd)


def _received(name: str, rank: int, limit: Limit) -> list[int]:
    """Return the descriptors that rank 0 sends: one, or none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.settimeout(max(limit.left(), _SHORTEST_S))
            connection.connect("\0" + name)
            if not _same_user(connection):
                raise DistBackendError("rank 0 of the group belongs to another user")
            connection.settimeout(max(limit.left(), _SHORTEST_S))
            return socket.recv_fds(connection, 1, 1)[1]
        except TimeoutError as error:
            raise_of_handler(error)
            raise DistStoreError(
                f"after {limit.seconds:g} s rank 0 has not let rank {rank} into the group"
            ) from None
        except ConnectionResetError as error:
            raise_of_handler(error)
            return []
        except OSError as error:
            raise_of_handler(error)
            raise DistBackendError(
                f"rank {rank} cannot reach the memory of rank 0 ({error.strerror}): the backend "
                "shm connects processes of one machine and one network namespace"
            ) from None
