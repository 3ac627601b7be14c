"""Collating and converting: what becomes of each kind of sample.

Not covered: in worker processes (test_workers, test_memory), tensors of torch (test_interop).
"""

from __future__ import annotations

import array
import collections
import enum
import types
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.utils.data import default_collate, default_convert
from shmtensor.utils.data._utils.collate import (
    collate,
    collate_tensor_fn,
    default_collate_fn_map,
)
from shmtensor.utils.data._utils.pin_memory import pin_memory
from shmtensor.utils.data._utils.tree import map_leaves

Point = collections.namedtuple("Point", "x y")


class WithArguments(list[Any]):
    """Cannot be made of a list alone."""

    def __init__(self, values: Any, name: str) -> None:
        super().__init__(values)
        self.name = name


class Rows(tuple[Any, ...]):
    """A tuple by another name."""


# --- values ---


@pytest.mark.check
def test_tensors_are_stacked() -> None:
    batch = default_collate([st.ones(2), st.zeros(2)])
    assert batch.tolist() == [[1, 1], [0, 0]]
    assert batch.dtype == st.float32
    assert default_collate([st.tensor(1), st.tensor(2)]).tolist() == [1, 2]
    assert default_collate([st.ones(0), st.ones(0)]).shape == (2, 0)
    assert not batch.is_shared()


def test_tensors_of_two_dtypes_are_promoted() -> None:
    batch = default_collate([st.ones(2, dtype=st.int64), st.zeros(2)])
    assert batch.dtype == st.float32


def test_tensors_with_history_keep_it() -> None:
    leaf = st.ones(2, requires_grad=True)
    default_collate([leaf, leaf]).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2, 2]


def test_tensors_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"\[2\] at entry 0 and \[3\] at entry 1"):
        default_collate([st.ones(2), st.ones(3)])
    with pytest.raises(TypeError, match="expected Tensor as element 1"):
        default_collate([st.ones(()), 1])


@pytest.mark.parametrize(
    ("samples", "dtype"),
    [
        ([1, 2], st.int64),
        ([1.0, 2], st.float64),
        ([1, 2.5], st.float32),
        ([True, False], st.bool),
        ([True, 3], st.int64),
        ([np.float16(1), np.float16(2)], st.float16),
        ([np.int8(1), np.int8(2)], st.int8),
        ([np.bool_(True), np.bool_(False)], st.bool),
        ([enum.IntEnum("Level", "low high").high], st.int64),  # type: ignore[attr-defined]
    ],
)
def test_numbers_become_a_tensor(samples: list[Any], dtype: Any) -> None:
    batch = default_collate(samples)
    assert batch.dtype == dtype
    assert [float(x) for x in batch.tolist()] == [float(s) for s in samples]


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i4", "i8", "u1", "u2", "?", "c8"])
def test_arrays_become_a_tensor(dtype: str) -> None:
    samples = [np.arange(6).reshape(2, 3).astype(dtype) + np.array(i, dtype) for i in range(3)]
    batch = default_collate(samples)
    assert batch.numpy().dtype == np.dtype(dtype)
    assert np.array_equal(batch.numpy(), np.stack(samples))
    samples[0][...] = 0
    assert batch[0, 0, 1].item() == 1  # a copy


def test_arrays_of_every_layout_are_read() -> None:
    base = np.arange(12.0).reshape(3, 4)
    fixed = base.copy()
    fixed.flags.writeable = False
    samples = [base.T, np.asfortranarray(base).T, fixed.T, base[:, ::-1].T]
    batch = default_collate(samples)
    assert np.array_equal(batch.numpy(), np.stack(samples))
    assert default_collate([np.array(1), np.array(2)]).tolist() == [1, 2]
    assert default_collate([np.zeros((0, 3))]).shape == (1, 0, 3)


def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RuntimeError, match=r"\[2\] at entry 0 and \[3\] at entry 1"):
        default_collate([np.ones(2), np.ones(3)])
    for values, name in (([None], "object"), (["a"], "<U1")):
        with pytest.raises(TypeError, match=f"found {name}"):
            default_collate([np.array(values)])
    with pytest.raises(TypeError, match="can't convert"):
        default_collate([np.array(["2020-01-01"], dtype="M8[D]")])
    with pytest.raises(ValueError, match="byte order"):
        default_collate([np.ones(2, ">f4")])


