"""Services: named values, locks and barriers for unrelated processes.

`wait_newer` waits at most `SLICE_MS`, so that signal handlers run between two calls. Locks are in C
(csrc/python/ipc/named/named_lock.c).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from shmtensor._boundary.core import address_of, check, ffi, lib, place_for, pointer_to
from shmtensor._boundary.storage import StorageRef
from shmtensor._generated.errors import STATUSES

__all__ = ["MODES", "SLICE_MS", "Counters", "Entry", "Handle", "Snapshot", "kind_of_name"]

#: Names of the modes; the position is the C code.
MODES = ("rw", "ro", "cow")
#: What a name may stand for; the position is the C code.
_KINDS = ("value", "queue", "topic", "event", "server")
_KIND_BITS = {
    "queue": lib.SHMT_PUBLISH_QUEUE,
    "topic": lib.SHMT_PUBLISH_TOPIC,
    "event": lib.SHMT_PUBLISH_EVENT,
    "server": lib.SHMT_PUBLISH_SERVER,
}
SLICE_MS = 100

_OWN_SERVICE = (1 << 32) - 1
_TIMEOUT = next(status for status, row in STATUSES.items() if row[1] is TimeoutError)


@dataclass(frozen=True)
class Entry:
    """The facts of a name at one moment.

    Attributes:
        version: Number of the version; it grows with each publication of the name.
        nbytes: Bytes of all its storages together.
        age_s: Seconds since it was published.
        uid: User id of the publisher.
        pid: Process id of the publisher.
        persists: Whether the name outlives its publisher.
        kind: What the name stands for: ``"value"``, ``"queue"``, ``"topic"`` or ``"event"``.
    """

    version: int
    nbytes: int
    age_s: float
    uid: int
    pid: int
    persists: bool
    kind: str = "value"


@dataclass(frozen=True)
class Counters:
    """The counters of a service at one moment. A limit of 0 means that there is none.

    The user who runs the service, and whether it is open to a group, are what the kernel and the
    manager say.
    """

    manager_pid: int
    n_clients: int
    n_names: int
    granted_bytes: int
    resident_bytes: int
    limit_bytes: int
    client_limit_bytes: int
    is_group: bool
    owner: int


def kind_of_name(code: int) -> str:
    """Return what a name stands for; ``"unknown"`` for a code that no manager writes."""
    return _KINDS[code] if code < len(_KINDS) else "unknown"


def _entry(c: Any) -> Entry:
    kind = kind_of_name(c.kind)
    return Entry(c.version, c.nbytes, c.age_ms / 1000, c.uid, c.pid, bool(c.persists), kind)


class Snapshot:
    """One version of a name, whose blocks are held.

    Attributes:
        entry: The facts of the version.
        text: The publisher's description of the structure.
        storages: Its storages.
    """

    def __init__(self, place: Any) -> None:
        pointer = place[0]
        length = ffi.new("uint64_t *")
        chars = lib.shmt_snapshot_text(pointer, length)
        self.entry = _entry(lib.shmt_snapshot_entry(pointer)[0])
        self.text: bytes = ffi.buffer(chars, length[0])[:]
        self.storages = [
            self._storage(pointer, i) for i in range(lib.shmt_snapshot_n_storages(pointer))
        ]

    @staticmethod
    def _storage(pointer: Any, i: int) -> StorageRef:
        ref = StorageRef()
        lib.shmt_snapshot_get(pointer, i, ref.place)
        return ref.filled()


class Handle:
    """A service by its name. It is joined when it is first needed.

    Args:
        name: Its name.
        path: Path of its socket, or None.
        owner: Id of the user who runs it; None: of whatever user this process has when it needs it.
        may_start: Start it when it does not run.
    """

    def __init__(self, name: str, path: str | None, owner: int | None, may_start: bool) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a service must be a str, got {type(name).__name__}")
        if "\0" in name or "\0" in (path or ""):  # C would read what is before it
            raise ValueError(f"a service has no NUL in its name or path, got {path or name!r}")
        self._place = place_for("shmt_service *", lib.shmt_service_clear)
        c_path = ffi.NULL if path is None else ffi.new("char[]", os.fsencode(path))
        c_owner = _OWN_SERVICE if owner is None else owner
        check(lib.shmt_service_create(name.encode(), c_path, c_owner, may_start, self._place))
        self._pointer = self._place[0]

    @property
    def address(self) -> int:
        """Of the C structure, for `_C._NamedLock`."""
        return address_of(self._pointer)

    def join(self, writing: bool) -> None:
        """Join the service now."""
        check(lib.shmt_service_join(self._pointer, writing))

    def serve(self, limit_bytes: int, client_limit_bytes: int, gid: int) -> None:
        """Become the service's manager. Returns only by raising an error."""
        how = ffi.new("shmt_service_options *", (limit_bytes, client_limit_bytes, gid))
        check(lib.shmt_service_serve(self._pointer, how))

    def status(self) -> Counters:
        """Return its counters."""
        c = ffi.new("shmt_service_counters *")
        check(lib.shmt_service_status(self._pointer, c))
        values = {name: getattr(c, name) for name, _ in ffi.typeof(c[0]).fields}
        return Counters(**{**values, "is_group": bool(values["is_group"])})

    # --- values -------------------------------------------------------------------------------

    def owns(self, storage: int) -> bool:
        """Whether the storage at this address is in the service's memory."""
        return bool(lib.shmt_service_owns(self._pointer, pointer_to("shmt_storage *", storage)))

    def new_storage(self, nbytes: int) -> StorageRef:
        """Make a storage of uninitialised bytes."""
        ref = StorageRef()
        check(lib.shmt_service_new_storage(self._pointer, nbytes, ref.place))
        return ref.filled()

    def own_posix_name(self, storage: StorageRef, fd: int, name: str, is_new: bool) -> None:
        """Make a storage over a file of ``/dev/shm`` an owner of the file's name.

        The service's manager removes the name when the last owner is gone.

        Args:
            storage: It maps the file, shared and writable.
            fd: A descriptor of the file.
            name: The name, with its slash.
            is_new: The file has no name yet; it gets this one next.
        """
        check(
            lib.shmt_service_own_posix_name(
                self._pointer, storage.pointer, fd, os.fsencode(name), is_new
            )
        )

    def publish(self, name: str, storages: list[int], text: bytes, persist: bool) -> int:
        """Publish storages of the service under the name. Returns the version."""
        return self._publish(name, storages, text, lib.SHMT_PUBLISH_PERSISTS if persist else 0)

    def publish_kind(self, name: str, kind: str, storages: list[int], persist: bool) -> int:
        """Give storages the name, unless that is taken. Returns the version."""
        how = _KIND_BITS[kind] | lib.SHMT_PUBLISH_IF_NONE
        how |= lib.SHMT_PUBLISH_PERSISTS if persist else 0
        return self._publish(name, storages, b"", how)

    def _publish(self, name: str, storages: list[int], text: bytes, how: int) -> int:
        out = ffi.new("uint64_t *")
        pointers = ffi.new("shmt_storage *[]", [pointer_to("shmt_storage *", s) for s in storages])
        check(
            lib.shmt_service_publish(
                self._pointer,
                name.encode(),
                pointers,
                len(storages),
                text,
                len(text),
                how,
                out,
            )
        )
        return int(out[0])

    def unpublish(self, name: str) -> None:
        """Remove the value of the name."""
        check(lib.shmt_service_unpublish(self._pointer, name.encode()))

    def entry(self, name: str) -> Entry:
        """Return the facts of the name."""
        out = ffi.new("shmt_service_entry *")
        check(lib.shmt_service_find(self._pointer, name.encode(), out))
        return _entry(out)

    def entries(self) -> dict[str, Entry]:
        """Return the facts of all names."""
        found: dict[str, Entry] = {}
        out = ffi.new("shmt_service_entry *")
        name = ffi.new("char[]", 128)
        at = ffi.new("uint32_t *", 0)
        while True:
            check(lib.shmt_service_entry_at(self._pointer, at[0], out, name, at))
            if name[0] != b"\0":
                found[ffi.string(name).decode("utf-8", "replace")] = _entry(out)
            if at[0] == 0:
                return found

    def wait_newer(self, name: str, version: int, timeout_ms: int) -> bool:
        """Wait for a version above *version*. False: none was published in time."""
        return _waited(lib.shmt_service_wait(self._pointer, name.encode(), version, timeout_ms))

    def snapshot(self, name: str, mode: str) -> Snapshot:
        """Attach the newest version and hold its blocks."""
        place = place_for("shmt_snapshot *", lib.shmt_snapshot_clear)
        check(lib.shmt_snapshot_open(self._pointer, name.encode(), MODES.index(mode), place))
        return Snapshot(place)


def _waited(status: int) -> bool:
    if status == _TIMEOUT:
        return False
    check(status)
    return True
