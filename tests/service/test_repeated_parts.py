"""Values in which one part occurs many times: it is one object there, and its work is done once.

Not covered: queues of this package's own processes (tests/multiprocessing/test_queue_objects.py).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import service_programs as programs

import shmtensor as T
from shmtensor.service import Service

_WIDTH, _WIDE_DEPTH, _DEEP_DEPTH = 1000, 11, 40


class Pair(NamedTuple):
    first: Any
    second: Any


def wide(leaf: Any) -> Any:
    """Lists within lists, with more ways to the leaf than anybody could walk."""
    value = [leaf]
    for _ in range(_WIDE_DEPTH):
        value = [value] * _WIDTH
    return value


def deep(leaf: Any) -> Any:
    """Tuples within tuples, too deep to be written without a pickle."""
    value: Any = (leaf,)
    for _ in range(_DEEP_DEPTH):
        value = (value, value)
    return value


def leaf_of(value: Any, depth: int, width: int) -> Any:
    """Check that all parts of one level are one object; returns the leaf."""
    for _ in range(depth):
        assert len(value) == width
        assert all(part is value[0] for part in value)
        value = value[0]
    [leaf] = value
    return leaf


SHAPES: dict[str, tuple[Callable[[Any], Any], int, int]] = {
    "wide": (wide, _WIDE_DEPTH, _WIDTH),
    "deep": (deep, _DEEP_DEPTH, 2),
}

# --- ways to another program ---


def by_queue(service: Service, value: Any, as_: Any) -> Any:
    jobs = service.Queue("jobs", as_=as_)
    jobs.put(value)
    return jobs.get(timeout=programs.WAIT_S)


def by_topic(service: Service, value: Any, as_: Any) -> Any:
    topic = service.Topic("topic")
    with topic.subscribe(as_=as_) as messages:
        topic.publish(value)
        return messages.get(programs.WAIT_S)


def by_request(service: Service, value: Any, as_: Any) -> Any:
    with service.Server("server", as_=as_) as server, service.Client("server") as client:
        future = client.submit(value)
        request = server.take(timeout=programs.WAIT_S).pop()
        request.reply(None)
        assert future.result(programs.WAIT_S) is None
        return request.value


def by_reply(service: Service, value: Any, as_: Any) -> Any:
    with service.Server("server") as server, service.Client("server", as_=as_) as client:
        future = client.submit(None)
        server.take(timeout=programs.WAIT_S).pop().reply(value)
        return future.result(programs.WAIT_S)


WAYS = {"queue": by_queue, "topic": by_topic, "request": by_request, "reply": by_reply}

# --- messages ---


@pytest.mark.check
@pytest.mark.parametrize("as_", ["shmtensor", "numpy"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("way", WAYS)
def test_part_that_occurs_very_often_arrives_as_one(
    service: Service, way: str, shape: str, as_: str
) -> None:
    make, depth, width = SHAPES[shape]
    for leaf in (1, T.ones(3), np.ones(3)):
        arrived = leaf_of(WAYS[way](service, make(leaf), as_), depth, width)
        if type(leaf) is int:
            assert arrived == 1
        else:
            assert isinstance(arrived, np.ndarray if as_ == "numpy" else T.Tensor)
            assert arrived.tolist() == [1, 1, 1]


@pytest.mark.parametrize("way", WAYS)
def test_value_that_contains_itself_arrives_as_arrays(service: Service, way: str) -> None:
    # A set is not written without a pickle, and takes what is in one value with it another way.
    for more in ([], [{1}]):
        items: list[Any] = [T.ones(2), np.zeros(2), *more]
        items.append(items)
        got = WAYS[way](service, items, "numpy")
        assert got[-1] is got
        assert [item.tolist() for item in got[:2]] == [[1, 1], [0, 0]]
        names: dict[str, Any] = {"one": np.ones(2), "more": more}
        names["all"] = [names, (names,)]
        got = WAYS[way](service, names, "numpy")
        assert got["all"][0] is got is got["all"][1][0]
        assert isinstance(got["one"], np.ndarray) and got["more"] == more


def test_collections_with_common_parts_keep_them(service: Service) -> None:
    tensor = T.ones(2)
    inner = Pair(tensor, 1)
    value = [inner, OrderedDict(a=inner, b=tensor), {"c": (inner, tensor)}]
    got = by_queue(service, value, "numpy")
    assert type(got[0]) is Pair and type(got[1]) is OrderedDict
    assert got[0] is got[1]["a"] is got[2]["c"][0]
    assert got[0].first is got[1]["b"] is got[2]["c"][1]
    assert isinstance(got[0].first, np.ndarray)


# --- published values ---


@pytest.mark.parametrize("shape", SHAPES)
def test_value_with_more_parts_than_can_be_written_is_refused_at_once(
    service: Service, shape: str
) -> None:
    make, _, _ = SHAPES[shape]
    with pytest.raises(ValueError, match="parts, counted as often as they occur"):
        service.publish("value", make(1))
    assert "value" not in service.list()


def test_value_with_many_parts_is_published(service: Service) -> None:
    value = [[1, "two"]] * 10_000
    service.publish("value", value)
    assert service.attach("value") == value
