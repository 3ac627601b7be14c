"""What goes over the link: what is written is read, and nothing else is.

That damaged frames end no bridge is in test_loopback.py.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
import subprocess
import sys
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shmtensor
from shmtensor.bridge import _format
from shmtensor.bridge._format import (
    _MAGIC,
    FORMAT,
    Damaged,
    decode,
    encode,
    read_header,
    write_header,
)
from shmtensor.service._libraries import Foreign

MOST = 1 << 20


def memory(nbytes: int) -> shmtensor.Tensor:
    return shmtensor.empty(nbytes, dtype=shmtensor.uint8)


def sent(value: Any) -> Any:
    return decode(encode(value, MOST), memory)


@pytest.mark.check
def test_plain_values_arrive_as_they_are() -> None:
    value = {
        "n": -(1 << 70),
        "f": math.inf,
        "t": ("a", b"\0b", None, True, [1.5, []]),
        3: OrderedDict(b=1, a=2),
    }
    found = sent(value)
    assert found == value
    assert type(found[3]) is OrderedDict


@pytest.mark.check
@pytest.mark.parametrize(
    "tensor",
    [
        shmtensor.arange(12).reshape(3, 4),
        shmtensor.arange(12).reshape(3, 4).t(),
        shmtensor.arange(12).reshape(3, 4)[1:, 1::2],
        shmtensor.arange(1000)[501:503],
        shmtensor.ones(()),
        shmtensor.empty(0, 3),
        shmtensor.arange(7, dtype=shmtensor.uint8)[3:],
        shmtensor.ones(3, dtype=shmtensor.complex128),
    ],
    ids=str,
)
def test_tensors_arrive_with_their_shape_and_elements(tensor: shmtensor.Tensor) -> None:
    found = sent([tensor])[0]
    assert found.dtype is tensor.dtype
    assert found.tolist() == tensor.tolist()


def test_of_a_large_storage_only_what_is_shown_is_sent() -> None:
    secret = shmtensor.arange(10_000)
    column = secret.reshape(100, 100)[:, 7]
    for part in (secret[5:7], column):
        payload = encode(part, MOST)
        assert len(payload) < 1200
        assert decode(payload, memory).tolist() == part.tolist()


def test_tensors_over_one_storage_share_one_where_they_arrive() -> None:
    base = shmtensor.zeros(100)
    a, b = sent([base[10:20], base[15:30]])
    a[5] = 3
    assert b[0] == 3


def test_values_of_other_libraries_keep_their_dtype() -> None:
    carrier = shmtensor.tensor([[1, 0, 0, 0], [2, 0, 0, 0]], dtype=shmtensor.uint8)
    found = sent(Foreign("numpy", "'<U1'", carrier))
    assert type(found) is Foreign
    assert (found.library, found.dtype) == ("numpy", "'<U1'")
    assert found.carrier.tolist() == carrier.tolist()


@pytest.mark.parametrize(
    "value",
    [object(), {1j}, np.float32(1), [lambda: 0]],
    ids=["object", "set", "NumPy scalar", "function"],
)
def test_what_only_a_pickle_can_hold_is_refused(value: object) -> None:
    with pytest.raises(TypeError):
        encode(value, MOST)


def test_a_payload_above_the_limit_is_refused_before_it_is_made() -> None:
    with pytest.raises(ValueError, match="at most 100 are sent"):
        encode(shmtensor.zeros(100), 100)


def payload_of(text: bytes, *storages: bytes, sizes: tuple[int, ...] | None = None) -> bytes:
    sizes = tuple(map(len, storages)) if sizes is None else sizes
    head = struct.pack("<8sQQ", _MAGIC, len(text), len(sizes))
    return head + struct.pack(f"<{len(sizes)}Q", *sizes) + text + b"".join(storages)


@pytest.mark.check
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x80\x04K\x01.",
        encode(1, MOST)[:-1],
        encode(1, MOST) + b"\0",
        encode(shmtensor.ones(4), MOST)[:-1],
        encode(1, MOST).replace(_MAGIC, b"shmtbrg" + bytes([FORMAT + 1])),
        payload_of(b'{"kind":"value","value":["t",0,"int8",0,[9],[1],false]}', b"12345678"),
        payload_of(b'{"kind":"value","value":["t",1,"int8",0,[8],[1],false]}', b"12345678"),
        payload_of(b'{"kind":"value","value":["t",0,"int8",0,[8],[1],false]}', sizes=(1 << 62,)),
        payload_of(b'{"kind":"module","value":["d"],"skeleton":"gAR9Lg=="}'),
        payload_of(
            b'{"kind":"file","value":null,"file":{"path":"/etc/passwd","device":1,"inode":1,'
            b'"nbytes":1,"changed_ns":1}}'
        ),
        payload_of(
            b'{"kind":"value","value":["x","numpy","[1,",["t",0,"int8",0,[8],[1],false]]}',
            b"12345678",
        ),
        payload_of(b"[" * 100_000),
        payload_of(b'{"kind":"value","value":' + b"9" * 10_000 + b"}"),
        struct.pack("<8sQQ", _MAGIC, 1 << 63, 1 << 63),
    ],
    ids=lambda payload: f"{len(payload)} bytes",
)
def test_a_damaged_payload_is_refused_and_takes_no_memory(payload: bytes) -> None:
    asked = []

    def counted(nbytes: int) -> shmtensor.Tensor:
        asked.append(nbytes)
        return memory(nbytes)

    with pytest.raises(Damaged):
        decode(payload, counted)
    assert sum(asked) <= len(payload)


VALID = encode([shmtensor.arange(5), {"a": "text"}, b"bytes"], MOST)


@settings(deadline=None)
@given(st.integers(0, len(VALID) - 1), st.integers(0, 255), st.integers(0, len(VALID)))
def test_any_bytes_are_a_value_or_damaged(at: int, byte: int, end: int) -> None:
    changed = VALID[:at] + bytes([byte]) + VALID[at + 1 :]
    for payload in (changed, changed[:end]):
        with contextlib.suppress(Damaged):
            decode(payload, memory)


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("shmtensor", ("zenoh", "shmtensor.bridge")),
        ("shmtensor.service", ("zenoh", "shmtensor.bridge")),
        ("shmtensor.bridge", ("zenoh", "numpy")),
        ("shmtensor._cli", ("zenoh",)),
    ],
)
def test_zenoh_is_loaded_by_who_starts_a_bridge(name: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {name}; print(*(n for n in {absent} if n in sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "\n"


@pytest.mark.check
def test_headers_are_read_as_they_were_written() -> None:
    header = write_header("ack", stream="topic", name="frames", seq=3, used=True)
    assert read_header(header) == {
        "kind": "ack",
        "stream": "topic",
        "name": "frames",
        "seq": 3,
        "used": True,
    }


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        b'{"kind":["topic"]}',
        b'{"kind":"pickle"}',
        b'{"kind":"call","name":"a"}',
        b'{"kind":"call","name":"a","serial":-1}',
        b'{"kind":"call","name":"a","serial":true}',
        b'{"kind":"call","name":"a","serial":1,"more":1}',
        b'{"kind":"call","name":"","serial":1}',
        b'{"kind":"call","name":"' + b"a" * 128 + b'","serial":1}',
        b'{"kind":"topic","name":"a","seq":1,"settings":[0,0,"block"]}',
        b'{"kind":"topic","name":"a","seq":1,"settings":[1,0,["block"]]}',
        b'{"kind":"hello","format":1,"byte_order":"little","chosen":"x","answers":false,"attempt":1,"received":[]}',
        b'{"kind":"hello","format":1,"byte_order":"little","chosen":"","answers":false,"attempt":1,"received":[[1,2,3,4]]}',
        json.dumps({"kind": "call", "name": "a", "serial": 1, "x": "y" * (1 << 20)}).encode(),
    ],
    ids=lambda header: header[:60].decode("latin-1"),
)
def test_any_other_header_is_refused(header: bytes) -> None:
    with pytest.raises(Damaged):
        read_header(header)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_whatever_json_a_header_is_it_is_checked(value: Any) -> None:
    for kind, fields in _format._FIELDS.items():
        text = json.dumps({"kind": kind, **dict.fromkeys(fields, value)}).encode()
        with contextlib.suppress(Damaged):
            read_header(text)
