"""Comparing results with arrays and with each other."""

from __future__ import annotations

from typing import Any

import numpy as np
from ops.spec.entries import flat

import shmtensor as st

#: Relative error allowed: a few roundings, since operators sum and compose.
TOLERANCE = {
    "float16": 1e-2,
    "bfloat16": 6e-2,
    "float32": 3e-5,
    "float64": 1e-9,
    "complex32": 2e-2,
    "complex64": 3e-5,
    "complex128": 1e-9,
}


def name_of(dtype: Any) -> str:
    """``float32`` for a dtype of either library."""
    return str(dtype).rpartition(".")[2]


def array(value: Any) -> np.ndarray:
    """A tensor or number as NumPy has it; bfloat16 as float32."""
    if isinstance(value, st.Tensor):
        if value.dtype is st.bfloat16:
            value = value.to(st.float32)
        if value.dtype is st.complex32:
            value = value.to(st.complex64)
        return np.array(value.detach().resolve_conj().resolve_neg().numpy())
    return np.asarray(value)


def close(got: np.ndarray, want: np.ndarray, tolerance: float, what: str = "") -> None:
    """Raise unless the values agree: exactly at tolerance 0; NaN equals NaN."""
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if tolerance == 0.0 or got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 1.0
    np.testing.assert_allclose(
        got, want, rtol=tolerance, atol=tolerance * max(scale, 1e-3), err_msg=what
    )


def same(got: Any, want: Any, what: str = "", tolerance: float | None = None) -> None:
    """Raise unless two results have the same shapes, dtypes and nearly the same values."""
    mine, theirs = flat(got), flat(want)
    assert len(mine) == len(theirs), f"{what}: {len(mine)} results, expected {len(theirs)}"
    for x, y in zip(mine, theirs, strict=True):
        assert type(x) is type(y), f"{what}: {type(x)}, expected {type(y)}"
        if isinstance(x, st.Tensor):
            assert x.dtype is y.dtype, f"{what}: {x.dtype}, expected {y.dtype}"
        a, b = array(x), array(y)
        allowed = TOLERANCE.get(str(a.dtype), 0.0) if tolerance is None else tolerance
        close(a, b, allowed, what)


def geometry(value: Any) -> list[tuple[Any, ...]]:
    """Shape, dtype and strides of every tensor of a result.

    Strides of dimensions with fewer than two elements say nothing and are given as 0.
    """
    found: list[tuple[Any, ...]] = []
    for item in flat(value):
        if isinstance(item, st.Tensor):
            empty = item.numel() == 0
            strides = tuple(
                0 if n < 2 or empty else s for n, s in zip(item.shape, item.stride(), strict=True)
            )
            found.append((tuple(item.shape), name_of(item.dtype), strides))
        else:
            found.append((type(item),))
    return found
