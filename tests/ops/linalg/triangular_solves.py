"""Solves with triangular matrices, at the instruction-set level of this process.

Run by test_trsm.py in a process per level; prints the largest residuals as JSON.
"""

from __future__ import annotations

import itertools
import json

import numpy as np

import shmtensor

#: Rows: of parts of a block, of blocks, and of several; right-hand sides: of parts of a vector and
#: of a panel.
SIZES = [(1, 1), (5, 3), (23, 16), (64, 70), (259, 33)]


def residual(dtype: str, n: int, columns: int, upper: bool, left: bool) -> float:
    """In units of rounding of |a| |x|, a unit for every row."""
    rng = np.random.default_rng(n)
    a, b = (
        (rng.normal(size=s) + 1j * rng.normal(size=s) * dtype.startswith("c"))
        for s in ((n, n), (n, columns))
    )
    a = a / (2 * np.sqrt(n)) + 2 * np.eye(n)
    if not dtype.startswith("c"):
        a, b = a.real, b.real
    a, b = a.astype(dtype), b.astype(dtype)
    right = shmtensor.from_numpy(b if left else b.T.copy())
    x = shmtensor.linalg.solve_triangular(shmtensor.from_numpy(a), right, upper=upper, left=left)
    t = np.triu(a) if upper else np.tril(a)
    wide = (x.numpy() if left else x.numpy().T).astype(np.complex128)
    t = t if left else t.T
    unit = np.finfo(dtype).eps * (n + 1) * (np.abs(t) @ np.abs(wide))
    return float((np.abs(t.astype(np.complex128) @ wide - b) / unit).max())


if __name__ == "__main__":
    print(
        json.dumps(
            {
                dtype: max(
                    residual(dtype, *size, upper, left)
                    for size, upper, left in itertools.product(SIZES, (True, False), (True, False))
                )
                for dtype in ("float32", "float64", "complex64", "complex128")
            }
        )
    )
