"""The memory of a group of ranks: steps, slots, messages.

Waits take a deadline of `time.monotonic`. They wait in slices, so that signal handlers run between
two calls of C.
"""

from __future__ import annotations

import time
from typing import Any

from shmtensor._boundary.core import check, ffi, lib, place_for

__all__ = ["FILLED", "MAX_RANKS", "N_SLOTS", "READ", "REDUCED", "Broken", "GroupMemory", "Mismatch"]

FILLED: int = lib.SHMT_GROUP_FILLED
REDUCED: int = lib.SHMT_GROUP_REDUCED
READ: int = lib.SHMT_GROUP_READ
N_SLOTS: int = lib.SHMT_GROUP_N_SLOTS
MAX_RANKS: int = lib.SHMT_GROUP_MAX_RANKS

_DONE: int = lib.SHMT_GROUP_DONE
_BROKEN: int = lib.SHMT_GROUP_BROKEN
_MISMATCH: int = lib.SHMT_GROUP_MISMATCH
_MASK = 0xFFFFFFFF
_OPS: dict[str, int] = {
    name: getattr(lib, f"SHMT_GROUP_{name}")
    for name in ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
}
_REASONS = {
    lib.SHMT_GROUP_DIED: "died",
    lib.SHMT_GROUP_LEFT: "left",
    lib.SHMT_GROUP_ABORTED: "aborted",
    lib.SHMT_GROUP_FORKED: "forked",
    lib.SHMT_GROUP_DISAGREED: "disagreed",
}


class Broken(Exception):
    """The group is broken.

    Attributes:
        rank: Because of whom.
        reason: ``"died"``, ``"left"``, ``"aborted"``, ``"forked"``, ``"disagreed"``.
    """

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(rank, reason)
        self.rank = rank
        self.reason = reason


class Mismatch(Exception):
    """Another rank does another thing in this step."""


def create(n_ranks: int, slot_bytes: int) -> int:
    """Make the memory of a group; return a descriptor that the caller closes."""
    out = ffi.new("int *")
    check(lib.shmt_group_create(n_ranks, slot_bytes, out))
    return int(out[0])


