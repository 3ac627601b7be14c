"""LU factors with row pivoting, at the instruction-set level of this process.

Run by test_lu.py in a process per level; prints the largest residuals as JSON.
"""

from __future__ import annotations

import json

import numpy as np

import shmtensor

#: Of parts of a block, of a block, wide and tall, of several blocks.
SQUARES = [(n, n) for n in (1, 2, 5, 16, 17, 130)]
SHAPES = [*SQUARES, (7, 3), (3, 9), (40, 33), (20, 75), (300, 90)]


def residual(dtype: str, *shape: int) -> float:
    """In units of rounding of |L| |U|, a unit for every column."""
    rng = np.random.default_rng(shape[-1])
    a = rng.normal(size=shape) + 1j * rng.normal(size=shape) * dtype.startswith("c")
    a = (a if dtype.startswith("c") else a.real).astype(dtype)
    p, low, up = (x.numpy() for x in shmtensor.linalg.lu(shmtensor.from_numpy(a)))
    # Pivots are the largest by the sum of their parts.
    assert np.abs(low).max() <= 1.5
    low, up = low.astype(np.complex128), up.astype(np.complex128)
    unit = np.finfo(dtype).eps * (min(shape[-2:]) + 1)
    bound = unit * (np.abs(low) @ np.abs(up))
    rest = np.abs(low @ up - p.swapaxes(-1, -2) @ a)
    return float((rest / bound).max())


if __name__ == "__main__":
    dtypes = ("float32", "float64", "complex64", "complex128")
    print(json.dumps({d: max(residual(d, *shape) for shape in SHAPES) for d in dtypes}))