def test_texts_stay_a_list() -> None:
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a"]) == [b"a"]
    assert default_collate([np.str_("a")]) == ["a"]


@pytest.mark.parametrize("value", [None, 1j, {1}, frozenset([1]), object, collate])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy"):
        default_collate([value])
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy"):
        default_collate([{"a": value}])


def test_numbers_too_large_are_refused() -> None:
    with pytest.raises(ValueError, match="Overflow"):
        default_collate([2**70])


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(IndexError):
        default_collate([])


# --- containers ---


@pytest.mark.check
def test_mappings_are_merged_key_by_key() -> None:
    batch = default_collate([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}])
    assert batch["a"].tolist() == [1, 2]
    assert batch["b"] == ["x", "y"]
    kinds = [
        collections.OrderedDict(a=1),
        collections.defaultdict(int, a=1),
        types.MappingProxyType({"a": 1}),
        collections.ChainMap({"a": 1}),
    ]
    for sample in kinds:
        merged = default_collate([sample, sample])
        assert type(merged) is type(sample)
        assert merged["a"].tolist() == [1, 1]
    assert default_collate([kinds[1]])["absent"] == 0
    assert kinds[1]["a"] == 1  # the sample is as it was


def test_mappings_take_the_keys_of_the_first() -> None:
    assert list(default_collate([{"a": 1}, {"a": 2, "b": 3}])) == ["a"]
    with pytest.raises(KeyError, match="a"):
        default_collate([{"a": 1}, {"b": 2}])


def test_sequences_are_merged_place_by_place() -> None:
    for make in (list, tuple, Rows):
        first, second = default_collate([make([1, "x"]), make([2, "y"])])
        assert first.tolist() == [1, 2]
        assert second == ("x", "y")
    assert type(default_collate([(1,), (2,)])) is list
    point = default_collate([Point(1, 2.0), Point(3, 4.0)])
    assert type(point) is Point
    assert point.x.tolist() == [1, 3]
    assert point.y.dtype == st.float64
    assert isinstance(default_collate([collections.deque([1, 2])]), collections.deque)
    assert isinstance(default_collate([collections.UserList([1, 2])]), collections.UserList)
    assert [t.tolist() for t in default_collate([range(2), range(2)])] == [[0, 0], [1, 1]]
    kept = default_collate([WithArguments([1, 2], "name")])
    assert type(kept) is WithArguments
    assert kept.name == "name"


def test_sequences_of_unlike_length_are_refused() -> None:
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal"):
        default_collate([[1, 2], [3]])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal"):
        default_collate([[1], [2, 3]])


def test_containers_nest() -> None:
    batch = default_collate([{"a": (1, [2.0, "x"])}, {"a": (3, [4.0, "y"])}])
    first, (second, texts) = batch["a"]
    assert first.tolist() == [1, 3]
    assert second.tolist() == [2, 4]
    assert texts == ("x", "y")


# --- maps of functions ---


def test_collate_without_a_map_takes_containers_only() -> None:
    with pytest.raises(TypeError, match="default_collate"):
        collate([1])


