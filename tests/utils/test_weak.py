"""`utils.weak`: references to tensors, and mappings by their identity."""

from __future__ import annotations

import copy

import pytest

import shmtensor as T
from shmtensor.utils.weak import (
    TensorWeakRef,
    WeakIdKeyDictionary,
    WeakIdRef,
    WeakTensorKeyDictionary,
)


@pytest.mark.check
def test_references_are_equal_by_identity() -> None:
    one, other = T.ones(2), T.ones(2)
    assert WeakIdRef(one) == WeakIdRef(one)
    assert WeakIdRef(one) != WeakIdRef(other)
    assert hash(WeakIdRef(one)) == hash(WeakIdRef(one))
    assert TensorWeakRef(one) == TensorWeakRef(one)
    assert TensorWeakRef(one) != TensorWeakRef(other)
    assert TensorWeakRef(one)() is one


def test_reference_to_a_dead_tensor_equals_itself_alone() -> None:
    tensor = T.ones(2)
    first, second = WeakIdRef(tensor), WeakIdRef(tensor)
    del tensor
    assert first() is None
    assert first == first
    assert first != second


def test_reference_takes_tensors_only() -> None:
    with pytest.raises(AssertionError, match=r"expected torch\.Tensor"):
        TensorWeakRef(3)  # type: ignore[arg-type]


@pytest.mark.check
def test_mapping_forgets_dead_keys() -> None:
    one, other = T.ones(2), T.ones(2)
    mapping = WeakTensorKeyDictionary({one: "a"})
    mapping[other] = "b"
    assert len(mapping) == 2
    assert mapping[one] == "a"
    assert [key is one for key in mapping] == [True, False]
    del one
    assert len(mapping) == 1
    assert mapping.get(other) == "b"
    assert mapping.pop(other) == "b"
    assert not mapping


def test_mapping_asks_for_identity_and_never_compares_elements() -> None:
    key = T.ones(3)
    mapping = WeakIdKeyDictionary()
    mapping[key] = 1
    mapping[key] = 2
    assert len(mapping) == 1
    assert T.ones(3) not in mapping
    assert 3 not in mapping
    with pytest.raises(KeyError):
        mapping[T.ones(3)]
    del mapping[key]
    assert key not in mapping


def test_copies_and_unions() -> None:
    one, other = T.zeros(1), T.zeros(1)
    mapping = WeakIdKeyDictionary({one: [1]})
    shallow, deep = mapping.copy(), copy.deepcopy(mapping)
    assert shallow == mapping == deep
    assert shallow[one] is mapping[one]
    assert deep[one] is not mapping[one]
    joined = mapping | {other: [2]}
    assert len(joined) == 2
    assert len(mapping) == 1
    mapping |= {other: [3]}
    assert mapping[other] == [3]
    assert ({other: [4]} | mapping)[other] == [3]
    assert [reference() is one for reference in mapping.keyrefs()] == [True, False]
