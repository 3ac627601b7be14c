"""Plain objects, which queues write without a pickler: equality, identity, and damage on the way.

Not covered: the queues as such (test_queues).
"""

from __future__ import annotations

import collections
import gc
import random
from typing import Any

import pytest
import waiting

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _C
from shmtensor._boundary import sharing
from shmtensor.multiprocessing.queues import SimpleQueue
from shmtensor.nn import Parameter

CONTEXT = mp.get_context("fork")
HANG_S = 100


def _deep(depth: int) -> Any:
    item: Any = 1
    for _ in range(depth):
        item = (item, [item]) if depth < 15 else [item]
    return item


PLAIN: list[Any] = [
    None,
    (True, False, 0, 1, -1, 127, -128, 128, 2**31, -(2**63), 2**63 - 1, 2**63, -(2**200)),
    (0.0, -0.0, 1.5, float("inf"), 1e308, 5e-324),
    ("", "text", "\u00e9\u4e2d\U0001f600", "with\0zero", "x" * 300, "\ud800"),
    (b"", b"\0\xff", b"x" * 300),
    ((), [], {}, [[]], {"a": {}}, {1: (2,), (3, "b"): None}),
    list(range(1000)),
    {str(i): i for i in range(500)},
    _deep(5),
    _deep(11),
    _deep(40),
    [1, {2}],
]


@pytest.mark.parametrize("item", PLAIN, ids=range(len(PLAIN)))
def test_plain_object_arrives_equal_with_its_types(item: Any) -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    queue.put(item)
    answer = queue.get()
    assert answer == item
    assert repr(answer) == repr(item)


@pytest.mark.check
def test_what_occurs_twice_is_one_object_again() -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    inner: list[Any] = [1]
    table: dict[str, Any] = {}
    tensors = [st.full((1,), float(i)) for i in range(40)]
    loop: list[Any] = [inner, inner, table, table, tensors, *tensors]
    loop.append(loop)
    table["loop"] = loop
    queue.put(loop)
    answer = queue.get()
    assert answer[0] is answer[1]
    assert answer[2] is answer[3]
    assert all(a is b for a, b in zip(answer[4], answer[5:45], strict=True))
    assert answer[45] is answer
    assert answer[2]["loop"] is answer


def test_tuple_that_occurs_twice_is_one_tuple_again() -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    inner = (1, "x", [2])
    outer = (inner, inner)
    tensor = st.ones(1)
    queue.put([inner, outer, [outer, tensor], (inner, tensor), inner[2]])
    answer = queue.get()
    assert answer[0] == inner
    assert answer[0] is answer[1][0] is answer[1][1] is answer[3][0]
    assert answer[2][0] is answer[1]
    assert answer[2][1] is answer[3][1]
    assert answer[4] is answer[0][2]


@pytest.mark.parametrize("width", [2, 1000])
@pytest.mark.parametrize("depth", [3, 11, 40])
def test_ways_to_one_tuple_are_not_counted(width: int, depth: int) -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    item: Any = (1,)
    for _ in range(depth):
        item = (item,) * width
    queue.put(item)
    answer = queue.get()
    for _ in range(depth):
        assert len(answer) == width
        assert all(each is answer[0] for each in answer)
        answer = answer[0]
    assert answer == (1,)


def test_more_shared_tuples_than_numbers_arrive() -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    item = [(i,) for i in range(70_000)]
    kept = list(item)
    for whole in ([item, item], [item, kept]):
        queue.put(whole)
        assert queue.get() == whole


def test_tuple_that_holds_itself_arrives() -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    inside: list[Any] = []
    item = (inside, 1)
    inside.append(item)
    queue.put(item)
    answer = queue.get()
    assert answer[0][0] is answer


@pytest.mark.check
def test_subclasses_of_plain_types_keep_their_class() -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    item = [True, collections.OrderedDict(a=1), collections.Counter("aab"), _Name("n")]
    queue.put(item)
    answer = queue.get()
    assert [type(x) for x in answer] == [type(x) for x in item]
    assert answer == item


class _Name(str):
    pass


def test_conjugate_and_negative_views_stay_what_they_are() -> None:
    queue = SimpleQueue(ctx=CONTEXT)
    base = st.tensor([1 + 2j, 3 - 1j])
    queue.put((base.conj(), base.conj().imag))
    conj, imag = queue.get()
    assert conj.is_conj() == base.conj().is_conj()
    assert conj.tolist() == [1 - 2j, 3 + 1j]
    assert imag.tolist() == [-2, 1]


def test_damaged_messages_raise_or_arrive_and_break_nothing() -> None:
    rng = random.Random(5)
    leases_before = sharing.status()["n_leases"]
    queue = SimpleQueue(ctx=CONTEXT)
    storage = st.UntypedStorage._received(queue._ring.handle())
    memory = st.empty(0, dtype=st.uint8).set_(storage).numpy()
    items = [
        [1, "text", (2.5, None, b"bytes"), {"a": [True, 2**40]}, st.arange(5)],
        {str(i): st.full((2, 3), float(i)) for i in range(5)},
        [{1}, st.arange(3), Parameter(st.ones(2))],
    ]
    n_damaged = 0
    for turn in range(600):
        # Behind the head of the next message.
        start = 24576 + int(memory[200:204].view("uint32")[0])
        if start > len(memory) - 10_000:
            queue._ring = _C._new_ring(0)
            storage = st.UntypedStorage._received(queue._ring.handle())
            memory = st.empty(0, dtype=st.uint8).set_(storage).numpy()
            start = 24576
        queue._ring.put(items[turn % 3], 0, False)
        length = int(memory[start : start + 4].view("uint32")[0])
        for _ in range(rng.choice((1, 1, 2, 8))):
            memory[start + rng.randrange(16, length)] = rng.choice((0, 1, 255, rng.randrange(256)))
        try:
            queue._ring[0]
        except Exception:
            n_damaged += 1
    assert n_damaged > 100
    queue._ring.put("good", 0, False)
    assert queue._ring[0] == "good"
    # Leases that nobody could make out are counted anew when a queue goes with messages in it.
    queue._ring.put("left", 0, False)
    del queue, storage, memory
    gc.collect()
    waiting.until(  # the manager counts what the rings still hold
        lambda: sharing.status()["n_leases"] <= leases_before, sharing.status
    )
