"""Test values for each dtype, and a comparison with NumPy that knows 16-bit floats."""

from __future__ import annotations

from typing import Any

import numpy as np

import shmtensor

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTS = ("uint8", "int8", "int16", "int32", "int64")
BAREBONES_UNSIGNED = ("uint16", "uint32", "uint64")
COMPLEX = ("complex64", "complex128")
ALL = ("bool", *INTS, *BAREBONES_UNSIGNED, *FLOATS, *COMPLEX)

#: Relative error allowed per dtype: one rounding of the result, with some room.
TOLERANCE = {
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "float32": 5e-7,
    "float64": 2e-15,
    "complex64": 1e-6,
    "complex128": 4e-15,
}


def values(dtype: str, n: int = 67, *, seed: int = 0) -> np.ndarray:
    """*n* values of *dtype* as NumPy has it (bfloat16: float32 values that it can hold)."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, n).astype(bool)
    if dtype in INTS or dtype in BAREBONES_UNSIGNED:
        info = np.iinfo(dtype)
        some = rng.integers(max(info.min, -100), min(info.max, 100), n, endpoint=True)
        some = some.astype(dtype)
        some[:4] = [info.max, info.min, 0, 1]
        return some
    if dtype in COMPLEX:
        return (rng.normal(size=n) + 1j * rng.normal(size=n)).astype(dtype)
    some = rng.normal(size=n) * 3
    some[:6] = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5]
    if dtype == "bfloat16":
        bits = some.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32)
    return some.astype(dtype)


def tensor(array: np.ndarray, dtype: str | None = None) -> Any:
    """A tensor of *dtype* (default: the array's) with a copy of *array*."""
    result = shmtensor.from_numpy(np.array(array)).clone()
    return result.to(getattr(shmtensor, dtype)) if dtype else result


def array(tensor: Any) -> np.ndarray:
    """The values as NumPy has them; bfloat16 as float32."""
    if tensor.dtype == shmtensor.bfloat16:
        tensor = tensor.to(shmtensor.float32)
    return np.asarray(tensor.detach().numpy())


def check(
    got: Any, want: np.ndarray, dtype: str | None = None, *, rtol: float | None = None
) -> None:
    """Raise unless *got* has the dtype and, NaN being equal to NaN, the values of *want*."""
    name = str(got.dtype).rpartition(".")[2]
    assert name == (dtype or str(want.dtype)), name
    found = array(got)
    assert found.shape == want.shape
    if rtol is None:
        rtol = TOLERANCE.get(name, 0.0)
    if rtol == 0.0:
        np.testing.assert_array_equal(found, want)
    else:
        finite = np.abs(want[np.isfinite(want)]) if want.size else np.zeros(0)
        scale = float(finite.max()) if finite.size else 1.0
        np.testing.assert_allclose(found, want, rtol=rtol, atol=rtol * min(scale, 1.0))


def layouts(array_2d: np.ndarray) -> list[tuple[str, Any]]:
    """The same (m, n) values in tensors of different strides."""
    m, n = array_2d.shape
    plain = tensor(array_2d)
    wide = tensor(np.zeros((m, 2 * n), array_2d.dtype))
    wide[:, ::2] = plain
    deep = tensor(np.zeros((m + 2, n), array_2d.dtype))
    deep[1:-1] = plain
    return [
        ("contiguous", plain),
        ("transposed", tensor(np.ascontiguousarray(array_2d.T)).t()),
        ("every second", wide[:, ::2]),
        ("offset", deep[1:-1]),
    ]
