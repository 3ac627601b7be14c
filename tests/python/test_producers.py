"""What producers of arrays say (DLPack, `__array_interface__`) is checked before it is believed."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import shmtensor as T

_FLOAT, _CPU = 2, 1
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_DESTRUCTOR = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

_python = ctypes.pythonapi
_capsule_of = _python.PyCapsule_New
_capsule_of.restype = ctypes.py_object
_capsule_of.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


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


class _Plain(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER))


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", _DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


class _Producer:
    """Shows six floats as (2, 3) through DLPack; counts how often it is told that they are free."""

    def __init__(self, *, versioned: bool = True, version: tuple[int, int] = (1, 0)) -> None:
        self.values = (ctypes.c_float * 6)(*range(6))
        self.shape = (ctypes.c_int64 * 2)(2, 3)
        self.strides = (ctypes.c_int64 * 2)(3, 1)
        self.deleted = 0
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        self.managed: Any = _Versioned(*version) if versioned else _Plain()
        self.deleter = self.managed.deleter = _DELETER(self._delete)
        self.tensor = self.managed.tensor
        self.tensor.data = ctypes.addressof(self.values)
        self.tensor.device_type, self.tensor.ndim = _CPU, 2
        self.tensor.code, self.tensor.bits, self.tensor.lanes = _FLOAT, 32, 1
        self.tensor.shape, self.tensor.strides = self.shape, self.strides
        # The destructor that the specification asks of a producer.
        self.destructor = _DESTRUCTOR(self._destroy)

    def _delete(self, managed: int) -> None:
        assert managed == ctypes.addressof(self.managed)
        self.deleted += 1

    def _destroy(self, capsule: int) -> None:
        is_valid = _python.PyCapsule_IsValid
        is_valid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
        if is_valid(capsule, self.name):
            self._delete(ctypes.addressof(self.managed))

    def __dlpack__(self, **kwargs: Any) -> Any:
        destructor = ctypes.cast(self.destructor, ctypes.c_void_p)
        return _capsule_of(ctypes.addressof(self.managed), self.name, destructor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, 0


@pytest.mark.check
@pytest.mark.parametrize("versioned", [True, False])
def test_memory_is_given_back_once(versioned: bool) -> None:
    producer = _Producer(versioned=versioned)
    tensor = T.from_dlpack(producer)
    assert tensor.tolist() == [[0, 1, 2], [3, 4, 5]]
    view = tensor[1]
    del tensor
    assert producer.deleted == 0
    assert view.tolist() == [3, 4, 5]
    del view
    assert producer.deleted == 1


_HUGE = 1 << 62
_WRONG: dict[str, dict[str, Any]] = {
    "no data": {"data": None},
    "no shape": {"shape": None},
    "negative size": {"sizes": (-2, 3)},
    "huge sizes": {"sizes": (_HUGE, 3)},
    "huge product": {"sizes": (1 << 32, 1 << 32), "steps": (0, 0)},
    "negative stride": {"steps": (-3, 1)},
    "huge stride": {"steps": (_HUGE, 1)},
    "strides that wrap": {"sizes": (5, 3), "steps": (_HUGE, 1)},
    "offset that wraps": {"byte_offset": (1 << 64) - 4},
    "offset outside": {"byte_offset": 1 << 63},
    "data outside": {"data": (1 << 63) - 8},
    "many dimensions": {"ndim": 65},
    "negative dimensions": {"ndim": -1},
    "most dimensions": {"ndim": (1 << 31) - 1},
    "type": {"code": 17},
    "opaque": {"code": 3},
    "bits": {"bits": 7},
    "no bits": {"bits": 0},
    "lanes": {"lanes": 2},
    "no lanes": {"lanes": 0},
    "device": {"device_type": 2},
    "no device": {"device_type": 0},
}


@pytest.mark.parametrize("wrong", _WRONG)
@pytest.mark.parametrize("versioned", [True, False])
def test_what_makes_no_tensor_is_refused_and_given_back_once(versioned: bool, wrong: str) -> None:
    producer = _Producer(versioned=versioned)
    for field, value in _WRONG[wrong].items():
        if field == "sizes":
            producer.shape[:] = value
        elif field == "steps":
            producer.strides[:] = value
        else:
            setattr(producer.tensor, field, value)
    with pytest.raises((BufferError, ValueError), match=r"from_dlpack\(\)"):
        T.from_dlpack(producer)
    assert producer.deleted == 1


@pytest.mark.parametrize("version", [(0, 8), (2, 0), (1 << 31, 0)])
def test_other_major_versions_are_refused(version: tuple[int, int]) -> None:
    producer = _Producer(version=version)
    with pytest.raises(BufferError, match=rf"version {version[0]}.{version[1]} is not supported"):
        T.from_dlpack(producer)
    assert producer.deleted == 1


def test_later_minor_versions_and_row_major_are_read() -> None:
    producer = _Producer(version=(1, 9))
    producer.tensor.strides = None
    assert T.from_dlpack(producer).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert producer.deleted == 1


def test_offset_is_in_bytes_and_flags_are_kept() -> None:
    producer = _Producer()
    producer.shape[:] = (1, 3)
    producer.tensor.byte_offset, producer.managed.flags = 12, 1
    tensor = T.from_dlpack(producer)
    assert tensor.tolist() == [[3, 4, 5]]
    with pytest.raises(RuntimeError, match="read-only"):
        tensor.zero_()
    del tensor
    assert producer.deleted == 1


@pytest.mark.check
def test_nothing_lies_anywhere() -> None:
    producer = _Producer()
    producer.shape[:] = (0, 3)
    producer.tensor.byte_offset = 1 << 63
    assert T.from_dlpack(producer).shape == (0, 3)
    producer.tensor.data = None
    assert T.from_dlpack(producer).shape == (0, 3)
    assert producer.deleted == 2


def test_capsule_is_consumed_once() -> None:
    producer = _Producer()
    capsule = producer.__dlpack__()
    tensor = T.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="consumed only once"):
        T.from_dlpack(capsule)
    del capsule, tensor
    assert producer.deleted == 1


class _Interface:
    def __init__(self, **parts: Any) -> None:
        self.__array_interface__ = {"version": 3, "shape": (4,), "typestr": "<f4", **parts}


_OUTSIDE: dict[str, dict[str, Any]] = {
    "short": {"data": b"abc"},
    "shape": {"data": bytearray(16), "shape": (5,)},
    "offset": {"data": bytearray(16), "offset": 1},
    "negative offset": {"data": bytearray(16), "offset": -1},
    "huge offset": {"data": bytearray(16), "offset": 1 << 40},
    "strides": {"data": bytearray(16), "strides": (8,)},
    "negative strides": {"data": bytearray(16), "strides": (-4,)},
    "huge strides": {"data": bytearray(16), "strides": (1 << 61,)},
    "array": {"data": np.zeros(3, np.float32)},
    "part of an array": {"data": np.zeros(4, np.float32)[1:]},
}


@pytest.mark.parametrize("read", [T.as_tensor, T.asarray, T.tensor])
@pytest.mark.parametrize("outside", _OUTSIDE)
def test_elements_outside_of_an_interfaces_buffer_are_refused(outside: str, read: Any) -> None:
    with pytest.raises(ValueError, match=r"__array_interface__|spans more"):
        read(_Interface(**_OUTSIDE[outside]))


@pytest.mark.parametrize(
    "parts",
    [
        {"data": (0, False)},
        {"data": ((1 << 63) - 4, False)},
        {"data": bytearray(16), "shape": (-1,)},
        {"data": bytearray(16), "shape": (1 << 40, 1 << 40)},
        {"data": bytearray(16), "typestr": ">f4"},
    ],
)
def test_interfaces_that_make_no_array_are_refused(parts: dict[str, Any]) -> None:
    with pytest.raises((ValueError, BufferError)):
        T.as_tensor(_Interface(**parts))


def test_interface_inside_its_buffer_is_read() -> None:
    values = bytearray(np.arange(6, dtype=np.float32).tobytes())
    tensor = T.as_tensor(_Interface(data=values, offset=8))
    assert tensor.tolist() == [2, 3, 4, 5]
    assert T.as_tensor(_Interface(data=values, shape=(3,), strides=(8,))).tolist() == [0, 2, 4]
    assert T.as_tensor(_Interface(data=values, shape=(0,), offset=24)).tolist() == []
