"""`testing.make_tensor`: ranges, layouts, errors, and torch's values for a seed."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

import shmtensor as T
from shmtensor.testing import make_tensor

DTYPES = (
    "bool uint8 uint16 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 "
    "complex128"
).split()


def calls() -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    every: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((3, 4), {"dtype": name}) for name in DTYPES
    ]
    return [
        *every,
        *(((2, 3), {"dtype": name, "noncontiguous": True}) for name in ("float32", "int64")),
        *(
            ((9,), {"dtype": name, "low": 0, "high": 3})
            for name in ("float64", "int8", "complex64")
        ),
        (((2, 3, 4, 5),), {"dtype": "float32", "memory_format": "channels_last"}),
        ((20,), {"dtype": "int32", "low": 0, "high": 2, "exclude_zero": True}),
        ((20,), {"dtype": "bool", "exclude_zero": True}),
        ((9,), {"dtype": "float32", "low": -inf, "high": inf}),
        ((9,), {"dtype": "int32", "low": 0.5, "high": 3.5}),
        ((9,), {"dtype": "int8", "low": -1000, "high": 1000}),
        ((9,), {"dtype": "uint8", "low": -5}),
        ((3,), {"dtype": "float32", "low": 0.5}),
        ((0, 3), {"dtype": "float32"}),
        ((), {"dtype": "float32"}),
        (((),), {"dtype": "float32"}),
        ((1, 1), {"dtype": "float32", "noncontiguous": True}),
        ((3,), {"dtype": "int32", "low": 1, "high": 1}),
        ((3,), {"dtype": "float32", "low": 2, "high": 1}),
        ((3,), {"dtype": "float32", "low": nan}),
        ((3,), {"dtype": "float32", "low": inf}),
        ((3,), {"dtype": "int8", "low": 200, "high": 1000}),
        ((3,), {"dtype": "bool", "low": 2, "high": 5}),
        ((3,), {"dtype": "float32", "high": -20}),
        ((3,), {"dtype": "int32", "requires_grad": True}),
        (
            (2, 3, 4, 5),
            {"dtype": "float32", "noncontiguous": True, "memory_format": "channels_last"},
        ),
    ]


def call(m: Any, sizes: tuple[Any, ...], options: dict[str, Any]) -> Any:
    options = {
        name: getattr(m, value) if name in ("dtype", "memory_format") else value
        for name, value in options.items()
    }
    m.manual_seed(3)
    try:
        return m.testing.make_tensor(*sizes, device="cpu", **options)
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("number", range(len(calls())))
def test_values_strides_and_errors_are_torch_s(number: int) -> None:
    torch = pytest.importorskip("torch")
    sizes, options = calls()[number]
    ours, theirs = call(T, sizes, options), call(torch, sizes, options)
    if isinstance(theirs, tuple):
        assert ours == theirs
        return
    assert (str(ours.dtype), ours.shape) == (str(theirs.dtype), tuple(theirs.shape))
    assert tuple(ours.stride()) == tuple(theirs.stride())
    if theirs.dtype.is_floating_point or theirs.dtype.is_complex:
        theirs = T.tensor(theirs.tolist(), dtype=ours.dtype).reshape(
            ours.shape
        )  # the last bits are not the same
        span = float(theirs.abs().double().amax()) if theirs.numel() else 0
        T.testing.assert_close(
            ours, theirs, rtol=0, atol=span * (1e-3 if theirs.itemsize == 2 else 1e-6)
        )
    else:
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("name", DTYPES)
def test_default_range(name: str) -> None:
    dtype = getattr(T, name)
    values = make_tensor(1000, dtype=dtype, device="cpu")
    assert values.dtype is dtype
    parts = T.view_as_real(values) if dtype.is_complex else values
    low, high = float(parts.double().min()), float(parts.double().max())
    if name == "bool":
        assert (low, high) == (0, 1)
    elif name.startswith("uint"):
        assert (low, high) == (0, 9)
    elif name.startswith("int"):
        assert (low, high) == (-9, 9)
    else:
        assert -9 <= low < -8
        assert 8 < high <= 9


@pytest.mark.check
def test_noncontiguous_is_every_other_element() -> None:
    made = make_tensor(2, 3, dtype=T.float32, device="cpu", noncontiguous=True)
    assert made.shape == (2, 3)
    assert made.stride() == (6, 2)
    assert make_tensor(1, dtype=T.float32, device="cpu", noncontiguous=True).is_contiguous()


def test_an_empty_range_of_floating_numbers_is_one_value_still() -> None:
    with pytest.warns(FutureWarning, match="deprecated"):
        made = make_tensor(3, dtype=T.float32, device="cpu", low=1, high=1)
    assert made.tolist() == [1, 1, 1]


@pytest.mark.check
def test_zeros_can_be_left_out() -> None:
    made = make_tensor(500, dtype=T.int32, device="cpu", low=-1, high=2, exclude_zero=True)
    assert set(made.tolist()) == {-1, 1}


def test_gradients_and_devices() -> None:
    assert make_tensor(2, dtype=T.complex64, device="cpu", requires_grad=True).requires_grad
    assert make_tensor(2, 3, dtype=T.float32, device="meta").shape == (2, 3)
    with pytest.raises(ValueError, match="not supported for boolean and integral"):
        make_tensor(2, dtype=T.int32, device="cpu", requires_grad=True)


@pytest.mark.parametrize("dtype", ["float32", None, float])
def test_what_is_no_dtype_is_refused(dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"is not supported by torch\.testing\.make_tensor"):
        make_tensor(2, dtype=dtype, device="cpu")
