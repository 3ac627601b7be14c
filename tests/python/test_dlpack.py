"""DLPack both ways with NumPy, versions and copies, and what is refused."""

from __future__ import annotations

import ctypes
import gc
import re

import numpy as np
import pytest

import shmtensor as T
from shmtensor.utils.dlpack import from_dlpack, to_dlpack

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("name", DTYPES)
def test_numpy_reads_and_writes_the_tensors_memory(name: str) -> None:
    t = T.tensor([[0, 1], [1, 0]], dtype=getattr(T, name))
    array = np.from_dlpack(t)
    assert array.dtype == name
    assert array.tolist() == t.tolist()
    assert array.__array_interface__["data"][0] == t.data_ptr()


@pytest.mark.parametrize("name", DTYPES)
def test_tensor_reads_and_writes_numpys_memory(name: str) -> None:
    array = np.array([[0, 1], [1, 0]], dtype=name)
    t = T.from_dlpack(array)
    assert t.dtype is getattr(T, name)
    t[0, 0] = 1
    assert array[0, 0] == 1


@pytest.mark.check
def test_strides_survive_both_ways() -> None:
    t = T.arange(12.0).reshape(3, 4)[:, 1:3].T
    assert np.from_dlpack(t).tolist() == t.tolist()
    array = np.arange(12.0).reshape(3, 4)[1:, ::2]
    assert T.from_dlpack(array).tolist() == array.tolist()
    assert T.from_dlpack(np.zeros((0, 3))).shape == (0, 3)
    assert T.from_dlpack(T.tensor(5)).tolist() == 5


def test_bfloat16_travels_between_tensors() -> None:
    t = T.tensor([1.5], dtype=T.bfloat16)
    assert T.from_dlpack(t).dtype is T.bfloat16


def test_complex_halves_travel_between_tensors() -> None:
    t = T.tensor([1 + 2j], dtype=T.complex32)
    assert T.from_dlpack(t).dtype is T.complex32
    assert T.from_dlpack(t).tolist() == [1 + 2j]


def test_each_side_keeps_the_other_alive() -> None:
    array = np.from_dlpack(T.arange(1000.0))
    gc.collect()
    T.zeros(1000)
    assert array[999] == 999.0
    t = T.from_dlpack(np.arange(1000.0))
    gc.collect()
    assert t[999].item() == 999.0


def test_capsule_is_taken_over_once() -> None:
    t = T.ones(2)
    capsule = to_dlpack(t)
    again = from_dlpack(capsule)
    again[0] = 5
    assert t[0].item() == 5
    with pytest.raises(RuntimeError, match="can be consumed only once"):
        from_dlpack(capsule)


def test_unused_capsule_gives_the_memory_back() -> None:
    t = T.ones(4)
    capsule = t.__dlpack__(max_version=(1, 0))
    assert "dltensor_versioned" in repr(capsule)
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(100000)
    del capsule
    t.resize_(8)


def test_copy_is_separate_memory() -> None:
    t = T.ones(2)
    copied = T.from_dlpack(t, copy=True)
    copied[0] = 5
    assert t.tolist() == [1.0, 1.0]


def test_device_is_the_cpu() -> None:
    assert T.ones(1).__dlpack_device__() == (1, 0)
    with pytest.raises(ValueError, match="cpu"):
        T.from_dlpack(np.ones(1), device="meta")


def test_what_cannot_be_exported_is_refused() -> None:
    with pytest.raises(BufferError, match=re.escape("use tensor.detach()")):
        T.ones(1, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="meta"):
        T.ones(1, device="meta").__dlpack__()
    with pytest.raises(BufferError, match="another device"):
        T.ones(1).__dlpack__(dl_device=(2, 0))
    with pytest.raises(TypeError, match="stream"):
        T.ones(1).__dlpack__(stream="x")


def test_what_cannot_be_imported_is_refused() -> None:
    with pytest.raises(TypeError, match="has no __dlpack__"):
        T.from_dlpack([1])
    with pytest.raises(ValueError, match="negative"):
        T.from_dlpack(np.arange(3.0)[::-1])


def test_read_only_array_stays_read_only() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    t = T.from_dlpack(array)
    assert memoryview(t).readonly


