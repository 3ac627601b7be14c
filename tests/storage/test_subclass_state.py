"""What tensors have beside their elements survives copies, pickles, queues and files.

That are attributes in ``__dict__`` and in ``__slots__``, and what the ``__getstate__``,
``__setstate__`` and ``__reduce_ex__`` of a class say instead. Elements and geometry are in
test_serialization.py.
"""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as st
from shmtensor import Tensor, multiprocessing
from shmtensor.nn import Buffer, Parameter


class Plain(Tensor):
    """Attributes are in a dictionary."""


class Slotted(Tensor):
    __slots__ = ("__hidden", "tag")

    def hide(self, value: object) -> None:
        self.__hidden = value

    def hidden(self) -> object:
        return self.__hidden


class SlottedTwice(Slotted):
    __slots__ = "other"


class SlottedParameter(Parameter):
    __slots__ = ("tag",)


class SlottedBuffer(Buffer):
    __slots__ = ("tag",)


class Says(Tensor):
    """What is pickled is none of its attributes."""

    def __getstate__(self) -> Any:
        return ["said", self.tag]

    def __setstate__(self, state: Any) -> None:
        self.restored = state


class SaysOfParameter(Parameter):
    def __getstate__(self) -> Any:
        return ["said", self.tag]

    def __setstate__(self, state: Any) -> None:
        self.restored = state


class Selects(Tensor):
    """Names what is worth keeping, and lets it be set as usual."""

    def __getstate__(self) -> Any:
        return {"tag": self.tag}


class Takes(Tensor):
    """Gets what is kept as usual."""

    def __setstate__(self, state: Any) -> None:
        self.restored = state


class Wrong(Tensor):
    def __getstate__(self) -> Any:
        return (1, 2, 3)


class Reduces(Tensor):
    def __reduce_ex__(self, protocol: Any) -> Any:
        return _make_reduced, (self.as_subclass(Tensor), self.tag)


def _make_reduced(tensor: Tensor, tag: object) -> Tensor:
    made = tensor.as_subclass(Reduces)
    made.tag = ("reduced", tag)
    return made


def through_pickle(protocol: int) -> Callable[[Any], Any]:
    return lambda value: pickle.loads(pickle.dumps(value, protocol))


def through_file(value: Any) -> Any:
    file = io.BytesIO()
    st.save(value, file)
    file.seek(0)
    return st.load(file, weights_only=False)


def through_safe_file(value: Any) -> Any:
    file = io.BytesIO()
    st.save(value, file)
    file.seek(0)
    with st.serialization.safe_globals([type(value)]):
        return st.load(file)


def through_queue(value: Any) -> Any:
    queue = multiprocessing.SimpleQueue()
    queue.put(value)
    return queue.get()


PICKLES = {
    "pickle 2": through_pickle(2),
    "pickle 5": through_pickle(5),
    "copy": copy.copy,
    "queue": through_queue,
    "file": through_file,
    "safe file": through_safe_file,
}
WAYS = {**PICKLES, "deepcopy": copy.deepcopy}


def tensor_of(kind: type[Any]) -> Any:
    if issubclass(kind, Parameter | Buffer):
        return kind(st.tensor([1.0, 2.0]))
    return st.tensor([1.0, 2.0]).as_subclass(kind)


@pytest.mark.check
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [Plain, Slotted, SlottedTwice, SlottedBuffer])
def test_attributes_survive(kind: type[Any], way: str) -> None:
    value = tensor_of(kind)
    value.tag = {"a": [1]}
    value.note = "in the dictionary"
    if isinstance(value, Slotted):
        value.hide(7)
    if isinstance(value, SlottedTwice):
        value.other = 8
    result = WAYS[way](value)
    assert type(result) is kind
    assert result.tolist() == [1.0, 2.0]
    assert result.tag == {"a": [1]}
    assert result.note == "in the dictionary"
    assert "note" in result.__dict__
    if isinstance(value, Slotted):
        assert "tag" not in result.__dict__
        assert result.hidden() == 7
    if isinstance(value, SlottedTwice):
        assert result.other == 8


