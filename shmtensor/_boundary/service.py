"""Services: named values, locks and barriers for unrelated processes.

`wait_newer`, `acquire` and the barrier's functions wait at most `SLICE_MS`, so that signal handlers
run between two calls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from shmtensor._boundary.core import address_of, check, ffi, lib, pointer_to
from shmtensor._generated.errors import STATUSES

__all__ = ["MODES", "SLICE_MS", "Counters", "Entry", "Handle", "Snapshot"]

#: Names of the modes; the position is the C code.
MODES = ("rw", "ro", "cow")
SLICE_MS = 100

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
    """

    version: int
    nbytes: int
    age_s: float
    uid: int
    pid: int
    persists: bool


@dataclass(frozen=True)
class Counters:
    """The counters of a service at one moment. A limit of 0 means that there is none."""

    manager_pid: int
    n_clients: int
    n_names: int
    granted_bytes: int
    resident_bytes: int
    limit_bytes: int
    client_limit_bytes: int
    is_group: bool


def _entry(c: Any) -> Entry:
    return Entry(c.version, c.nbytes, c.age_ms / 1000, c.uid, c.pid, bool(c.persists))


class Snapshot:
    """One version of a name, whose blocks are held.

    Attributes:
        entry: The facts of the version.
        text: The publisher's description of the structure.
        storages: C addresses of the storages; the receiver owns one reference of each.
    """

    def __init__(self, pointer: Any) -> None:
        owned = ffi.gc(pointer, lib.shmt_snapshot_free)
        length = ffi.new("uint64_t *")
        chars = lib.shmt_snapshot_text(owned, length)
        self.entry = _entry(lib.shmt_snapshot_entry(owned)[0])
        self.text: bytes = ffi.buffer(chars, length[0])[:]
        self.storages = [
            address_of(lib.shmt_snapshot_storage(owned, i))
            for i in range(lib.shmt_snapshot_n_storages(owned))
        ]


class Handle:
    """A service by its name. It is joined when it is first needed."""

    def __init__(self, name: str, path: str | None, owner: int, may_start: bool) -> None:
        out = ffi.new("shmt_service **")
        c_path = ffi.NULL if path is None else ffi.new("char[]", path.encode())
        check(lib.shmt_service_create(name.encode(), c_path, owner, may_start, out))
        self._pointer = ffi.gc(out[0], lib.shmt_service_free)

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

    def new_storage(self, nbytes: int) -> int:
        """Make a storage of uninitialised bytes; return its address with a new reference."""
        out = ffi.new("shmt_storage **")
        check(lib.shmt_service_new_storage(self._pointer, nbytes, out))
        return address_of(out[0])

    def publish(self, name: str, storages: list[int], text: bytes, persist: bool) -> int:
        """Publish storages of the service under the name. Returns the version."""
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
                persist,
                out,
            )
        )
        return int(out[0])

    def unpublish(self, name: str) -> None:
        """Remove the value of the name."""
        check(lib.shmt_service_unpublish(self._pointer, name.encode()))

    def look(self, name: str) -> Entry:
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
        out = ffi.new("shmt_snapshot **")
        check(lib.shmt_snapshot_open(self._pointer, name.encode(), MODES.index(mode), out))
        return Snapshot(out[0])

    # --- locks, semaphores, barriers ----------------------------------------------------------

    def open_lock(self, name: str, kind: int, n: int) -> tuple[int, int]:
        """Return the index of a semaphore (kind 1) or barrier (2), and a token of the opener."""
        index, token = ffi.new("uint32_t *"), ffi.new("uint64_t *")
        check(lib.shmt_named_lock_open(self._pointer, name.encode(), kind, n, index, token))
        return int(index[0]), int(token[0])

    def check_lock(self, lock: tuple[int, int]) -> None:
        """Raise unless this process is still the client that opened it."""
        check(lib.shmt_named_lock_check(self._pointer, *lock))

    def acquire(self, lock: tuple[int, int], timeout_ms: int) -> int | None:
        """Take a permit. Returns its slot, or None."""
        slot = ffi.new("uint32_t *")
        taken = _waited(lib.shmt_named_lock_acquire(self._pointer, *lock, timeout_ms, slot))
        return int(slot[0]) if taken else None

    def release(self, lock: tuple[int, int], slot: int) -> None:
        """Release a permit."""
        check(lib.shmt_named_lock_release(self._pointer, *lock, slot))

    def value(self, lock: tuple[int, int]) -> int:
        """Return how many permits are free, or how many parties are missing."""
        out = ffi.new("uint32_t *")
        check(lib.shmt_named_lock_value(self._pointer, lock[0], out))
        return int(out[0])

    def arrive(self, lock: tuple[int, int]) -> tuple[int, int, bool] | None:
        """Arrive. Returns slot, phase and whether it was the last party; None: no slot is free."""
        slot, phase, last = ffi.new("uint32_t *"), ffi.new("uint32_t *"), ffi.new("int *")
        if not _waited(lib.shmt_barrier_arrive(self._pointer, *lock, slot, phase, last)):
            return None
        return int(slot[0]), int(phase[0]), bool(last[0])

    def wait_phase(self, lock: tuple[int, int], slot: int, phase: int, timeout_ms: int) -> bool:
        """Whether the phase has ended."""
        return _waited(lib.shmt_barrier_wait(self._pointer, *lock, slot, phase, timeout_ms))

    def withdraw(self, lock: tuple[int, int], slot: int, phase: int) -> bool:
        """Withdraw an arrival. False: the phase is over."""
        return bool(lib.shmt_barrier_withdraw(self._pointer, *lock, slot, phase))


def _waited(status: int) -> bool:
    if status == _TIMEOUT:
        return False
    check(status)
    return True
