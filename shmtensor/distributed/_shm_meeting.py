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
import time
from datetime import timedelta

from shmtensor._boundary import group as memory
from shmtensor._boundary.descriptors import Descriptor
from shmtensor._boundary.process import is_known_user
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor.distributed._errors import DistBackendError, DistStoreError
from shmtensor.distributed._stores import Store
from shmtensor.distributed._timeouts import seconds_of

__all__ = ["meet"]

_KEY = "memory"
_CREDENTIALS = struct.Struct("iII")


def meet(
    store: Store, rank: int, size: int, slot_bytes: int, timeout: timedelta
) -> memory.GroupMemory:
    """Open the memory of a group, together with all other ranks.

    Raises:
        DistBackendError: Rank 0 is not on this machine, or has ended, or is another user's.
        DistStoreError: Ranks have not come in time.
    """
    if rank == 0:
        return _host(store, size, slot_bytes, timeout)
    return _visit(store, rank, size, timeout)


def _same_user(connection: socket.socket) -> bool:
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    uid: int = _CREDENTIALS.unpack(raw)[1]
    return uid == os.geteuid() and is_known_user(uid)


def _host(store: Store, size: int, slot_bytes: int, timeout: timedelta) -> memory.GroupMemory:
    file = Descriptor(memory.create(size, slot_bytes))
    try:
        opened = memory.GroupMemory(file.fileno(), 0, size)
        try:
            if size > 1:
                _serve(store, file, opened, size, timeout)
        except BaseException:
            opened.close()
            raise
        return opened
    finally:
        file.close()


def _serve(
    store: Store, file: Descriptor, opened: memory.GroupMemory, size: int, timeout: timedelta
) -> None:
    """Hand the descriptor out until all ranks have opened it."""
    deadline = time.monotonic() + seconds_of(timeout)
    name = f"shmtensor-group-{secrets.token_hex(16)}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind("\0" + name)
        listener.listen(size + 16)
        listener.settimeout(0.02)
        store.set(_KEY, name)
        while opened.n_opened() < size:
            try:
                connection, _ = listener.accept()
            except TimeoutError as error:
                raise_of_handler(error)
                try:
                    opened.check_ranks()
                except memory.Broken as broken:
                    raise DistBackendError(
                        f"rank {broken.rank} of the group has ended while the others were coming"
                    ) from None
                if time.monotonic() > deadline:
                    raise DistStoreError(
                        f"after {seconds_of(timeout):g} s {opened.n_opened()} of {size} ranks "
                        "have come to the group"
                    ) from None
                continue
            with connection:
                if _same_user(connection):
                    try:
                        connection.settimeout(1.0)
                        socket.send_fds(connection, [b"m"], [file.fileno()])
                    except OSError as error:
                        raise_of_handler(error)  # else it has gone


def _visit(store: Store, rank: int, size: int, timeout: timedelta) -> memory.GroupMemory:
    store.wait([_KEY], timeout)
    name = store.get(_KEY).decode("utf-8", "replace")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(max(seconds_of(timeout), 0.001))
        try:
            connection.connect("\0" + name)
        except OSError as error:
            raise_of_handler(error)
            raise DistBackendError(
                f"rank {rank} cannot reach the memory of rank 0 ({error.strerror}): the backend "
                "shm connects processes of one machine and one network namespace"
            ) from None
        if not _same_user(connection):
            raise DistBackendError("rank 0 of the group belongs to another user")
        _, fds, _, _ = socket.recv_fds(connection, 1, 1)
    if not fds:
        raise DistBackendError("rank 0 of the group does not accept this process, or has ended")
    try:
        return memory.GroupMemory(fds[0], rank, size)
    finally:
        for fd in fds:
            os.close(fd)