class GroupMemory:
    """A rank's view of the memory of a group."""

    def __init__(self, fd: int, rank: int, n_ranks: int) -> None:
        self._place = place_for("shmt_group *", lib.shmt_group_clear)
        check(lib.shmt_group_open(fd, rank, self._place))
        self._group: Any = self._place[0]
        self._rank_out = ffi.new("uint32_t *")
        self.rank = rank
        self.n_ranks = n_ranks
        self.slot_bytes = int(lib.shmt_group_slot_bytes(self._group))

    def leave(self) -> None:
        """Tell the others that this process is going to end in order."""
        if self._group != ffi.NULL:
            lib.shmt_group_leave(self._group)

    def close(self) -> None:
        """Leave the group and unmap its memory. Nothing else may be called afterwards."""
        self.leave()
        self._group = ffi.NULL
        lib.shmt_group_clear(self._place)

    def slot(self, rank: int, slot: int) -> Any:
        """Return a slot of a rank as a writable buffer, valid until `close`."""
        return ffi.buffer(lib.shmt_group_slot(self._group, rank, slot), self.slot_bytes)

    def reserve(self, nbytes: int) -> None:
        """Give pages to *nbytes* of this rank's slots."""
        check(lib.shmt_group_reserve(self._group, min(nbytes, self.slot_bytes)))

    def n_opened(self) -> int:
        """Return how many ranks have opened the group."""
        return int(lib.shmt_group_n_opened(self._group))

    # --- steps --------------------------------------------------------------------------------

    def put(self, step: int, offset: int, address: int, nbytes: int) -> None:
        """Copy bytes into this rank's slot of a step."""
        if nbytes > 0:
            pointer = ffi.cast("void *", address)
            lib.shmt_group_put(self._group, step % N_SLOTS, offset, pointer, nbytes)

    def get(self, rank: int, step: int, offset: int, address: int, nbytes: int) -> None:
        """Copy bytes out of a rank's slot of a step."""
        if nbytes > 0:
            pointer = ffi.cast("void *", address)
            lib.shmt_group_get(self._group, rank, step % N_SLOTS, offset, pointer, nbytes)

    def post(self, counter: int, step: int, what: int = 0) -> None:
        """Count a step, and say what it is."""
        lib.shmt_group_post(self._group, counter, step & _MASK, what)

    def wait(self, counter: int, rank: int, step: int, deadline: float, what: int = 0) -> bool:
        """Wait until a rank (-1: all others) has counted a step.

        Returns:
            False when the deadline is over.

        Raises:
            Broken: The group is broken.
            Mismatch: An awaited rank has said another *what*.
        """
        while True:
            result = lib.shmt_group_wait(self._group, counter, rank, step & _MASK, what)
            if result == _DONE:
                return True
            if result == _BROKEN:
                self.raise_broken()
            if result == _MISMATCH:
                raise Mismatch
            if time.monotonic() > deadline:
                return False

    def has_counted(self, counter: int, rank: int, step: int) -> bool:
        """Whether a rank has counted a step."""
        return bool(lib.shmt_group_has_counted(self._group, counter, rank, step & _MASK))

    def what(self, rank: int, step: int) -> int:
        """Return what a rank has said that it does in a step."""
        return int(lib.shmt_group_what(self._group, rank, step & _MASK))

    def all_reduce(
        self, op: str, tensor: int, step: int, deadline: float, what: int
    ) -> tuple[int, tuple[int, int] | None]:
        """Do all steps of an all-reduce of a contiguous tensor.

        Args:
            op: ``"SUM"``, ``"PRODUCT"``, ``"MIN"``, ``"MAX"``, ``"BAND"``, ``"BOR"``, ``"BXOR"``.
            tensor: Its address.
            step: The number of the first step.
            deadline: As in `wait`.
            what: As in `wait`.

        Returns:
            The number of the next step; and, when the deadline is over, counter and step of the
            wait that was in vain.
        """
        progress = ffi.new("shmt_group_progress *")
        progress.op = _OPS[op]
        progress.first_step = step & _MASK
        progress.what = what
        result = ffi.new("int *")
        pointer = ffi.cast("shmt_tensor *", tensor)
        while True:
            check(lib.shmt_group_all_reduce(self._group, pointer, progress, result))
            done = step + progress.n_steps
            if result[0] == _DONE:
                return done, None
            if result[0] == _BROKEN:
                self.raise_broken()
            if result[0] == _MISMATCH:
                raise Mismatch
            if time.monotonic() > deadline:
                return done, (progress.waits_counter, progress.waits_step)

    # --- messages -----------------------------------------------------------------------------

    def send(
        self, to: int, tag: int, what: int, address: int, nbytes: int, deadline: float
    ) -> bool:
        """Send a message, with a description of its elements.

        Returns:
            False when the deadline is over.
        """
        pointer = ffi.cast("void *", address)
        done = ffi.new("uint64_t *")
        result = ffi.new("int *")
        while True:
            check(
                lib.shmt_group_send(
                    self._group, to, tag, what, pointer, nbytes, done[0], done, result
                )
            )
            if result[0] == _DONE:
                return True
            if result[0] == _BROKEN:
                self.raise_broken()
            if time.monotonic() > deadline:
                return False

    def peek(self, source: int, may_wait: bool) -> tuple[int, int, int] | None:
        """Return tag, description and bytes of a rank's next message; None: none in a slice."""
        tag = ffi.new("int64_t *")
        what = ffi.new("uint64_t *")
        nbytes = ffi.new("uint64_t *")
        result = lib.shmt_group_peek(self._group, source, may_wait, tag, what, nbytes)
        if result == _BROKEN:
            self.raise_broken()
        return (int(tag[0]), int(what[0]), int(nbytes[0])) if result == _DONE else None

    def receive(self, source: int, address: int, nbytes: int, deadline: float) -> bool:
        """Receive the message that `peek` has shown.

        Returns:
            False when the deadline is over.
        """
        pointer = ffi.cast("void *", address)
        done = ffi.new("uint64_t *")
        while True:
            result = lib.shmt_group_receive(self._group, source, pointer, nbytes, done[0], done)
            if result == _DONE:
                return True
            if result == _BROKEN:
                self.raise_broken()
            if time.monotonic() > deadline:
                return False

    # --- the end ------------------------------------------------------------------------------

    def abort(self) -> None:
        """Break the group."""
        if self._group != ffi.NULL:
            lib.shmt_group_abort(self._group)

    def disagree(self, other: int, step: int) -> None:
        """Break the group, since a rank does another thing than this one in a step."""
        lib.shmt_group_disagree(self._group, other, step & _MASK)

    def disagreement(self) -> tuple[int, int, int]:
        """Return two ranks that do different things in a step, and the step."""
        out = ffi.new("uint32_t[3]")
        lib.shmt_group_disagreement(self._group, out, out + 1, out + 2)
        return int(out[0]), int(out[1]), int(out[2])

    def check_ranks(self) -> None:
        """Raise Broken if a rank has died, or if the group is broken."""
        rank = ffi.new("uint32_t *")
        reason = lib.shmt_group_check(self._group, rank)
        if reason != 0:
            raise Broken(int(rank[0]), _REASONS.get(reason, "aborted"))

    def check(self) -> None:
        """Raise Broken if the group is broken."""
        if lib.shmt_group_broken(self._group, self._rank_out) != 0:
            self.raise_broken()

    def raise_broken(self) -> None:
        """Raise Broken."""
        rank = ffi.new("uint32_t *")
        reason = lib.shmt_group_broken(self._group, rank)
        raise Broken(int(rank[0]), _REASONS.get(reason, "aborted"))
