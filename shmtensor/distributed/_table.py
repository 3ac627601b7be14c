"""The contents of every store, and the bytes of requests to it.

A request is an operation and some fields; a reply is some fields. `pack` makes one message of them:

=======  ==========================================================================
4 bytes  length of the rest, little-endian
1 byte   operation of a request (`Op`), or status of a reply (`Status`)
then     each field: 4 bytes of length, and that many bytes
=======  ==========================================================================

`docs/distributed.md` lists the operations.
"""

from __future__ import annotations

import enum
import operator
import struct
from collections import deque

from shmtensor.distributed._errors import DistStoreError, QueueEmptyError

__all__ = ["MAX_MESSAGE", "MUTATING", "Op", "Status", "Table", "WaitForKeys", "pack", "unpack"]

#: No message is longer. A longer one is refused before it is read.
MAX_MESSAGE = 64 << 20
#: No value is longer: it must fit into a reply.
MAX_VALUE = MAX_MESSAGE - 5
_LENGTH = struct.Struct("<I")
_NUMBER = struct.Struct("<q")


class Op(enum.IntEnum):
    """The operations of a store; fields are named in `Table`."""

    SET = 1
    GET = 2
    ADD = 3
    COMPARE_SET = 4
    WAIT = 5
    CHECK = 6
    DELETE = 7
    COUNT = 8
    LIST = 9
    APPEND = 10
    QUEUE_PUSH = 11
    QUEUE_POP = 12
    QUEUE_LEN = 13


class Status(enum.IntEnum):
    """The outcome of a request."""

    DONE = 0
    TIMED_OUT = 1
    BAD_REQUEST = 2
    QUEUE_EMPTY = 3


#: Operations that change the table (a queue's pop does when it succeeds).
MUTATING = {
    Op.SET,
    Op.ADD,
    Op.COMPARE_SET,
    Op.DELETE,
    Op.APPEND,
    Op.QUEUE_PUSH,
    Op.QUEUE_POP,
}


class WaitForKeys(Exception):
    """The request must wait until missing keys are set."""


def pack(code: int, fields: list[bytes]) -> bytes:
    """Make a message.

    Raises:
        ValueError: It would be longer than `MAX_MESSAGE`.
    """
    size = 1 + sum(4 + len(field) for field in fields)
    if size > MAX_MESSAGE:
        raise ValueError(f"a store takes at most {MAX_MESSAGE} bytes at a time, got {size}")
    parts = [_LENGTH.pack(size), bytes([code])]
    for field in fields:
        parts += [_LENGTH.pack(len(field)), field]
    return b"".join(parts)


def unpack(message: bytes, max_fields: int = MAX_MESSAGE) -> tuple[int, list[bytes]]:
    """Take a message apart, which comes without its length.

    Raises:
        ValueError: It is not well formed, or has more fields.
    """
    if not message:
        raise ValueError("an empty message")
    fields: list[bytes] = []
    at = 1
    while at < len(message):
        if at + 4 > len(message):
            raise ValueError("a message ends inside a length")
        (size,) = _LENGTH.unpack_from(message, at)
        at += 4
        if at + size > len(message):
            raise ValueError("a message ends inside a field")
        if len(fields) == max_fields:
            raise ValueError(f"a message of more than {max_fields} fields")
        fields.append(message[at : at + size])
        at += size
    return message[0], fields


def number_field(value: int) -> bytes:
    """Return a number as a field.

    Raises:
        TypeError: It is not an integer.
        ValueError: It does not fit 64 bits.
    """
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"a number of a store has 64 bits, got {number}")
    return _NUMBER.pack(number)


def number_of(field: bytes) -> int:
    """Return the number in a field.

    Raises:
        ValueError: It has no number.
    """
    if len(field) != 8:
        raise ValueError("a number has 8 bytes")
    value: int = _NUMBER.unpack(field)[0]
    return value


