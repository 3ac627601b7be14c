"""TypedStorage and the old-style classes: elements, conversions, files, pickling."""

from __future__ import annotations

import copy
import os
import pickle
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

import shmtensor
from shmtensor import storage as storages
from shmtensor.storage import TypedStorage, UntypedStorage
from shmtensor.storage.typed import LEGACY_CLASSES


@pytest.mark.parametrize("name", sorted(LEGACY_CLASSES))
def test_legacy_class_makes_storages_of_its_dtype(name: str) -> None:
    legacy: Any = getattr(storages, name)
    storage = legacy([0, 1, 1])
    assert type(storage) is TypedStorage
    assert isinstance(storage, legacy)
    assert storage.dtype is legacy.dtype
    assert storage.tolist() == [0, 1, 1]
    assert storage.pickle_storage_type() == name
    assert storage.nbytes() == 3 * storage.element_size()
    other = LEGACY_CLASSES["FloatStorage" if name != "FloatStorage" else "IntStorage"]
    assert not isinstance(storage, other)


@pytest.mark.check
def test_elements_read_and_write_with_conversion() -> None:
    storage = TypedStorage([1, 2.5, 3], dtype=shmtensor.float64)
    storage[0] = 7
    assert (storage[0], storage[-1], len(storage)) == (7.0, 3.0, 3)
    with pytest.raises(IndexError, match="index 5 out of range for storage of size 3"):
        storage[5]
    with pytest.raises(RuntimeError, match="slices are only supported"):
        storage[1:]
    assert storage.fill_(2).tolist() == [2.0] * 3


def test_conversion_copies_values() -> None:
    storage: Any = TypedStorage([1.5, -2], dtype=shmtensor.float32)
    assert storage.double().dtype is shmtensor.float64
    assert storage.long().tolist() == [1, -2]
    assert storage.type("shmtensor.HalfStorage").tolist() == [1.5, -2.0]
    untyped: Any = UntypedStorage([1, 2])
    assert untyped.float().tolist() == [1.0, 2.0]


def test_wrapping_shares_memory_with_the_untyped_storage() -> None:
    tensor = shmtensor.tensor([1.0, 2.0])
    storage = tensor.storage()
    storage[1] = 9.0
    assert tensor.tolist() == [1.0, 9.0]
    assert storage.untyped() is tensor.untyped_storage()
    assert storage == tensor.storage()
    with pytest.raises(RuntimeError, match="dtype"):
        TypedStorage(wrap_storage=UntypedStorage(8))


def test_resize_counts_elements() -> None:
    storage = TypedStorage([1, 2], dtype=shmtensor.int32)
    storage.resize_(4)
    assert (len(storage), storage.nbytes(), storage.tolist()[:2]) == (4, 16, [1, 2])


def test_copy_of_other_size_says_both() -> None:
    with pytest.raises(RuntimeError, match="self was 8 bytes but src was 16 bytes"):
        TypedStorage(2, dtype=shmtensor.float32).copy_(TypedStorage(2, dtype=shmtensor.float64))


@pytest.mark.check
def test_deepcopy_keeps_aliases_with_tensors() -> None:
    tensor = shmtensor.tensor([1.0, 2.0])
    new_tensor, new_storage = copy.deepcopy([tensor, tensor.storage()])
    new_storage[0] = 5.0
    assert new_tensor.tolist() == [5.0, 2.0]
    assert tensor.tolist() == [1.0, 2.0]


def test_pickle_keeps_dtype_and_values() -> None:
    storage = pickle.loads(pickle.dumps(TypedStorage([1, 2], dtype=shmtensor.bfloat16)))
    assert (storage.dtype, storage.tolist()) == (shmtensor.bfloat16, [1.0, 2.0])


def test_from_buffer_needs_a_byte_order() -> None:
    legacy = LEGACY_CLASSES["FloatStorage"]
    assert legacy.from_buffer(b"\0\0\x80\x3f", "little").tolist() == [1.0]
    assert legacy.from_buffer(b"\x3f\x80\0\0", "big").tolist() == [1.0]
    with pytest.raises(RuntimeError, match="byte_order"):
        legacy.from_buffer(b"\0\0\x80\x3f")
    with pytest.raises(RuntimeError, match=r"'dtype' can only be specified in .*, got torch.int8"):
        legacy._from_buffer(b"\0", dtype=shmtensor.int8)


def test_from_buffer_of_bytes_and_of_any_dtype() -> None:
    octets = LEGACY_CLASSES["ByteStorage"]._from_buffer(b"\1\2\3", count=2, offset=1)
    assert (octets.dtype, octets.tolist()) == (shmtensor.uint8, [2, 3])
    assert shmtensor.tensor([], dtype=shmtensor.uint8).set_(octets).tolist() == [2, 3]
    assert TypedStorage._from_buffer(b"\0\0\x80\x3f", "little").tolist() == [1.0]
    numbers = TypedStorage.from_buffer(b"\1\0", "little", dtype=shmtensor.int16, device="cpu")
    assert (numbers.dtype, numbers.tolist()) == (shmtensor.int16, [1])
    with pytest.raises(RuntimeError, match="byte_order"):
        TypedStorage.from_buffer(b"\0\0\x80\x3f")
    with pytest.raises(RuntimeError, match="Not available for device meta"):
        TypedStorage.from_buffer(b"\0", device="meta")


def test_file_written_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "storage"
    source = TypedStorage([1, 2, 3], dtype=shmtensor.int32)
    with open(path, "wb") as f:
        f.write(b"head")
        source._write_file(f, is_real_file=True)
    assert path.read_bytes()[4:12] == (3).to_bytes(8, "little")
    with open(path, "rb") as f:
        f.read(4)
        assert LEGACY_CLASSES["IntStorage"]._new_with_file(f).tolist() == [1, 2, 3]
        target = TypedStorage(3, dtype=shmtensor.int32)
        target._set_from_file(f, 4, True)
        assert target.tolist() == [1, 2, 3]
        with pytest.raises(RuntimeError, match="expected 8 got 12"):
            TypedStorage(2, dtype=shmtensor.int32)._set_from_file(f, 4, True)


def test_texts_name_torch_classes() -> None:
    typed = shmtensor.ones(2, dtype=shmtensor.int32).storage()
    assert typed.type() == "torch.IntStorage"
    assert repr(typed).endswith(
        "[torch.storage.TypedStorage(dtype=torch.int32, device=cpu) of size 2]"
    )
    untyped = typed.untyped()
    assert untyped.type() == "torch.storage.UntypedStorage"
    assert repr(untyped).endswith("[torch.storage.UntypedStorage(device=cpu) of size 8]")
    with pytest.raises(TypeError, match=r"can't index a torch\.UntypedStorage with str"):
        untyped["a"]


@pytest.mark.skipif("SHMTENSOR_SANITIZER" in os.environ, reason="it uses no place again at once")
def test_passing_objects_of_one_storage_are_at_one_place() -> None:
    a = shmtensor.ones(3)
    b = a[1:]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second = id(a.storage()), id(b.storage())
    assert first == second


def test_storages_take_attributes_and_weak_references() -> None:
    storage: Any
    for storage in (shmtensor.ones(2).untyped_storage(), TypedStorage(2)):
        storage.note = 3
        assert storage.note == 3 and weakref.ref(storage)() is storage
