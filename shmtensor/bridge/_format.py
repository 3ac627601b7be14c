"""What goes over the link: a header, and a payload that holds one value.

Note [Frames]
A frame is a Zenoh message: its attachment is the header, JSON of one object whose fields `_FIELDS`
lists, and its payload is empty or a value. No frame has a pickle, and reading one runs no code.

A payload is, in little-endian order,

    8 bytes           `_MAGIC`, which ends with the version of the format
    8 + 8 bytes       length of the description, number of storages
    8 bytes each      lengths of the storages
    the description   JSON, as of a published value (shmtensor/service/_encoding.py)
    the storages      their bytes, one after the other, in the byte order that the hello names

Whatever the bytes are, reading them gives a frame that this module could have written, or raises
`Damaged`. Lengths are compared with what has arrived before anything is made of them, so a frame
takes no more memory than its own bytes and a description of the same size.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.errors import HandleError
from shmtensor.service import _encoding
from shmtensor.service._libraries import DTYPES
from shmtensor.service._topics import OVERFLOWS
from shmtensor.storage import UntypedStorage

__all__ = [
    "BYTE_ORDER",
    "FORMAT",
    "MOST_HEADER",
    "Damaged",
    "decode",
    "encode",
    "is_id",
    "read_header",
    "write_header",
]

FORMAT = 3
BYTE_ORDER = sys.byteorder
_MAGIC = b"shmtbrg" + bytes([FORMAT])
_HEAD = struct.Struct("<8sQQ")
_MOST_STORAGES = 2048  # SHMT_RING_MAX_BLOCKS: more do not fit into one message of a topic
MOST_HEADER = 1 << 20
_MOST_TEXT = 1 << 16
_MOST_NUMBER = (1 << 63) - 1
_MOST_MESSAGES = 65536  # of a topic: depth and history
_UNIT = 16  # the largest element: where a sent part of a storage may begin


class Damaged(Exception):
    """What came is no frame of this format; the text says why."""


def _need(good: bool, what: str) -> None:
    if not good:
        raise Damaged(what)


# --- headers --------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST_NUMBER


def _is_text(value: Any) -> bool:
    return type(value) is str and len(value) <= _MOST_TEXT


def is_id(value: Any) -> bool:
    """Whether *value* can be the id of a bridge: 16 hexadecimal digits."""
    return type(value) is str and len(value) == 16 and not set(value) - set("0123456789abcdef")


def _is_name(value: Any) -> bool:
    return _is_text(value) and "\0" not in value and 0 < len(value.encode(errors="replace")) <= 127


def _is_positions(value: Any) -> bool:
    """For each stream: the last frame that was accepted, and the last one that was worked off."""
    return type(value) is list and all(
        type(row) is list
        and len(row) == 4
        and row[0] in ("topic", "value")
        and _is_name(row[1])
        and _is_number(row[2])
        and _is_number(row[3])
        for row in value
    )


def _is_settings(value: Any) -> bool:
    """Depth, history and overflow of a topic; None for what nobody has said."""
    if type(value) is not list or len(value) != 3:
        return False
    depth, history, overflow = value
    return (
        (depth is None or (type(depth) is int and 1 <= depth <= _MOST_MESSAGES))
        and (history is None or (type(history) is int and 0 <= history <= _MOST_MESSAGES))
        and (overflow is None or overflow in OVERFLOWS)
    )


#: The fields of each kind of header, beside ``kind``, and what they must be.
_FIELDS: dict[str, dict[str, Callable[[Any], bool]]] = {
    # "I am there": whom it has chosen as its partner, at which of its attempts, since which it has
    # had no other and what it knows of that one's number, and how far it got with its streams.
    "hello": {
        "format": _is_number,
        "byte_order": _is_text,
        "chosen": lambda v: v == "" or is_id(v),
        "answers": lambda v: type(v) is bool,
        "attempt": _is_number,
        "begun": lambda v: _is_number(v) and v > 0,
        "knows": _is_number,
        "received": _is_positions,
    },
    # "How far are you?", behind all that was sent before; a hello is the answer.
    "ask": {},
    "topic": {"name": _is_name, "seq": _is_number, "settings": _is_settings},
    "value": {"name": _is_name, "seq": _is_number, "of": _is_text, "version": _is_number},
    # All frames of the stream up to `seq` are worked off; the last one was used, or was not.
    "ack": {
        "stream": lambda v: v in ("topic", "value"),
        "name": _is_name,
        "seq": _is_number,
        "used": lambda v: type(v) is bool,
    },
    "call": {"name": _is_name, "serial": _is_number},
    "give_up": {"name": _is_name, "serial": _is_number},
    "reply": {"name": _is_name, "serial": _is_number},
    "error": {
        "name": _is_name,
        "serial": _is_number,
        "type": _is_text,
        "text": _is_text,
        "trace": _is_text,
    },
}


def write_header(kind: str, **fields: Any) -> bytes:
    """Return a header as bytes. Texts are cut to what a reader takes."""
    cut = {k: v[:_MOST_TEXT] if type(v) is str else v for k, v in fields.items()}
    return json.dumps({"kind": kind, **cut}, separators=(",", ":")).encode()


def read_header(text: bytes) -> dict[str, Any]:
    """Return the fields that `write_header` wrote.

    Raises:
        Damaged: It has other fields, or what cannot be their values.
    """
    _need(len(text) <= MOST_HEADER, f"a header of {len(text)} bytes")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Damaged(f"a header that is no JSON: {error}") from None
    _need(type(found) is dict, "a header that is no object")
    kind = found.get("kind")
    _need(type(kind) is str and kind in _FIELDS, f"a header of kind {kind!r:.80}")
    fields = _FIELDS[kind]
    _need(set(found) == {"kind", *fields}, f"a header of kind {kind} with other fields")
    for name, is_good in fields.items():
        _need(is_good(found[name]), f"a header of kind {kind} whose {name} is {found[name]!r:.80}")
    fields_found: dict[str, Any] = found
    return fields_found


# --- values ---------------------------------------------------------------------------------------


class _Writer(_encoding._Writer):
    """Leaves storages where they are; what of them is to be sent, `_trimmed` says."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(lambda _: True, _makes_nothing, most_bytes)

    def _in_service(self, shown: list[Tensor]) -> tuple[UntypedStorage, list[Tensor]]:
        if len(shown) == 1 and not shown[0].is_contiguous():
            # A column of a matrix, say: send its elements, not all between the first and the last.
            shown = [shown[0].detach().contiguous()]
        return shown[0].untyped_storage(), shown