class OldProducer:
    """An array of a library from before DLPack had versions, copies and devices."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self) -> object:
        return self.array.__dlpack__()


class Recorder:
    """A producer that keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: dict[str, object] = {}

    def __dlpack__(self, **options: object) -> object:
        self.asked = options
        return np.ones(2).__dlpack__(max_version=(1, 0))


@pytest.mark.check
def test_old_producers_are_asked_again_and_copied_here() -> None:
    array = np.arange(3.0)
    shared = T.from_dlpack(OldProducer(array), copy=False)
    shared[0] = 5
    assert array[0] == 5.0
    copied = T.from_dlpack(OldProducer(array), copy=True)
    copied[0] = 7
    assert array[0] == 5.0
    assert T.from_dlpack(OldProducer(array), device="cpu").tolist() == [5.0, 1.0, 2.0]


def test_device_and_copy_are_passed_on() -> None:
    producer = Recorder()
    T.from_dlpack(producer)
    assert producer.asked == {"max_version": (1, 0)}
    T.from_dlpack(producer, device="cpu", copy=False)
    assert producer.asked == {"max_version": (1, 0), "dl_device": (1, 0), "copy": False}


def test_a_producers_own_error_is_raised() -> None:
    class Broken:
        def __dlpack__(self, **options: object) -> object:
            raise TypeError("of its own")

    with pytest.raises(TypeError, match="of its own"):
        T.from_dlpack(Broken())


def test_capsules_have_their_device_and_memory() -> None:
    t = T.ones(2)
    for options in ({"copy": True}, {"copy": False}, {"device": "cpu"}):
        with pytest.raises(AssertionError, match="a capsule has its device and memory"):
            T.from_dlpack(t.__dlpack__(), **options)


def test_arguments_of_other_types_are_refused() -> None:
    t = T.ones(2)
    for device in ("cpu", T.device("cpu"), (1,), (1, 0, 0), ("a", "b")):
        with pytest.raises(TypeError, match="dl_device must be a tuple of two ints"):
            t.__dlpack__(dl_device=device)
    for copy in (1, "yes"):
        with pytest.raises(TypeError, match="argument 'copy' must be bool"):
            t.__dlpack__(copy=copy)
        with pytest.raises(TypeError, match="argument 'copy' must be bool"):
            T.from_dlpack(t, copy=copy)
    with pytest.raises(TypeError, match="max_version must be a tuple"):
        t.__dlpack__(max_version=1)


def test_the_cpu_has_no_streams() -> None:
    t = T.ones(2)
    for stream in (None, -1):
        assert "dltensor" in repr(t.__dlpack__(stream=stream))
    for stream in (0, 1, 2**70):
        with pytest.raises(AssertionError, match="stream should be None on cpu"):
            t.__dlpack__(stream=stream)


def test_only_versioned_capsules_are_read_only() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    t = T.from_dlpack(array)
    again = np.from_dlpack(t)
    assert not again.flags.writeable
    assert again.__array_interface__["data"][0] == array.__array_interface__["data"][0]
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__(max_version=(0, 8))
    assert "dltensor" in repr(t.__dlpack__(copy=True))
    assert np.from_dlpack(T.from_dlpack(array, copy=True)).flags.writeable


def test_jax_reads_the_same_memory() -> None:
    jax = pytest.importorskip("jax")
    t = T.arange(6.0, shared=True).reshape(2, 3)
    array = jax.numpy.from_dlpack(t)
    assert array.unsafe_buffer_pointer() == t.data_ptr()
    again = T.from_dlpack(array)
    assert again.data_ptr() == t.data_ptr()
    assert again.tolist() == t.tolist()
    assert T.from_dlpack(array, copy=True).data_ptr() != t.data_ptr()


# --- the table of functions for C ----------------------------------------------------------------


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_Fail = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
_Out = ctypes.POINTER(ctypes.POINTER(_Managed))


class _ExchangeApi(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        (
            "allocate",
            ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Tensor), _Out, ctypes.c_void_p, _Fail),
        ),
        ("managed_from_object", ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, _Out)),
        (
            "managed_to_object",
            ctypes.PYFUNCTYPE(
                ctypes.c_int, ctypes.POINTER(_Managed), ctypes.POINTER(ctypes.py_object)
            ),
        ),
        (
            "view_from_object",
            ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor)),
        ),
        (
            "current_stream",
            ctypes.PYFUNCTYPE(
                ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
            ),
        ),
    )