class Table:
    """Keys with their values, and queues."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.queues: dict[bytes, deque[bytes]] = {}

    def apply(self, op: int, fields: list[bytes]) -> list[bytes]:
        """Do a request and return the reply.

        Raises:
            WaitForKeys: It must wait; the table is as before.
            ValueError: It is not well formed, or a value is not a number.
            QueueEmptyError: A pop that does not wait finds nothing.
        """
        wanted = _N_FIELDS.get(op)
        if wanted is None:
            raise ValueError(f"a store has no operation {op}")
        if wanted >= 0 and len(fields) != wanted:
            raise ValueError(f"{Op(op).name} takes {wanted} fields, got {len(fields)}")
        values = self.values
        if op == Op.SET:
            values[fields[0]] = fields[1]
            return []
        if op == Op.GET:
            if fields[0] not in values:
                raise WaitForKeys
            return [values[fields[0]]]
        if op == Op.ADD:
            return [number_field(self._add(fields[0], number_of(fields[1])))]
        if op == Op.COMPARE_SET:
            return [self._compare_set(*fields)]
        if op == Op.WAIT:
            if not all(key in values for key in fields):
                raise WaitForKeys
            return []
        if op == Op.CHECK:
            return [number_field(all(key in values or key in self.queues for key in fields))]
        if op == Op.DELETE:
            return [number_field(values.pop(fields[0], None) is not None)]
        if op == Op.COUNT:
            return [number_field(len(values) + len(self.queues))]
        if op == Op.LIST:
            return [*values, *self.queues]
        if op == Op.APPEND:
            self._append(*fields)
            return []
        return self._apply_to_queue(op, fields)

    def _apply_to_queue(self, op: int, fields: list[bytes]) -> list[bytes]:
        queue = self.queues.get(fields[0])
        if op == Op.QUEUE_PUSH:
            self.queues.setdefault(fields[0], deque()).append(fields[1])
            return []
        if op == Op.QUEUE_LEN:
            return [number_field(len(queue or ()))]
        if not queue:
            if number_of(fields[1]):
                raise WaitForKeys
            raise QueueEmptyError("queue is empty")
        value = queue.popleft()
        if not queue:
            del self.queues[fields[0]]
        return [value]

    def _append(self, key: bytes, more: bytes) -> None:
        old = self.values.get(key, b"")
        if len(old) + len(more) > MAX_VALUE:
            raise ValueError(
                f"append: a value has at most {MAX_VALUE} bytes, {key[:40]!r} has {len(old)} and "
                f"would get {len(more)} more"
            )
        self.values[key] = old + more

    def _add(self, key: bytes, amount: int) -> int:
        text = self.values.get(key, b"0")
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"add: the value of {key!r} is not a number: {text[:40]!r}") from None
        value += amount
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"add: the sum {value} does not fit 64 bits")
        self.values[key] = str(value).encode()
        return value

    def _compare_set(self, key: bytes, expected: bytes, desired: bytes) -> bytes:
        current = self.values.get(key)
        if current is None and expected:
            return expected
        if current is not None and current != expected:
            return current
        self.values[key] = desired
        return desired


_N_FIELDS: dict[int, int] = {
    Op.SET: 2,  # key, value
    Op.GET: 1,  # key -> value
    Op.ADD: 2,  # key, number -> number
    Op.COMPARE_SET: 3,  # key, expected, desired -> value
    Op.WAIT: -1,  # keys
    Op.CHECK: -1,  # keys -> number
    Op.DELETE: 1,  # key -> number
    Op.COUNT: 0,  # -> number
    Op.LIST: 0,  # -> keys
    Op.APPEND: 2,  # key, value
    Op.QUEUE_PUSH: 2,  # key, value
    Op.QUEUE_POP: 2,  # key, whether to wait -> value
    Op.QUEUE_LEN: 1,  # key -> number
}


def timed_out(op: int, fields: list[bytes], seconds: float) -> DistStoreError:
    """Return the error of a request that timed out."""
    keys = fields if op == Op.WAIT else fields[:1]
    shown = ", ".join("/" + key.decode("utf-8", "replace") for key in keys)
    return DistStoreError(f"wait timeout after {seconds * 1000:.0f}ms, keys: {shown}")
