"""Arrow's C data interface: what a tensor shows, what it is made from, who owns the memory.

pyarrow is the other side where it is installed; the structures are looked at with ctypes too.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T
from shmtensor.files import from_arrow

FORMATS = {
    "int8": b"c",
    "uint8": b"C",
    "int16": b"s",
    "uint16": b"S",
    "int32": b"i",
    "uint32": b"I",
    "int64": b"l",
    "uint64": b"L",
    "float16": b"e",
    "float32": b"f",
    "float64": b"g",
}


class Schema(ctypes.Structure):
    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class Array(ctypes.Structure):
    _fields_ = (
        ("length", ctypes.c_int64),
        ("null_count", ctypes.c_int64),
        ("offset", ctypes.c_int64),
        ("n_buffers", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("buffers", ctypes.POINTER(ctypes.c_void_p)),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_of = ctypes.pythonapi.PyCapsule_New
_capsule_of.restype = ctypes.py_object
_capsule_of.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def shown(t: T.Tensor) -> tuple[Schema, Array, Any]:
    """The structures that a tensor shows; they live as long as the capsules, the last item."""
    capsules = t.__arrow_c_array__()
    schema = Schema.from_address(_pointer_of(capsules[0], b"arrow_schema"))
    return schema, Array.from_address(_pointer_of(capsules[1], b"arrow_array")), capsules


class Producer:
    """An Arrow array that is made by hand, and counts how often it is released."""

    def __init__(
        self,
        values: Any,
        format: bytes = b"l",
        valid: bytes | None = None,
        change: Callable[[Schema, Array], None] = lambda schema, array: None,
    ) -> None:
        self.released = 0
        self.values, self.valid = values, valid
        self.callbacks = (_RELEASE(self.release_schema), _RELEASE(self.release_array))
        self.schema = Schema(format=format, name=b"", release=self.address(0))
        self.mask = ctypes.create_string_buffer(valid) if valid else None
        mask = ctypes.addressof(self.mask) if self.mask else None
        self.buffers = (ctypes.c_void_p * 2)(mask, ctypes.addressof(values))
        self.array = Array(
            length=len(values),
            n_buffers=2,
            buffers=self.buffers,
            null_count=-1 if valid else 0,
            release=self.address(1),
        )
        change(self.schema, self.array)

    def address(self, i: int) -> int | None:
        return ctypes.cast(self.callbacks[i], ctypes.c_void_p).value

    def release_schema(self, schema: int) -> None:
        Schema.from_address(schema).release = None

    def release_array(self, array: int) -> None:
        Array.from_address(array).release = None
        self.released += 1

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return (
            _capsule_of(ctypes.addressof(self.schema), b"arrow_schema", None),
            _capsule_of(ctypes.addressof(self.array), b"arrow_array", None),
        )


def longs(*values: int) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


# --- export ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_a_tensor_shows_its_memory(name: str) -> None:
    t = T.arange(5).to(getattr(T, name))[1:]
    schema, array, _capsules = shown(t)
    assert schema.format == FORMATS[name]
    assert (array.length, array.null_count, array.offset, array.n_buffers) == (4, 0, 0, 2)
    assert array.buffers[0] is None
    assert array.buffers[1] == t.data_ptr()
    alone = _pointer_of(t.__arrow_c_schema__(), b"arrow_schema")
    assert alone


@pytest.mark.check
def test_an_exported_array_keeps_the_memory() -> None:
    t = T.arange(1000.0)
    _, array, capsules = shown(t)
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(100000)
    address = array.buffers[1]
    del t
    gc.collect()
    T.zeros(1000)
    assert ctypes.c_float.from_address(address + 4 * 999).value == 999.0
    del capsules


def test_unused_capsules_give_the_memory_back() -> None:
    t = T.arange(4)
    capsules = t.__arrow_c_array__(None)
    del capsules
    t.resize_(100)


def test_what_arrow_cannot_show_is_refused() -> None:
    with pytest.raises(BufferError, match="has 2"):
        T.ones(2, 2).__arrow_c_array__()
    with pytest.raises(BufferError, match="not contiguous"):
        T.ones(4)[::2].__arrow_c_array__()
    with pytest.raises(BufferError, match=r"use tensor\.detach\(\)"):
        T.ones(2, requires_grad=True).__arrow_c_array__()
    with pytest.raises(BufferError, match="meta"):
        T.ones(2, device="meta").__arrow_c_array__()
    for dtype in (T.bool, T.bfloat16, T.complex64):
        with pytest.raises(TypeError, match=r"Arrow has no array of"):
            T.ones(2, dtype=dtype).__arrow_c_array__()
        with pytest.raises(TypeError, match=r"Arrow has no array of"):
            T.ones(2, dtype=dtype).__arrow_c_schema__()


# --- import ------------------------------------------------------------------------------------


def test_a_tensor_owns_the_array_and_releases_it_once() -> None:
    producer = Producer(longs(1, 2, 3))
    t = from_arrow(producer)
    assert t.tolist() == [1, 2, 3]
    assert t.data_ptr() == ctypes.addressof(producer.values)
    assert not producer.array.release
    assert producer.released == 0
    view = t[1:]
    del t
    assert producer.released == 0
    with pytest.raises(RuntimeError, match="read-only"):
        view.fill_(1)
    del view
    assert producer.released == 1
    with pytest.raises(ValueError, match="taken over before"):
        from_arrow(producer)


@pytest.mark.check
def test_a_copy_releases_the_array_at_once() -> None:
    producer = Producer(longs(1, 2, 3))
    t = from_arrow(producer, copy=True)
    assert producer.released == 1
    t.fill_(1)
    assert list(producer.values) == [1, 2, 3]


def test_offsets_and_masks_without_nulls_are_followed() -> None:
    def part(schema: Schema, array: Array) -> None:
        array.offset, array.length = 2, 2

    producer = Producer(longs(1, 2, 3, 4, 5), valid=b"\x1c", change=part)
    assert from_arrow(producer).tolist() == [3, 4]
    with pytest.raises(ValueError, match="1 of 2 elements are null"):
        from_arrow(Producer(longs(1, 2, 3, 4, 5), valid=b"\x17", change=part))
    assert from_arrow(Producer(longs())).tolist() == []


def test_elements_at_odd_addresses_are_copied() -> None:
    raw = ctypes.create_string_buffer(1 + 16)
    values = (ctypes.c_int64 * 2).from_buffer(raw, 1)
    values[:] = 5, 6
    producer = Producer(values)
    assert ctypes.addressof(values) % 8
    t = from_arrow(producer)
    assert producer.released == 1
    assert t.tolist() == [5, 6]


def set_array(**fields: Any) -> Callable[[Schema, Array], None]:
    def change(schema: Schema, array: Array) -> None:
        for name, value in fields.items():
            setattr(array, name, value)

    return change


def set_schema(**fields: Any) -> Callable[[Schema, Array], None]:
    def change(schema: Schema, array: Array) -> None:
        for name, value in fields.items():
            setattr(schema, name, value)

    return change


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (set_array(length=-1), ValueError, "make no array"),
        (set_array(offset=-1), ValueError, "make no array"),
        (set_array(null_count=-2), ValueError, "make no array"),
        (set_array(length=2**62, offset=2**62), ValueError, "make no array"),
        (set_array(length=2**61), ValueError, "make no array"),
        (set_array(n_buffers=1), ValueError, "has 2 buffers"),
        (set_array(n_children=1), ValueError, "no children"),
        (set_array(buffers=None), ValueError, "has 2 buffers"),
        (set_array(buffers=(ctypes.c_void_p * 2)()), ValueError, "no data"),
        (set_array(release=None), ValueError, "released"),
        (set_schema(release=None), ValueError, "released"),
        (set_schema(format=None), ValueError, "no format"),
        (set_schema(format=b"b"), TypeError, "'b'"),
        (set_schema(format=b"+l"), TypeError, r"'\+l'"),
        (set_schema(format=b"ll"), TypeError, "'ll'"),
        (set_schema(format=b"tdD"), TypeError, "'tdD'"),
        (set_schema(dictionary=1), TypeError, "with a dictionary"),
    ],
)
def test_structures_that_lie_are_refused(
    change: Callable[[Schema, Array], None], error: type[Exception], message: str
) -> None:
    producer = Producer(longs(1, 2, 3), change=change)
    with pytest.raises(error, match=message):
        from_arrow(producer)
    assert producer.released == 0


def test_other_objects_are_refused() -> None:
    class Stream:
        def __arrow_c_stream__(self) -> None: ...

    class Odd:
        def __init__(self, given: object) -> None:
            self.given = given

        def __arrow_c_array__(self) -> object:
            return self.given

    with pytest.raises(TypeError, match="list has no __arrow_c_array__"):
        from_arrow([1])
    with pytest.raises(TypeError, match="stream of arrays"):
        from_arrow(Stream())
    with pytest.raises(TypeError, match="not two capsules"):
        from_arrow(Odd(None))
    with pytest.raises(ValueError, match="PyCapsule"):
        from_arrow(Odd((1, 2)))
    schema, array = T.ones(2).__arrow_c_array__()
    with pytest.raises(ValueError, match="PyCapsule"):
        from_arrow(Odd((array, schema)))


def test_tensors_are_arrow_arrays_themselves() -> None:
    t = T.arange(3, shared=True)
    again = from_arrow(t)
    assert again.data_ptr() == t.data_ptr()
    del t
    assert again.tolist() == [0, 1, 2]


# --- pyarrow -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_pyarrow_shares_the_memory_both_ways(name: str) -> None:
    pa = pytest.importorskip("pyarrow")
    t = T.arange(5).to(getattr(T, name))
    array = pa.array(t)
    assert array.buffers()[1].address == t.data_ptr()
    assert array.to_pylist() == t.tolist()
    del t
    back = from_arrow(array.slice(1, 3))
    assert back.tolist() == [1, 2, 3]
    del array
    assert back.tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="1 of 2 elements are null"):
        from_arrow(pa.array([1, None]))
    with pytest.raises(TypeError, match="stream of arrays"):
        from_arrow(pa.chunked_array([[1], [2]]))