def _makes_nothing(_: int) -> Any:
    raise AssertionError("a value that is sent is not copied into a service")


def _tensors(node: Any) -> list[list[Any]]:
    """Return the tensors in a description, as it writes them."""
    if type(node) is not list:
        return []
    kind, *items = node
    if kind in ("t", "p"):
        return [node]
    if kind == "x":
        return _tensors(items[2])
    if kind in ("d", "o"):
        return [tensor for _, item in items for tensor in _tensors(item)]
    return [tensor for item in items for tensor in _tensors(item)]


def _end_of(tensor: list[Any]) -> int:
    """Return the byte behind the last element of a tensor in a description."""
    _, _, dtype, offset, sizes, strides, _ = tensor
    itemsize: int = DTYPES[dtype].itemsize
    if 0 in sizes:
        return int(offset * itemsize)
    last = offset + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
    return int((last + 1) * itemsize)


def _trimmed(storages: list[UntypedStorage], structure: Any) -> list[memoryview]:
    """Return what of each storage is shown by tensors, and let the description refer to that.

    A message may show a part of a large storage whose other bytes nobody has published.
    """
    users: list[list[list[Any]]] = [[] for _ in storages]
    for tensor in _tensors(structure):
        users[tensor[1]].append(tensor)
    parts = []
    for storage, tensors in zip(storages, users, strict=True):
        begins = [tensor[3] * DTYPES[tensor[2]].itemsize for tensor in tensors]
        begin = min(begins) // _UNIT * _UNIT
        end = max(map(_end_of, tensors))
        for tensor in tensors:
            tensor[3] -= begin // DTYPES[tensor[2]].itemsize
        parts.append(_bytes_of(storage, begin, max(end - begin, 0)))
    return parts


