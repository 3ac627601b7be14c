"""The namespace of the array API standard: its names, what it says of itself, data types.

Values of functions are in the other files here; the public test suite of the standard covers them
all (docs/array-api.md says how to run it).
"""

from __future__ import annotations

import inspect

import pytest

import shmtensor as T
from shmtensor import array_api as xp

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]


def dtype(name: str) -> T.dtype:
    found = getattr(xp, name)
    assert isinstance(found, T.dtype)
    return found


# --- the way in --------------------------------------------------------------------------------


@pytest.mark.check
def test_tensors_name_the_namespace() -> None:
    assert T.ones(2).__array_namespace__() is xp
    assert T.nn.Parameter(T.ones(2)).__array_namespace__(api_version=None) is xp
    for version in ("2021.12", "2022.12", "2023.12", "2024.12"):
        assert T.ones(2).__array_namespace__(api_version=version) is xp
    assert xp.__array_api_version__ == "2024.12"


def test_versions_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2024\.12, got '2019\.12'"):
        T.ones(2).__array_namespace__(api_version="2019.12")


def test_namespace_is_bare() -> None:
    assert dir(xp) == sorted(xp.__all__)
    assert all(hasattr(xp, name) for name in xp.__all__)
    for name in ("relu", "nn", "cat", "Tensor", "ones_like_", "load"):
        assert not hasattr(xp, name)
    assert len(set(xp.__all__)) == len(xp.__all__)


def test_public_functions_have_positional_arrays_and_docstrings() -> None:
    for module in (xp, xp.linalg, xp.fft):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function):
                assert function.__doc__, name
                for parameter in inspect.signature(function).parameters.values():
                    if parameter.name in ("x", "x1", "x2", "indices", "condition"):
                        assert parameter.kind is parameter.POSITIONAL_ONLY, name


def test_to_device_knows_the_cpu() -> None:
    x = T.ones(2)
    assert x.to_device("cpu") is x
    assert x.to_device(T.device("cpu"), stream=None) is x
    with pytest.raises(ValueError, match="no streams, got 1"):
        x.to_device("cpu", stream=1)


# --- inspection --------------------------------------------------------------------------------


def test_info_tells_devices_dtypes_and_capabilities() -> None:
    info = xp.__array_namespace_info__()
    assert info.devices() == [T.device("cpu")]
    assert info.default_device() == T.device("cpu")
    assert info.capabilities()["max dimensions"] == 64
    assert xp.ones((1,) * 64).ndim == 64
    assert set(info.dtypes()) == {"bool", *SIGNED, *UNSIGNED} | {
        "float32",
        "float64",
        "complex64",
        "complex128",
    }
    assert info.dtypes(kind="unsigned integer") == {name: dtype(name) for name in UNSIGNED}
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    with pytest.raises(ValueError, match="not on 'meta'"):
        info.dtypes(device="meta")


def test_default_dtypes_follow_the_setting() -> None:
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] is xp.float32
    T.set_default_dtype(T.float64)
    try:
        assert info.default_dtypes(device="cpu") == {
            "real floating": xp.float64,
            "complex floating": xp.complex128,
            "integral": xp.int64,
            "indexing": xp.int64,
        }
        assert xp.linspace(0, 1, 3).dtype is xp.float64
        assert xp.arange(0, 1.0).dtype is xp.float64
    finally:
        T.set_default_dtype(T.float32)


# --- promotion ---------------------------------------------------------------------------------


@pytest.mark.check
def test_integers_promote_to_the_smallest_type_that_holds_both() -> None:
    for i, a in enumerate(SIGNED):
        for j, b in enumerate(SIGNED):
            assert xp.result_type(dtype(a), dtype(b)) is dtype(SIGNED[max(i, j)])
            assert xp.result_type(dtype("u" + a), dtype("u" + b)) is dtype(UNSIGNED[max(i, j)])
            mixed = max(i, j + 1)
            if mixed < 4:
                assert xp.result_type(dtype(a), dtype("u" + b)) is dtype(SIGNED[mixed])
                assert xp.result_type(dtype("u" + b), dtype(a)) is dtype(SIGNED[mixed])
    for a in SIGNED:
        with pytest.raises(TypeError, match="no common type"):
            xp.result_type(dtype(a), xp.uint64)


