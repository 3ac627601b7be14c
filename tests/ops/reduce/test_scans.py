"""cumsum and cumprod of many rows: short rows, and rows that are columns in memory."""

from __future__ import annotations

import numpy as np
import pytest

import shmtensor as st


def layouts(array: np.ndarray) -> list[tuple[st.Tensor, np.ndarray]]:
    """The same numbers in rows, in columns and with gaps; and every third line."""
    x = st.from_numpy(array)
    spaced = st.zeros(array.shape[0], 2 * array.shape[1] + 1, dtype=x.dtype)[:, 1::2]
    spaced.copy_(x)
    return [
        (x.clone(), array),
        (x.T.clone(memory_format=st.contiguous_format).T, array),
        (spaced, array),
        (x.clone()[::3], array[::3]),
    ]


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(
    "dtype", ["uint8", "int16", "int64", "float16", "float32", "float64", "complex64"]
)
@pytest.mark.parametrize(
    ("lines", "length"), [(1, 2), (7, 3), (8, 2), (70, 5), (129, 32), (9, 33), (3, 40), (30000, 3)]
)
def test_many_lines(lines: int, length: int, dtype: str) -> None:
    random = np.random.default_rng(lines)
    low = 0 if dtype == "uint8" else -3
    numbers = random.integers(low, 4, size=(lines, length)).astype(dtype)
    signs = np.where(random.random((lines, length)) < 0.5, 1, -1).astype(dtype)
    for (x, array), (y, factors) in zip(layouts(numbers), layouts(signs), strict=True):
        sums, products = x.cumsum(1), y.cumprod(1)
        wide = sums.numpy().dtype
        want = np.cumsum(array.astype(wide), 1)
        np.testing.assert_array_equal(sums.numpy(), want)
        np.testing.assert_array_equal(products.numpy(), np.cumprod(factors.astype(wide), 1))
        out = st.empty(length, x.shape[0], dtype=sums.dtype).T
        assert st.cumsum(x, 1, out=out).data_ptr() == out.data_ptr()
        np.testing.assert_array_equal(out.numpy(), want)
        if x.dtype == sums.dtype:
            np.testing.assert_array_equal(x.cumsum_(1).numpy(), want)


@pytest.mark.check
def test_sums_of_floats_are_carried_in_double() -> None:
    x = st.tensor([[1e8, 1.0, -1e8]] * 9)
    assert x.cumsum(1)[:, 2].tolist() == [1.0] * 9
    assert x.T.contiguous().cumsum(0)[2].tolist() == [1.0] * 9
    assert st.full((9, 2), -0.0).cumsum(1).signbit().any().item() is False
