"""Descriptions that other processes have damaged: one error, at once, whatever the bytes are."""

from __future__ import annotations

import json
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T
from shmtensor import nn
from shmtensor.errors import HandleError
from shmtensor.service import Service
from shmtensor.service import _encoding as encoding


def _texts() -> list[tuple[bytes, int]]:
    """Descriptions as programs write them, with their number of storages."""
    base = T.arange(24.0).reshape(4, 6)
    values: list[Any] = [
        None,
        {"a": 1, 2: "b", None: [1.5, float("inf"), b"bytes"], True: ()},
        OrderedDict([("w", base), ("part", base[1:, ::2]), ("bias", T.ones(3, dtype=T.int16))]),
        [nn.Parameter(T.ones(2, 3)), T.tensor(1j), T.empty(0, 5)],
    ]
    texts = []
    for value in values:
        storages, structure = encoding.encode(value, lambda _: True, lambda _: None)  # type: ignore[arg-type, return-value]
        for more in (
            {"kind": "value", "value": structure},
            {"kind": "module", "value": structure, "skeleton": None},
        ):
            texts.append((encoding.to_text(more), len(storages)))
    file = {"path": "/a", "device": 1, "inode": 2, "nbytes": 3, "changed_ns": 4}
    texts.append((encoding.to_text({"kind": "file", "value": None, "file": file}), 0))
    return texts


_WORDS = (
    *(b'[ ] { } , : " -1 0 1e999 null true NaN [[ \\u0000'.split()),
    *(b'"l" "t" "p" "d" "o" "f" "b" "float32" "kind" 9223372036854775808'.split()),
    b"[" * 500,
    b'["l",' * 300,
)


def _mutated(text: bytes, chance: random.Random) -> bytes:
    changed = bytearray(text)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at, end = sorted(chance.randrange(len(changed) + 1) for _ in range(2))
        end = min(end, at + 12)
        changed[at:end] = chance.choice(
            (
                b"",
                chance.choice(_WORDS),
                changed[at:end] * 2,
                bytes([chance.randrange(256)]),
                bytes(changed[:at][-20:]),
            )
        )
    return bytes(changed)


@pytest.mark.parametrize("seed", range(4))
def test_only_the_documented_error_comes_out(seed: int) -> None:
    chance = random.Random(seed)
    n_refused = 0
    for text, n_storages in _texts():
        storages = [T.UntypedStorage(96) for _ in range(n_storages)]
        for _ in range(1500):
            try:
                encoding.read(_mutated(text, chance), storages)
            except HandleError:
                n_refused += 1
    assert n_refused > 9000


def _leaves(node: Any) -> list[tuple[Any, Any]]:
    """Every place in a document, as its container and key."""
    keys: Any = node if isinstance(node, dict) else range(len(node))
    found = []
    for key in keys:
        found.append((node, key))
        if isinstance(node[key], (dict, list)):
            found += _leaves(node[key])
    return found


@pytest.mark.check
def test_every_place_refuses_what_does_not_belong_there() -> None:
    strange = [None, True, -1, 2**63, 2**70, 0.5, "x", "\0", [], {}, ["t"], [["l"]], {"l": 1}, [[]]]
    for text, n_storages in _texts():
        storages = [T.UntypedStorage(96) for _ in range(n_storages)]
        for i in range(len(_leaves(json.loads(text)))):
            for value in strange:
                document = json.loads(text)
                container, key = _leaves(document)[i]
                container[key] = value
                try:
                    encoding.read(json.dumps(document).encode(), storages)
                except HandleError:
                    continue


def _publish_text(service: Service, name: str, text: bytes) -> None:
    """Publish a description of our own making."""
    service._handle.join(True)
    service._handle.publish(name, [], text, False)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"value":null}',
        b'{"kind":"value"}',
        b'{"kind":"other","value":null}',
        b'{"kind":"value","kind":"module","value":null}',
        b'{"kind":"value","value":1,"value":2}',
        b'{"kind":"value","value":NaN}',
        b'{"kind":"value","value":1e999}',
        b'{"kind":"value","value":' + b"[" * 100_000,
        b'{"kind":"value","value":' + b'["l",' * 300 + b"1" + b"]" * 300 + b"}",
        b'{"kind":"value","value":["d",[[],1]]}',
        b'{"kind":"value","value":["d",["a",1],["a",2]]}',
        b'{"kind":"value","value":["t",0,"float32",0,[1],[1],false]}',
        b'{"kind":"value","value":["t",-1,"float32",0,[1],[1],false]}',
        b'{"kind":"value","value":["b","?"]}',
        b'{"kind":"module","value":["l",1],"skeleton":null}',
        b'{"kind":"file","value":null,"file":{"path":"relative"}}',
        b'{"kind":"file","value":null,"file":{"path":"/\\ud800","device":1,"inode":2,'
        b'"nbytes":3,"changed_ns":4}}',
        b'{"kind":"file","value":null}',
    ],
)
@pytest.mark.parametrize("how", ["attach", "latest", "wait_newer", "attach_module"])
def test_damage_is_reported_at_once_with_the_name(service: Service, text: bytes, how: str) -> None:
    _publish_text(service, "damaged", text)
    calls: dict[str, Callable[[], object]] = {
        "attach": lambda: service.attach("damaged"),
        "latest": lambda: service.latest("damaged"),
        "wait_newer": lambda: service.wait_newer("damaged", 0),
        "attach_module": lambda: service.attach_module("damaged", nn.Linear(1, 1)),
    }
    with pytest.raises(HandleError, match="'damaged': the description of"):
        calls[how]()


def test_deepest_value_that_can_be_published_can_be_attached(service: Service) -> None:
    deep: Any = 1
    for i in range(200):
        deep = {"a": deep} if i % 2 else [deep]
    service.publish("deep", deep)
    assert service.attach("deep") == deep
    with pytest.raises(ValueError, match="nested deeper than 200"):
        service.publish("deep", [deep])