def test_shapes_do_not_matter_for_promotion() -> None:
    one, many = T.tensor(1.0, dtype=T.float64), T.ones(3)
    assert (one + many).dtype is xp.float32  # the operators of tensors are torch's
    assert xp.add(one, many).dtype is xp.float64
    assert xp.where(xp.asarray(True), one, many).dtype is xp.float64
    assert xp.concat([xp.reshape(one, (1,)), many]).dtype is xp.float64
    assert xp.stack([one, many[0]]).dtype is xp.float64


def test_numbers_take_the_dtype_of_the_array() -> None:
    assert xp.add(xp.ones(2, dtype=xp.int8), 1).dtype is xp.int8
    assert xp.add(2.0, xp.ones(2, dtype=xp.float64)).dtype is xp.float64
    assert xp.multiply(xp.ones(2), 1j).dtype is xp.complex64
    assert xp.multiply(xp.ones(2, dtype=xp.float64), 1j).dtype is xp.complex128
    assert xp.result_type(xp.uint16, 3) is xp.uint16
    assert xp.result_type(xp.int16, 3.0) is xp.float32
    assert xp.result_type(xp.float32, xp.ones(1, dtype=xp.complex128), 1.0) is xp.complex128
    with pytest.raises(ValueError, match="at least one"):
        xp.result_type(1, 2.0)
    with pytest.raises(TypeError, match="int and int"):
        xp.add(1, 2)
    with pytest.raises(TypeError, match="got str"):
        xp.add(xp.ones(2), "1")


def test_result_type_does_not_depend_on_the_order() -> None:
    dtypes = [xp.uint16, xp.int8, xp.uint32, xp.int64]
    assert {xp.result_type(*dtypes[i:], *dtypes[:i]) for i in range(4)} == {xp.int64}
    assert xp.result_type(xp.int8, xp.uint64, xp.float32) is xp.float32


def test_can_cast_follows_promotion() -> None:
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.int16, xp.int8)
    assert xp.can_cast(xp.ones(1, dtype=xp.uint32), xp.int64)
    assert not xp.can_cast(xp.uint64, xp.int64)
    assert not xp.can_cast(xp.complex64, xp.float64)


def test_isdtype_knows_kinds_dtypes_and_tuples() -> None:
    assert xp.isdtype(xp.uint64, "unsigned integer")
    assert xp.isdtype(xp.uint64, ("bool", "integral"))
    assert not xp.isdtype(xp.bool, "numeric")
    assert xp.isdtype(xp.float32, xp.float32)
    assert xp.isdtype(T.bfloat16, "real floating")
    with pytest.raises(ValueError, match="unknown kind 'int'"):
        xp.isdtype(xp.int8, "int")


def test_limits_are_numbers() -> None:
    info = xp.finfo(xp.complex128)
    assert (info.bits, info.dtype) == (64, xp.float64)
    assert info.eps == 2.0**-52
    assert info.max == -info.min == 1.7976931348623157e308
    assert xp.finfo(xp.ones(1)).smallest_normal == 2.0**-126
    limits = xp.iinfo(xp.ones(1, dtype=xp.uint64))
    assert (limits.bits, limits.min, limits.max) == (64, 0, 2**64 - 1)
    assert limits.dtype is xp.uint64


def test_complex_numbers_do_not_become_real() -> None:
    with pytest.raises(TypeError, match="take its real or imag first"):
        xp.astype(xp.ones(2, dtype=xp.complex64), xp.float32)
    with pytest.raises(TypeError, match="expected a dtype"):
        xp.astype(xp.ones(2), "float32")
    x = xp.ones(2)
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.astype(x, xp.float32) is not x