def test_collate_prefers_the_exact_type() -> None:
    class Number(int):
        pass

    def of_int(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return "int", list(batch)

    def of_number(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return "Number", list(batch)

    functions = {int: of_int, Number: of_number}
    assert collate([Number(1)], collate_fn_map=functions) == ("Number", [1])
    assert collate([True], collate_fn_map=functions) == ("int", [True])
    assert collate([[1], [2]], collate_fn_map={(int, str): of_int}) == [("int", [1, 2])]


def test_programs_may_add_types_to_the_default_map() -> None:
    class Box:
        def __init__(self, value: int) -> None:
            self.value = value

    def of_boxes(batch: Any, *, collate_fn_map: Any = None) -> Any:
        return collate([box.value for box in batch], collate_fn_map=collate_fn_map)

    default_collate_fn_map[Box] = of_boxes
    try:
        assert default_collate([Box(1), Box(2)]).tolist() == [1, 2]
    finally:
        del default_collate_fn_map[Box]
    assert collate_tensor_fn([st.ones(1)]).shape == (1, 1)


# --- converting ---


@pytest.mark.parametrize("value", [0, 1.5, "a", b"a", None, {1}, np.str_("a")])
def test_convert_leaves_values(value: Any) -> None:
    assert default_convert(value) is value


def test_convert_makes_arrays_tensors() -> None:
    array_ = np.ones(3)
    tensor = default_convert(array_)
    array_[0] = 5
    assert tensor.tolist() == [5, 1, 1]  # the same memory
    assert default_convert(np.float32(1)).dtype == st.float32
    assert default_convert(np.array(1)).shape == ()
    texts = np.array(["a"])
    assert default_convert(texts) is texts
    same = st.ones(2)
    assert default_convert(same) is same


def test_convert_goes_into_containers() -> None:
    ones = np.ones(1)
    assert default_convert({"a": ones})["a"].tolist() == [1]
    assert type(default_convert(collections.OrderedDict(a=ones))) is collections.OrderedDict
    point = default_convert(Point(ones, 2))
    assert type(point) is Point
    assert point.x.tolist() == [1]
    assert point.y == 2
    converted = default_convert((ones, 2))
    assert type(converted) is list
    assert converted[1] == 2
    assert default_convert(range(2)) == [0, 1]
    assert type(default_convert(collections.deque([ones]))) is collections.deque


# --- walking ---


def test_map_leaves_keeps_containers_without_change() -> None:
    data = {"a": (1, [2, "x"]), "b": array.array("i", [1])}
    assert map_leaves(lambda value: value, data) is data
    changed = map_leaves(lambda value: value + 1 if value == 2 else value, data)
    assert changed["a"] == (1, [3, "x"])
    assert changed["b"] is data["b"]
    assert data["a"] == (1, [2, "x"])
    assert map_leaves(lambda v: -v, Point(1, 2)) == Point(-1, -2)
    ordered = map_leaves(lambda v: -v, collections.OrderedDict(a=1))
    assert ordered == collections.OrderedDict(a=-1)


def test_pinning_is_for_what_has_it() -> None:
    class Batch:
        def pin_memory(self) -> str:
            return "pinned"

    assert pin_memory(["a", 1]) == ["a", 1]
    assert pin_memory({"a": Batch()}) == {"a": "pinned"}
    with pytest.raises(RuntimeError, match="when none is available"):
        pin_memory([st.ones(2)])


class Marked(st.Tensor):
    """A tensor by another name."""


def test_tensors_of_a_subclass_make_a_batch_of_it() -> None:
    one = st.ones(2).as_subclass(Marked)
    batch = default_collate([one, one])
    assert type(batch) is Marked
    assert batch.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert type(default_collate([{"a": one}])["a"]) is Marked


def test_a_batch_of_tensors_is_a_list_or_tuple() -> None:
    rows = st.ones(2, 3)
    assert default_collate(tuple(rows)).shape == (2, 3)
    with pytest.raises(TypeError, match=r"argument 'tensors' \(position 1\) must be tuple of"):
        default_collate(rows)


def test_only_arrays_of_numpy_itself_are_converted() -> None:
    class Measured(np.ndarray):
        pass

    masked = np.ma.masked_array([1, 2], mask=[False, True])
    measured = np.ones(2).view(Measured)
    converted = default_convert([masked, measured, np.arange(2)])
    assert converted[0] is masked
    assert converted[1] is measured
    assert st.is_tensor(converted[2])
    assert default_collate([measured, measured]).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_arrays_that_no_tensor_can_be_made_of_are_named() -> None:
    days = np.array(["2020-01-01"], dtype="datetime64[D]")
    for call in (st.as_tensor, default_convert, lambda array: default_collate([array])):
        with pytest.raises(TypeError, match=r"np\.ndarray of type numpy\.datetime64"):
            call(days)