@pytest.mark.parametrize("way", WAYS)
def test_slots_without_a_value_stay_so(way: str) -> None:
    result = WAYS[way](tensor_of(Slotted))
    assert not hasattr(result, "tag")
    assert result.__dict__ == {}


@pytest.mark.parametrize("way", ["pickle 2", "pickle 5", "copy", "queue", "file"])
@pytest.mark.parametrize("has_note", [False, True])
def test_slots_of_parameters_survive(way: str, has_note: bool) -> None:
    value = tensor_of(SlottedParameter)
    value.tag = "slot"
    if has_note:
        value.note = "in the dictionary"
    result = WAYS[way](value)
    assert type(result) is SlottedParameter
    assert result.requires_grad
    assert result.tag == "slot"
    assert getattr(result, "note", None) == ("in the dictionary" if has_note else None)


def test_deep_copy_of_a_parameter_leaves_attributes_behind() -> None:
    # As torch does.
    value = tensor_of(SlottedParameter)
    value.tag = value.note = 1
    result = copy.deepcopy(value)
    assert not hasattr(result, "tag")
    assert not hasattr(result, "note")


@pytest.mark.parametrize("way", PICKLES)
@pytest.mark.parametrize("kind", [Says, SaysOfParameter])
def test_state_of_the_class_is_what_travels(kind: type[Any], way: str) -> None:
    if way == "safe file" and kind is SaysOfParameter:
        pytest.skip("files that only hold weights have no subclasses of Parameter")
    value = tensor_of(kind)
    value.tag = 3
    result = WAYS[way](value)
    assert type(result) is kind
    assert result.restored == ["said", 3]
    assert not hasattr(result, "tag")


@pytest.mark.parametrize("way", PICKLES)
def test_state_without_its_setter_is_set(way: str) -> None:
    value = tensor_of(Selects)
    value.tag, value.dropped = 3, 4
    result = WAYS[way](value)
    assert result.__dict__ == {"tag": 3}


@pytest.mark.parametrize("way", PICKLES)
def test_setter_gets_the_attributes(way: str) -> None:
    value = tensor_of(Takes)
    value.tag = 3
    assert WAYS[way](value).restored == {"tag": 3}


def test_deep_copy_copies_attributes_themselves() -> None:
    # As torch does: __getstate__ and __setstate__ are for pickles.
    value = tensor_of(Says)
    value.tag = [3]
    result = copy.deepcopy(value)
    assert result.__dict__ == {"tag": [3]}
    assert result.tag is not value.tag


@pytest.mark.parametrize("way", PICKLES)
def test_reduction_of_the_class_is_used(way: str) -> None:
    if way == "safe file":
        pytest.skip("its function is unknown to files that only hold weights")
    value = tensor_of(Reduces)
    value.tag = 5
    assert WAYS[way](value).tag == ("reduced", 5)


@pytest.mark.parametrize("way", ["pickle 2", "copy", "queue"])
def test_state_of_another_form_without_a_setter_is_refused(way: str) -> None:
    with pytest.raises(RuntimeError, match=r"Wrong has no __setstate__.* returned \(1, 2, 3\)"):
        WAYS[way](tensor_of(Wrong))


@pytest.mark.parametrize("layout", [st.sparse_coo, st.sparse_csr, st.sparse_csc])
def test_slots_of_sparse_tensors_survive(layout: Any) -> None:
    value = st.eye(2).to_sparse(layout=layout).as_subclass(Slotted)
    value.tag = 3
    for way in ("pickle 5", "queue", "file"):
        result = WAYS[way](value)
        assert type(result) is Slotted
        assert result.tag == 3


def test_pickles_of_before_are_read() -> None:
    # Their state was always a dictionary.
    from shmtensor._core._pickling import rebuild_subclass

    result: Any = rebuild_subclass(Slotted, st.ones(2), {"tag": 1, "note": 2})
    assert (result.tag, result.__dict__) == (1, {"note": 2})
