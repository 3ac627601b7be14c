"""Tensors over memory that others see (arrays, buffers, DLPack) in messages: a copy is sent."""

from __future__ import annotations

import array
import pickle
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.utils import safetensors


def _by_ring(value: Any) -> Any:
    queue = mp.SimpleQueue()
    queue.put(value)
    received = queue.get()
    queue.close()
    return received


def _by_queue(value: Any) -> Any:
    queue = mp.get_context("fork").Queue()
    queue.put(value)
    received = queue.get()
    queue.close()
    return received


def _by_pipe(value: Any) -> Any:
    reader, writer = mp.Pipe(False)
    writer.send(value)
    return reader.recv()


def _by_pickle(value: Any) -> Any:
    return pickle.loads(ForkingPickler.dumps([value, {1}]))[0]  # a set needs the ordinary pickler


_WAYS: list[Callable[[Any], Any]] = [_by_ring, _by_queue, _by_pipe, _by_pickle]
_MAKERS: dict[str, Callable[[np.ndarray[Any, Any]], st.Tensor]] = {
    "from_numpy": st.from_numpy,
    "as_tensor": st.as_tensor,
    "asarray": st.asarray,
    "from_dlpack": st.from_dlpack,
    "frombuffer": lambda a: st.frombuffer(a, dtype=st.float64),
    "view": lambda a: st.from_numpy(a)[:],
}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("maker", _MAKERS)
def test_tensor_and_array_stay_one_memory(maker: str, way: Callable[[Any], Any]) -> None:
    values = np.arange(4.0)
    tensor = _MAKERS[maker](values)
    received = way(tensor)
    values[0] = 7
    tensor[1] = 8
    assert tensor.tolist() == values.tolist() == [7, 8, 2, 3]
    assert received.tolist() == [0, 1, 2, 3]
    assert received.is_shared()
    assert not tensor.is_shared()


@pytest.mark.parametrize("way", _WAYS)
def test_views_of_an_array_share_memory_at_the_receiver(way: Callable[[Any], Any]) -> None:
    values = np.arange(4.0)
    tensor = st.from_numpy(values)
    whole, part, storage = way([tensor, tensor[2:], tensor.untyped_storage()])
    whole[2] = 9
    assert part.tolist() == [9, 3]
    assert storage is whole.untyped_storage() is part.untyped_storage()
    assert values.tolist() == [0, 1, 2, 3]
    assert not tensor.is_shared()


@pytest.mark.parametrize("way", _WAYS)
def test_array_that_nobody_else_has_moves(way: Callable[[Any], Any]) -> None:
    tensor = st.from_numpy(np.arange(6.0).reshape(2, 3)[:, 1:])
    received = way(tensor)
    received += 1
    assert tensor.is_shared()
    assert tensor.tolist() == [[2, 3], [5, 6]]


@pytest.mark.check
def test_view_of_an_array_that_somebody_has_does_not_move() -> None:
    values = np.arange(6.0)
    tensor = st.from_numpy(values[1:3])
    _by_ring(tensor)
    values[1] = 9
    assert tensor.tolist() == [9, 2]


class _OfItself(np.ndarray[Any, Any]):
    @property
    def base(self) -> Any:
        return self


class _Refusing(np.ndarray[Any, Any]):
    @property
    def base(self) -> Any:
        raise SystemExit


@pytest.mark.parametrize("kind", [_OfItself, _Refusing])
def test_base_that_a_class_derived_from_arrays_names_is_not_believed(kind: Any) -> None:
    tensor = st.from_numpy(np.arange(4.0).view(kind))
    assert _by_ring(tensor).tolist() == [0, 1, 2, 3]
    assert not tensor.is_shared()


def test_buffers_of_the_standard_library_stay() -> None:
    values = array.array("d", [1, 2])
    tensor = st.frombuffer(values, dtype=st.float64)
    received = _by_ring(tensor)
    values[0] = 5
    assert tensor.tolist() == [5, 2]
    assert received.tolist() == [1, 2]


@pytest.mark.filterwarnings("ignore:.*not writable:UserWarning")  # once in a process
def test_read_only_memory_stays_read_only() -> None:
    tensor = st.frombuffer(b"\1\2\3", dtype=st.uint8)
    received = _by_ring(tensor)
    received[0] = 7
    assert tensor.tolist() == [1, 2, 3]
    with pytest.raises(RuntimeError, match="read-only"):
        tensor[0] = 7


def test_parts_of_one_storage_stay_one_memory() -> None:
    storage = st.UntypedStorage([1, 2, 3, 4])
    part = storage[1:3]
    received = _by_ring(part)
    storage[1] = 9
    assert part.tolist() == [9, 3]
    assert received.tolist() == [2, 3]


@pytest.mark.check
def test_parts_of_a_mapped_file_move_alone(tmp_path: Path) -> None:
    path = tmp_path / "data"
    safetensors.save_file({"a": st.ones(3), "b": st.zeros(3)}, path)
    tensors = safetensors.load_file(path)
    received = _by_ring(tensors["a"])
    assert received.untyped_storage() is tensors["a"].untyped_storage()
    assert not tensors["b"].is_shared()
    opened = safetensors.open_file(path)
    first, second = opened["a"], opened["a"]  # two tensors that show one part
    _by_ring(first)
    first[0] = 5
    assert second.tolist() == [5, 1, 1]


def test_producer_of_dlpack_stays_one_memory() -> None:
    class Producer:
        def __init__(self, tensor: st.Tensor) -> None:
            self.tensor = tensor

        def __dlpack__(self, **kwargs: Any) -> Any:
            return self.tensor.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> Any:
            return self.tensor.__dlpack_device__()

    producer = Producer(st.zeros(3))
    tensor = st.from_dlpack(producer)
    _by_ring(tensor)
    producer.tensor[0] = 4
    assert tensor.tolist() == [4, 0, 0]


@pytest.mark.parametrize("mode", [mp.lend, mp.cow])
def test_modes_refuse_what_would_be_copied(mode: Any) -> None:
    values = np.zeros(3)
    tensor = st.from_numpy(values)
    queue = mp.SimpleQueue()
    with pytest.raises(BufferError, match=r"share_memory_\(\) first"):
        queue.put(mode(tensor))
    queue.put(mode(tensor.share_memory_()))
    tensor[0] = 5
    assert values.tolist() == [0, 0, 0]  # share_memory_() moves the tensor's bytes
    queue.close()


def test_tensor_whose_memory_an_array_shows_is_refused() -> None:
    tensor = st.zeros(3)
    shown = tensor.numpy()
    with pytest.raises(BufferError, match="1 live export"):
        _by_ring(tensor)
    del shown
    assert _by_ring(tensor).untyped_storage() is tensor.untyped_storage()


def _add_one(tensor: st.Tensor, part: st.Tensor, answers: Any) -> None:
    tensor += 1
    answers.put(part.tolist())


def test_arguments_of_a_spawned_process_are_copied_once() -> None:
    context = mp.get_context("spawn")
    answers = context.SimpleQueue()
    values = np.zeros(3)
    tensor = st.from_numpy(values)
    process = context.Process(target=_add_one, args=(tensor, tensor[1:], answers))
    process.start()
    assert answers.get() == [1, 1]
    process.join()
    assert values.tolist() == tensor.tolist() == [0, 0, 0]
    answers.close()