def _exchange_api() -> _ExchangeApi:
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype = ctypes.c_void_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = T.Tensor.__dlpack_c_exchange_api__  # type: ignore[attr-defined]
    return _ExchangeApi.from_address(pointer_of(capsule, b"dlpack_exchange_api"))


def test_c_views_and_managed_tensors_show_the_same_memory() -> None:
    api = _exchange_api()
    assert (api.major, api.minor, api.older) == (1, 3, None)
    t = T.arange(12.0).reshape(3, 4)[:, 1:]
    view = _Tensor()
    assert api.view_from_object(t, view) == 0
    managed = ctypes.POINTER(_Managed)()
    assert api.managed_from_object(t, managed) == 0
    for shown in (view, managed.contents.tensor):
        assert shown.data == t.data_ptr()
        assert (shown.device_type, shown.ndim, shown.code, shown.bits) == (1, 2, 2, 32)
        assert (shown.shape[:2], shown.strides[:2]) == ([3, 3], [4, 1])
    out = ctypes.py_object()
    assert api.managed_to_object(managed, out) == 0
    again = out.value
    ctypes.pythonapi.Py_DecRef(out)
    assert again.data_ptr() == t.data_ptr()
    assert again.tolist() == t.tolist()
    stream = ctypes.c_void_p(1)
    assert api.current_stream(1, 0, stream) == 0
    assert stream.value is None


def test_c_consumers_end_what_they_keep() -> None:
    api = _exchange_api()
    t = T.ones(4)
    managed = ctypes.POINTER(_Managed)()
    assert api.managed_from_object(t, managed) == 0
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(100000)
    managed.contents.deleter(ctypes.addressof(managed.contents))
    t.resize_(8)


def test_c_libraries_allocate_tensors_here() -> None:
    api = _exchange_api()
    shape = (ctypes.c_int64 * 2)(2, 3)
    prototype = _Tensor(device_type=1, ndim=2, code=0, bits=16, lanes=1, shape=shape)
    errors: list[tuple[bytes, bytes]] = []
    fail = _Fail(lambda context, kind, message: errors.append((kind, message)))
    managed, out = ctypes.POINTER(_Managed)(), ctypes.py_object()
    assert api.allocate(prototype, managed, None, fail) == 0
    assert api.managed_to_object(managed, out) == 0
    made = out.value
    ctypes.pythonapi.Py_DecRef(out)
    assert (made.dtype, made.shape) == (T.int16, (2, 3))
    for field, value in (("device_type", 2), ("bits", 3), ("ndim", 65), ("ndim", -1)):
        before = getattr(prototype, field)
        setattr(prototype, field, value)
        assert api.allocate(prototype, managed, None, fail) == -1
        setattr(prototype, field, before)
    shape[0] = -1
    assert api.allocate(prototype, managed, None, fail) == -1
    shape[:] = [2**40, 2**40]
    assert api.allocate(prototype, managed, None, fail) == -1
    assert [kind for kind, _ in errors] == [b"BufferError"] * 4 + [b"RuntimeError"] * 2
    assert b"-1" in errors[4][1]


def test_c_functions_refuse_what_python_refuses() -> None:
    api = _exchange_api()
    view, managed = _Tensor(), ctypes.POINTER(_Managed)()
    with pytest.raises(TypeError, match="expected a tensor of shmtensor, got int"):
        api.view_from_object(1, view)
    for function, out in ((api.view_from_object, view), (api.managed_from_object, managed)):
        with pytest.raises(BufferError, match="detach"):
            function(T.ones(1, requires_grad=True), out)
    read_only = T.from_dlpack(np.broadcast_to(np.ones(1), (3,)))
    with pytest.raises(BufferError, match="read-only"):
        api.view_from_object(read_only, view)
    assert api.managed_from_object(read_only, managed) == 0
    assert managed.contents.flags == 1
    managed.contents.deleter(ctypes.addressof(managed.contents))
    odd = _Managed(major=2)
    with pytest.raises(BufferError, match=r"version 2\.0"):
        api.managed_to_object(odd, ctypes.py_object())
