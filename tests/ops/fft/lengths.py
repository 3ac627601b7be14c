"""Transforms of many lengths and numbers of signals against NumPy; prints what is off.

Run by test_lengths.py once for every instruction-set level, which a process chooses when it
loads the library.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import shmtensor as st
from shmtensor import fft

Line = np.ndarray[Any, Any]
Transform = Callable[[Any, int, int], Any]

#: One line, fewer than a vector has lanes, as many, more: for vectors of 2 to 16 numbers.
COUNTS = (1, 3, 4, 5, 15, 16, 17, 33)
SMALL = tuple(range(1, 65))
#: Powers, products, primes done by steps and by convolution, twice those.
LARGE = (81, 97, 100, 127, 128, 210, 243, 251, 256, 257, 359, 360, 512, 521, 718, 997, 1000, 1022,
         1024, 1536, 2018, 2047, 3072, 4096)  # fmt: skip
#: One line each.
HUGE = (10007, 16384, 20014, 65535, 100003)
#: Root mean square of the error relative to the result's, in units of the dtype.
BOUND = 6.0


def _whole(name: str) -> tuple[Transform, Transform]:
    ours, theirs = getattr(fft, name), getattr(np.fft, name)
    return (lambda x, n, axis: ours(x, n, axis)), (lambda x, n, axis: theirs(x, n, axis))


#: Name: takes real input.
TRANSFORMS = {"fft": False, "ifft": False, "rfft": True, "ihfft": True, "irfft": False}


def off(got: Any, expected: Line, unit: float) -> float:
    """Return the error in units of the dtype; infinite when the shape is another."""
    if tuple(got.shape) != expected.shape:
        return float("inf")
    scale = float(np.linalg.norm(expected)) or 1.0
    return float(np.linalg.norm(got.numpy() - expected)) / scale / unit


def cases(n: int, count: int, dtype: type) -> Iterator[tuple[str, float]]:
    """Yield a name and the error for every transform of *count* lines of *n*, along both dims."""
    rng = np.random.default_rng(n * 100 + count)
    exact = (rng.standard_normal((count, n)) + 1j * rng.standard_normal((count, n))).astype(dtype)
    unit = float(np.finfo(dtype).eps)
    for name, is_real in TRANSFORMS.items():
        ours, theirs = _whole(name)
        lines = np.ascontiguousarray(exact.real) if is_real else exact
        wide = lines.astype(np.float64 if is_real else np.complex128)
        for size in (2 * n - 1, 2 * n) if name == "irfft" else (n,):
            expected = theirs(wide, size, 1)
            tensor = st.from_numpy(lines)
            yield f"{name} {size}", off(ours(tensor, size, 1), expected, unit)
            columns = st.from_numpy(np.ascontiguousarray(lines.T))
            yield f"{name} {size} dim 0", off(ours(columns, size, 0).T, expected, unit)
            yield f"{name} {size} turned", off(ours(columns.T, size, 1), expected, unit)
    real = np.ascontiguousarray(exact.real)
    for name in ("fft", "ifft"):
        ours, theirs = _whole(name)
        expected = theirs(real.astype(np.float64), n, 1)
        yield f"{name} of real", off(ours(st.from_numpy(real), n, 1), expected, unit)


def shapes() -> Iterator[tuple[int, int]]:
    """Yield lengths and numbers of lines."""
    for n in SMALL:
        for count in COUNTS if n % 8 in (0, 1, 7) else COUNTS[n % 2 :: 3]:
            yield n, count
    for i, n in enumerate(LARGE):
        for count in {1, COUNTS[i % len(COUNTS)], 17}:
            yield n, count
    for n in HUGE:
        yield n, 1


def main() -> None:
    """Print a list of what is further off than the bound."""
    found = [
        [n, count, dtype.__name__, name, error]
        for n, count in shapes()
        for dtype in (np.complex64, np.complex128)
        for name, error in cases(n, count, dtype)
        if not error <= BOUND
    ]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