def _bytes_of(storage: UntypedStorage, begin: int, nbytes: int) -> memoryview:
    if nbytes == 0:
        return memoryview(b"")
    shown: Any = shmtensor.empty(0, dtype=shmtensor.uint8)
    return memoryview(shown.set_(storage, begin, (nbytes,), (1,)))


def encode(value: object, most_bytes: int) -> bytes:
    """Return a value as a payload. Its tensors' bytes are copied once, into the payload.

    Args:
        value: Tensors, plain values, and dicts, lists and tuples of them.
        most_bytes: Of the payload.

    Raises:
        TypeError: *value* contains something else.
        RuntimeError: A tensor requires grad and is not a leaf.
        ValueError: The payload would be longer.
    """
    writer = _Writer(most_bytes)
    structure = writer.structure(value)
    storages, rows = writer.place()
    structure = _encoding._fill(structure, rows)
    if len(storages) > _MOST_STORAGES:
        raise ValueError(f"{len(storages)} tensors, at most {_MOST_STORAGES} go into one message")
    parts = _trimmed(storages, structure)
    text = _encoding.to_text({"kind": "value", "value": structure})
    sizes = [part.nbytes for part in parts]
    nbytes = _HEAD.size + 8 * len(sizes) + len(text) + sum(sizes)
    if nbytes > most_bytes:
        raise ValueError(f"a message of {nbytes} bytes; at most {most_bytes} are sent")
    head = _HEAD.pack(_MAGIC, len(text), len(sizes)) + struct.pack(f"<{len(sizes)}Q", *sizes)
    return b"".join([head, text, *parts])


def decode(payload: bytes, make: Callable[[int], Tensor]) -> Any:
    """Return the value of a payload.

    Args:
        payload: As `encode` wrote it.
        make: Makes a tensor of that many ``uint8`` in the memory where the value is to be; the
            bytes of the value's tensors are copied once, into these.

    Raises:
        Damaged: It is no payload.
        MemoryError: There is not enough room.
    """
    import numpy as np  # a program that only looks at bridges need not load it

    text, sizes, begin = _layout(payload)
    storages = []
    for nbytes in sizes:
        memory = make(nbytes)
        if nbytes:
            memory.numpy()[:] = np.frombuffer(payload, np.uint8, nbytes, begin)
        storages.append(memory.untyped_storage())
        begin += nbytes
    try:
        document = _encoding.read(text, storages)
    except (HandleError, TypeError) as error:
        raise Damaged(str(error)) from None
    # A file is a path on the machine of its publisher, and a module has a pickle.
    _need(document.kind == "value", f"a {document.kind} instead of a value")
    return document.value


def _layout(payload: bytes) -> tuple[bytes, tuple[int, ...], int]:
    """Return the description, the lengths of the storages, and where the first one begins."""
    _need(len(payload) >= _HEAD.size, f"a payload of {len(payload)} bytes")
    magic, n_text, n = _HEAD.unpack_from(payload)
    _need(magic == _MAGIC, f"a payload that begins with {magic!r}")
    _need(n <= _MOST_STORAGES, f"a payload of {n} storages")
    begin = _HEAD.size + 8 * n
    _need(begin + n_text <= len(payload), "a payload that ends too early")
    sizes = struct.unpack_from(f"<{n}Q", payload, _HEAD.size)
    found = len(payload) - begin - n_text
    _need(sum(sizes) == found, f"storages of {sum(sizes)} bytes in {found} bytes")
    return payload[begin : begin + n_text], sizes, begin + n_text
