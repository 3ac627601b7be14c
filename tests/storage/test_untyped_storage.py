"""UntypedStorage: construction, elements, copies, resizing, identity, weak references, views."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest

import shmtensor
from shmtensor.storage import UntypedStorage


@pytest.mark.check
def test_construct_from_nothing_is_empty() -> None:
    storage = UntypedStorage()
    assert len(storage) == storage.nbytes() == storage.size() == 0
    assert storage.data_ptr() == 0
    assert storage.tolist() == []


def test_construct_from_sequence_takes_values_modulo_256() -> None:
    assert UntypedStorage([1, 2, 300, -1]).tolist() == [1, 2, 44, 255]


def test_construct_from_buffer_copies() -> None:
    source = bytearray(b"abc")
    storage = UntypedStorage(source)
    source[0] = 0
    assert storage.tolist() == [97, 98, 99]


def test_a_size_may_be_of_any_library() -> None:
    assert UntypedStorage(np.int64(16)).nbytes() == 16
    assert shmtensor.FloatStorage(np.int32(4)).nbytes() == 16
    with pytest.raises(RuntimeError, match="the size must be between"):
        shmtensor.FloatStorage(np.int64(1 << 62))


@pytest.mark.parametrize("wrong", [1.0, "1", None, (1,)])
def test_what_is_no_index_is_a_type_error(wrong: object) -> None:
    with pytest.raises(TypeError):
        UntypedStorage(2)[wrong] = 1


@pytest.mark.parametrize("size", [-1, 1 << 63])
def test_construct_with_impossible_size_names_it(size: int) -> None:
    with pytest.raises(RuntimeError, match=str(size)):
        UntypedStorage(size)


def test_construct_beyond_memory_names_the_bytes() -> None:
    with pytest.raises(MemoryError, match=str(1 << 46)):
        UntypedStorage(1 << 46)


@pytest.mark.parametrize("bad", ["x", 2.5, [1, "a"]])
def test_construct_from_wrong_things_says_the_type(bad: object) -> None:
    with pytest.raises(RuntimeError, match=r"sequence|type"):
        UntypedStorage(bad)
    with pytest.raises(TypeError):
        UntypedStorage(1, 2)


def test_meta_has_size_but_no_data() -> None:
    storage = UntypedStorage(8, device="meta")
    assert (len(storage), storage.data_ptr(), storage.device.type) == (8, 0, "meta")
    with pytest.raises(RuntimeError, match="meta"):
        storage.tolist()


def test_index_reads_and_writes() -> None:
    storage = UntypedStorage([1, 2, 3, 4])
    assert (storage[0], storage[-1]) == (1, 4)
    storage[1] = 300
    storage[2:] = 9
    assert list(storage) == [1, 44, 9, 9]
    for bad in (4, -5):
        with pytest.raises(IndexError, match=f"index {bad} out of range for storage of size 4"):
            storage[bad]
    with pytest.raises(RuntimeError, match="step of 2"):
        storage[::2]
    with pytest.raises(RuntimeError, match="int types, but got float"):
        storage[0] = 1.5


def test_slice_shows_the_same_memory_and_keeps_it() -> None:
    storage = UntypedStorage([1, 2, 3, 4])
    part = storage[1:3]
    part[0] = 7
    assert storage.tolist() == [1, 7, 3, 4]
    with pytest.raises(RuntimeError):
        storage.resize_(64)
    del storage
    assert part.tolist() == [7, 3]
    with pytest.raises(RuntimeError, match="not resizable"):
        part.resize_(5)


@pytest.mark.check
def test_fill_copy_clone() -> None:
    storage = UntypedStorage(3).fill_(5)
    other = storage.clone().fill_(300)
    assert (storage.tolist(), other.tolist()) == ([5] * 3, [44] * 3)
    assert storage.copy_(other) is storage
    assert storage.tolist() == [44] * 3
    with pytest.raises(RuntimeError, match="self was 3 bytes but src was 2 bytes"):
        storage.copy_(UntypedStorage(2))
    with pytest.raises(RuntimeError, match="fill_ expects int"):
        storage.fill_(1.5)  # type: ignore[arg-type]


def test_resize_keeps_what_fits() -> None:
    storage = UntypedStorage([1, 2, 3])
    assert storage.resize_(10_000) is storage
    assert storage.tolist()[:3] == [1, 2, 3]
    assert storage.resize_(2).tolist() == [1, 2]
    assert storage.resize_(0).data_ptr() == 0
    assert len(storage.resize_(5)) == 5
    with pytest.raises(RuntimeError, match="-1"):
        storage.resize_(-1)


def test_resize_with_live_buffer_refuses() -> None:
    storage = UntypedStorage([1, 2, 3])
    view = storage._view()
    with pytest.raises(RuntimeError, match=r"storage that is not resizable.*1 live export"):
        storage.resize_(5000)
    view.release()
    del view
    gc.collect()
    assert len(storage.resize_(5000)) == 5000


def test_tensors_of_one_memory_have_one_storage_object() -> None:
    tensor = shmtensor.zeros(4)
    storage = tensor.untyped_storage()
    assert storage is tensor[1:].untyped_storage() is tensor.detach().untyped_storage()
    assert storage is not tensor.clone().untyped_storage()
    address = storage._cdata
    del storage
    assert tensor.untyped_storage()._cdata == address


def test_weak_reference_expires_with_the_last_holder() -> None:
    tensor = shmtensor.ones(3)
    token = tensor.untyped_storage()._weak_ref()
    gc.collect()
    assert not UntypedStorage._expired(token)  # the tensor holds it, no Python object does
    again = UntypedStorage._new_with_weak_ptr(token)
    assert again is tensor.untyped_storage()
    del tensor, again
    gc.collect()
    assert UntypedStorage._expired(token)
    assert UntypedStorage._new_with_weak_ptr(token) is None
    UntypedStorage._free_weak_ref(token)
    assert UntypedStorage._expired(token)


def test_deepcopy_keeps_aliases() -> None:
    storage = UntypedStorage([1, 2])
    a, b = copy.deepcopy([storage, storage])
    assert a is b
    assert a is not storage
    assert a.tolist() == [1, 2]
    assert copy.copy(storage) is not storage


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_returns_equal_bytes(protocol: int) -> None:
    storage = UntypedStorage(range(200))
    a, b = pickle.loads(pickle.dumps([storage, storage], protocol))
    assert a is b
    assert a.tolist() == list(range(200))
    assert a.resizable()


@pytest.mark.parametrize(
    ("order", "expected"),
    [("big", [2, 1, 4, 3]), ("little", [1, 2, 3, 4]), ("native", [1, 2, 3, 4])],
)
def test_from_buffer_swaps_foreign_bytes(order: str, expected: list[int]) -> None:
    storage = UntypedStorage.from_buffer(b"\1\2\3\4", order, dtype=shmtensor.int16)
    assert storage.tolist() == expected


def test_from_buffer_checks_offset_and_count() -> None:
    data = b"\1\2\3\4"
    assert UntypedStorage.from_buffer(data, count=2, offset=1).tolist() == [2, 3]
    with pytest.raises(
        ValueError, match="only 4 elements after offset 0, but specified a size of 5"
    ):
        UntypedStorage.from_buffer(data, count=5)
    with pytest.raises(ValueError, match="no greater than buffer length"):
        UntypedStorage.from_buffer(data, offset=5)
    with pytest.raises(ValueError, match="multiple of element size"):
        UntypedStorage.from_buffer(data[:3], dtype=shmtensor.int16)
    with pytest.raises(ValueError, match="'bog'"):
        UntypedStorage.from_buffer(data, "bog")


def test_byteswap_reverses_elements() -> None:
    storage = UntypedStorage(range(8))
    storage.byteswap(shmtensor.int32)
    assert storage.tolist() == [3, 2, 1, 0, 7, 6, 5, 4]
    storage.byteswap(shmtensor.complex64)
    assert storage.tolist() == list(range(8))
    with pytest.raises(ValueError, match="multiple"):
        UntypedStorage(3).byteswap(shmtensor.int16)


def test_repr_shows_values_and_size() -> None:
    text = repr(UntypedStorage([1, 2]))
    assert text.startswith(" 1\n 2\n")
    assert text.endswith("UntypedStorage(device=cpu) of size 2]")
