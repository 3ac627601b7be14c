"""Comparing results with arrays and with each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ops.spec.entries import flat

import shmtensor as st

#: The distance from 1 to the next number of a dtype.
EPSILON = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
    "complex32": 2.0**-10,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}

#: The smallest number above 0 of dtypes of 16 bits: results below it are 0.
SMALLEST = {"float16": 2.0**-24, "complex32": 2.0**-24}

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


#: Seeds of the directions that arguments are moved in, to see how much results depend on them.
MOVES = (100, 200, 300, 400)

#: How many roundings an element may be off, each as much as its arguments and itself are rounded.
ROUNDINGS = 8


def nudged(values: np.ndarray, dtype: str, seed: int) -> np.ndarray:
    """*values* with each number moved up or down by one rounding of *dtype*."""
    if values.dtype.kind not in "fc" or dtype not in EPSILON:
        return values
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), values.shape)
    return (values * (1 + EPSILON[dtype] * signs)).astype(values.dtype)


def condition(want: np.ndarray, moved: Sequence[np.ndarray], dtype: str) -> np.ndarray:
    """How far each element may be off in a result of *dtype*.

    That is a number of roundings, of the element itself and of what the arguments' roundings do to
    it: *moved* are the results of ``nudged`` arguments.
    """
    if want.dtype.kind == "b":  # as numbers, where the result is written in place
        return np.zeros(want.shape)
    if any(other.shape != want.shape for other in moved):
        return np.full(want.shape, np.inf)
    far = np.zeros(want.shape)
    with np.errstate(all="ignore"):
        for other in moved:
            far = np.maximum(far, np.nan_to_num(np.abs(other - want), nan=np.inf))
        own = EPSILON.get(dtype, 0.0) * np.abs(want) + SMALLEST.get(dtype, 0.0)
        return ROUNDINGS * (own + far)


def close(
    got: np.ndarray,
    want: np.ndarray,
    tolerance: float,
    what: str = "",
    each: np.ndarray | None = None,
) -> None:
    """Raise unless the values agree: exactly at tolerance 0; NaN equals NaN.

    The error of an element is held to the tolerance, of itself and of the largest number; and to
    its own of *each*, where that is smaller.
    """
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if tolerance == 0.0 or got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    finite = np.abs(want[np.isfinite(want)])
    scale = float(finite.max()) if finite.size else 1.0
    with np.errstate(all="ignore"):
        allowed = tolerance * (max(scale, 1e-3) + np.abs(want))
        if each is not None:
            allowed = np.minimum(allowed, each)
        off = np.abs(got - want)
        good = (
            (got == want)
            | (np.isnan(got) & np.isnan(want))
            | (np.isfinite(want) & (off <= allowed))
        )
    if not good.all():
        place = tuple(int(i) for i in np.argwhere(~good)[0])
        raise AssertionError(
            f"{what}: {got[place]} at {place}, expected {want[place]} within {allowed[place]:.3g}"
            f" ({np.count_nonzero(~good)} of {good.size} elements differ)"
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
