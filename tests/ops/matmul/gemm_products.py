"""Products of float and int64 matrices in this process: which are wrong, as JSON.

test_gemm_products.py runs it once for every instruction-set level. Floats are small whole numbers,
of which every order of addition gives the same sums: they must be exact. Integers are large, and
wrap.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator

import numpy as np

import shmtensor as st
from shmtensor import Tensor

LAYOUTS = ("dense", "turned", "strided", "wide")
#: Rows, length of the sums, columns: less than a vector, around whole ones, sums of one part and
#: of several, shallow ones, results that are turned at once and in several runs.
SHAPES = (
    (2, 300, 190),
    (5, 1100, 40),
    (8, 640, 300),
    (12, 193, 500),
    (16, 1000, 520),
    (31, 200, 257),
    (33, 1, 700),
    (64, 65, 600),
    (100, 16, 1100),
    (129, 385, 70),
    (250, 70, 33),
    (1030, 9, 200),
)


def _of_layout(x: np.ndarray, layout: str) -> Tensor:
    t = st.from_numpy(x)
    rows, columns = x.shape
    if layout == "turned":
        return t.t().contiguous().t()
    if layout == "strided":
        return st.zeros(2 * rows, 3 * columns, dtype=t.dtype)[::2, 1::3].copy_(t)
    if layout == "wide":
        return st.zeros(rows, columns + 5, dtype=t.dtype)[:, 2 : columns + 2].copy_(t)
    return t


def _wrong_products(shape: tuple[int, int, int], dtype: type) -> Iterator[str]:
    m, k, n = shape
    rng = np.random.default_rng(m)
    most = 2**63 - 1 if dtype is np.int64 else 4
    sizes = ((m, k), (k, n), (m, n))
    a, b, c = (rng.integers(-most, most, size=s, endpoint=True).astype(dtype) for s in sizes)
    exact = a @ b
    for left, right in itertools.product(LAYOUTS, LAYOUTS):
        x, y = _of_layout(a, left), _of_layout(b, right)
        base = _of_layout(c, right)
        unset = -1 if dtype is np.int64 else float("nan")
        bad = st.full((m, n + 3), unset, dtype=x.dtype)[:, :n]
        found = {
            "mm": (st.mm(x, y), exact),
            "addmm": (st.addmm(base, x, y, beta=2, alpha=-3), 2 * c - 3 * exact),
            "out": (st.mm(x, y, out=bad), exact),
            "linear": (st.nn.functional.linear(x, y.t(), _of_layout(c, "dense")[0]), exact + c[0]),
            "bmm": (st.stack([x, x]) @ y, np.stack([exact, exact])),
        }
        for name, (got, want) in found.items():
            if not np.array_equal(got.numpy(), want):
                yield f"{name} {shape} {left} {right} {np.dtype(dtype)}"


def specials() -> Iterator[str]:
    """An infinity or a NaN stays in its own row and column; what is not read does not matter."""
    a, b = np.ones((40, 200), np.float32), np.ones((200, 50), np.float32)
    a[3, 7], b[5, 49] = np.inf, np.nan
    want = a @ b
    for left, right in itertools.product(LAYOUTS, LAYOUTS):
        got = st.mm(_of_layout(a, left), _of_layout(b, right)).numpy()
        if not np.array_equal(got, want, equal_nan=True):
            yield f"{left} {right}"


def main() -> None:
    """Print what is wrong."""
    found = list(specials())
    for threads in (1, 3):
        st.set_num_threads(threads)
        for shape, dtype in itertools.product(SHAPES, (np.float32, np.float64, np.int64)):
            found += [f"{wrong}, {threads} threads" for wrong in _wrong_products(shape, dtype)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
