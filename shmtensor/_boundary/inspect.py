"""Inspectors of sessions: the tables of the control file as Python values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from shmtensor._boundary.core import c_text, check, ffi, lib, place_for, text
from shmtensor._boundary.service import kind_of_name

__all__ = ["Inspector"]

_MAX_CLIENTS = 4608
_BATCH = 1024
_NAME_BYTES = 128


def _fields(struct: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the fields of a C structure: numbers as int, truths as bool, characters as str."""
    fields: dict[str, Any] = {}
    for name, field in ffi.typeof(struct).fields:
        if name not in skip:
            value = getattr(struct, name)
            if field.type.kind == "array":
                fields[name] = text(value)
            else:
                is_truth = name.startswith("is_") or name == "persists"
                fields[name] = bool(value) if is_truth else int(value)
    return fields


def _name_fields(view: Any) -> dict[str, Any]:
    fields = _fields(view)
    return {**fields, "kind": kind_of_name(fields["kind"])}


def _record() -> np.dtype[Any]:
    """NumPy's description of a ``shmt_block_view``."""
    kind = ffi.typeof("shmt_block_view")
    formats = {"uint32_t": "<u4", "uint64_t": "<u8", "uint64_t[72]": "(72,)<u8", "char[56]": "S56"}
    return np.dtype(
        {
            "names": [name for name, _ in kind.fields],
            "formats": [formats[field.type.cname] for _, field in kind.fields],
            "offsets": [field.offset for _, field in kind.fields],
            "itemsize": ffi.sizeof(kind),
        }
    )


_RECORD = _record()


class Inspector:
    """Read-only access to one session. It does not join the session and stops no process.

    Args:
        address: The manager's abstract socket without the ``@``, or its path.
        owner: Id of the user whose session it is; None: this user.
        session: The number of a session whose manager was killed; its files are opened through a
            member. Used when *address* is empty.

    Raises:
        ManagerError: No manager of the owner listens there, it does not admit this user, or no
            process has the files.
    """

    def __init__(self, address: str = "", owner: int | None = None, session: int = 0) -> None:
        place = place_for("shmt_inspector *", lib.shmt_inspector_clear)
        if address:
            of = os.geteuid() if owner is None else owner
            check(lib.shmt_inspector_open(c_text(address), of, place))
        else:
            check(lib.shmt_inspector_open_members(session, place))
        self._place: Any = place
        self._clients = ffi.new("shmt_client_view[]", _MAX_CLIENTS)

    def close(self) -> None:
        """Close the session's files, once no other thread is in a call any more."""
        self._place = None

    def _call(self, function: Any, *arguments: Any) -> Any:
        """Call a function of the inspector.

        Raises:
            ValueError: The session was closed here.
        """
        place = self._place  # which keeps the files open if another thread closes this meanwhile
        if place is None:
            raise ValueError("the session is closed")
        return function(place[0], *arguments)

    def manager(self) -> dict[str, int]:
        """Return the counters of the manager.

        Raises:
            ManagerError: It does not answer.
        """
        out = ffi.new("shmt_manager_view *")
        check(self._call(lib.shmt_inspector_manager, out))
        return _fields(out[0])

    def trim(self) -> int:
        """Return idle memory to the kernel. Returns the bytes that the arena still occupies."""
        out = ffi.new("uint64_t *")
        check(self._call(lib.shmt_inspector_trim, out))
        return int(out[0])

    def gc(self, age_ms: int) -> int:
        """End the leases of messages older than *age_ms* milliseconds. Returns how many."""
        out = ffi.new("uint64_t *")
        check(self._call(lib.shmt_inspector_gc, age_ms, out))
        return int(out[0])

    def count(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Count the blocks; return the fields of the session, and those of each client."""
        session = ffi.new("shmt_session_view *")
        n = ffi.new("uint32_t *")
        check(self._call(lib.shmt_inspector_count, session, self._clients, _MAX_CLIENTS, n))
        return _fields(session[0]), [_fields(self._clients[i]) for i in range(n[0])]

    def queue(self, block: int) -> dict[str, int] | None:
        """Return the fields of the queue in a block; None: there is none any more."""
        out = ffi.new("shmt_queue_view *")
        return _fields(out[0]) if self._call(lib.shmt_inspector_queue, block, out) else None

    def topic(self, block: int) -> dict[str, int] | None:
        """Return the fields of the topic whose table is in a block; None: there is none."""
        out = ffi.new("shmt_topic_view *")
        return _fields(out[0]) if self._call(lib.shmt_inspector_topic, block, out) else None

    def name(self, name: str) -> tuple[dict[str, Any], tuple[int, ...]] | None:
        """Return the fields of a published name, and the blocks of its storages."""
        out = ffi.new("shmt_name_view *")
        if not self._call(lib.shmt_inspector_name, c_text(name), out):
            return None
        return _name_fields(out[0]), self._blocks_of_name(out)

    def names(self) -> Iterator[tuple[str, dict[str, Any], tuple[int, ...]]]:
        """Iterate over the published names: each with what `name` returns."""
        out, name = ffi.new("shmt_name_view *"), ffi.new("char[]", _NAME_BYTES + 1)
        following = 0
        while True:
            following = self._call(lib.shmt_inspector_next_name, following, out, name)
            if following == 0:
                return
            yield text(name), _name_fields(out[0]), self._blocks_of_name(out)

    def _blocks_of_name(self, view: Any) -> tuple[int, ...]:
        capacity = 0
        while True:
            numbers = ffi.new("uint32_t[]", capacity)
            n = self._call(lib.shmt_inspector_name_blocks, view, numbers, capacity)
            if n <= capacity:
                return tuple(int(numbers[i]) for i in range(n))
            capacity = n

    def blocks(self) -> Iterator[tuple[dict[str, Any], tuple[int, ...], str]]:
        """Iterate over the blocks in use: fields, client numbers of holders, where it was made."""
        rows = ffi.new("shmt_block_view[]", _BATCH)
        following = ffi.new("uint32_t *", 0)
        while True:
            n = self._call(lib.shmt_inspector_blocks, following[0], rows, _BATCH, following)
            for i in range(n):
                row = rows[i]
                holders = tuple(
                    64 * w + bit
                    for w in range(len(row.holds))
                    if row.holds[w]
                    for bit in range(64)
                    if row.holds[w] >> bit & 1
                )
                yield _fields(row, ("holds", "site")), holders, text(row.site)
            if following[0] == 0:
                return

    def block_batches(self) -> Iterator[np.ndarray[Any, Any]]:
        """Iterate over the blocks in use in arrays, a record for each block.

        The fields are those of ``shmt_block_view``. The next array overwrites the last one.
        """
        rows = ffi.new("shmt_block_view[]", _BATCH)
        records = np.frombuffer(ffi.buffer(rows), _RECORD)
        following = ffi.new("uint32_t *", 0)
        while True:
            n = self._call(lib.shmt_inspector_blocks, following[0], rows, _BATCH, following)
            yield records[:n]
            if following[0] == 0:
                return
