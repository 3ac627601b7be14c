"""Values of messages as lines of text and as JSON."""

from __future__ import annotations

import json as json_text
import math

import numpy as np
import pytest

import shmtensor as T
from shmtensor._cli import _shown
from shmtensor._cli._shown import json_value, nbytes_of, shown
from shmtensor.service._libraries import Foreign

_TEXTS = Foreign("numpy", "'<U1'", T.tensor([[97, 0, 0, 0], [98, 0, 0, 0]], dtype=T.uint8))


class _Hostile:
    def __repr__(self) -> str:
        raise ValueError("no")


@pytest.mark.check
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (T.ones(()), "float32 () [1.0]"),
        (T.ones(0, 3), "float32 (0, 3)"),
        (T.arange(12).reshape(3, 4).t(), "int64 (4, 3) [0, 4, 8, 1, 5, 9, …]"),
        (np.ones(2, np.complex64), "complex64 (2,) [(1+0j), (1+0j)]"),
        (_TEXTS, "<U1 (2,) ['a', 'b']"),
        ((1,), "(1,)"),
        ((), "()"),
        ({"a": [None, True]}, "{'a': [None, True]}"),
        (list(range(1000)), f"[{', '.join(map(str, range(20)))}, …]"),
        (b"\x00\xff", r"b'\x00\xff'"),
        ("\u202e", r"'\u202e'"),
        (_Hostile(), "<_Hostile>"),
    ],
)
def test_line(value: object, text: str) -> None:
    assert shown(value) == text


def test_deep_values_are_cut() -> None:
    value: list[object] = []
    for _ in range(5000):
        value = [value]
    assert shown(value) == "[" * 12 + "…" + "]" * 12
    assert json_value([1, [2]]) == [1, [2]]
    assert "recursion" not in repr(json_value(value)).lower()[:100]


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (T.ones(2, 2), [[1.0, 1.0], [1.0, 1.0]]),
        (T.ones(()), 1.0),
        (T.ones(1, dtype=T.complex64), ["(1+0j)"]),
        (_TEXTS, ["a", "b"]),
        ({1: b"x", "y": (None, 2.5)}, {"1": "b'x'", "y": [None, 2.5]}),
        (np.float32(2), "np.float32(2.0)"),
        ([math.nan, math.inf, -math.inf], ["nan", "inf", "-inf"]),
        (T.tensor([1.0, math.nan]), [1.0, "nan"]),
        ([2**2000, 10**5000], [2**2000, "<int>"]),
    ],
)
def test_json(value: object, json: object) -> None:
    found = json_value(value)
    json_text.dumps(found, allow_nan=False)
    assert found == json or (isinstance(value, np.generic) and found == "2.0")


@pytest.fixture
def few_items(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let JSON end after few items."""
    monkeypatch.setattr(_shown, "_MOST_IN_JSON", 1000)


@pytest.mark.usefixtures("few_items")
def test_a_list_at_very_many_places_is_shown_in_part() -> None:
    value: list[object] = [b"12"]
    for _ in range(11):
        value = [value] * 20
    assert shown(value).startswith("[" * 12 + "b'12'], [b'12'") and shown(value).endswith("…")
    assert nbytes_of(value) == 2
    text = json_text.dumps(json_value(value), ensure_ascii=False)
    assert text.startswith("[" * 12 + "\"b'12'\"") and "…" in text and len(text) < 20_000


@pytest.mark.usefixtures("few_items")
def test_a_list_in_itself_is_shown_in_part() -> None:
    value: list[object] = [1]
    value += [value] * 20
    assert shown(value).startswith("[1, [1, [1, ")
    assert nbytes_of(value) == 0
    assert json_text.dumps(json_value(value)).startswith("[1, [1, [1, ")


def test_large_tensor_in_json_is_its_facts() -> None:
    facts = {"dtype": "int16", "shape": (1001,), "first": [0, 0, 0, 0, 0, 0]}
    assert json_value(T.zeros(1001, dtype=T.int16)) == facts


@pytest.mark.check
def test_bytes() -> None:
    assert nbytes_of({"a": [T.ones(3), b"12"], "b": ("é", np.zeros(2), 5, None)}) == 12 + 2 + 19
