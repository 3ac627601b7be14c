"""Products of 16-bit floats in this process: which are wrong, as JSON.

test_gemm_half.py runs it in one process for each kernel. A product is summed in float32 and
rounded once; no factor is read beyond its end, and nothing that is missing makes a NaN.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator

import numpy as np

import shmtensor as st
from shmtensor import Tensor

ULP = {st.float16: 2.0**-11, st.bfloat16: 2.0**-8}
LAYOUTS = ("dense", "transposed", "apart", "strided")
#: Rows, length of the sums, columns: around whole tiles of 16 and 32, sums of one block and of
#: several, more rows or columns than a block.
SHAPES = (
    (2, 163, 7),
    (4, 1, 16),
    (8, 64, 40),
    (16, 32, 32),
    (17, 31, 33),
    (33, 65, 47),
    (31, 96, 64),
    (64, 320, 31),
    (50, 321, 70),
    (97, 704, 160),
    (300, 40, 20),
    (530, 340, 200),
    (20, 700, 600),
)


class _SignalStack(ctypes.Structure):
    _fields_ = [("start", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]


def refuse_amx() -> object:
    """Let the kernel refuse tile registers, as it does beside a small stack for signals."""
    memory = ctypes.create_string_buffer(4096)
    stack = _SignalStack(ctypes.addressof(memory), 0, len(memory))
    assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0
    return memory


def _of_layout(x: np.ndarray, dtype: st.dtype, layout: str) -> Tensor:
    t = st.from_numpy(x).to(dtype)
    rows, columns = x.shape
    if layout == "transposed":
        return t.t().contiguous().t()
    if layout == "apart":
        room = st.full((rows, columns + 3), float("nan"), dtype=dtype)
        return room[:, 1 : columns + 1].copy_(t)
    if layout == "strided":
        room = st.full((2 * rows, 3 * columns), float("nan"), dtype=dtype)
        return room[::2, ::3].copy_(t)
    return t


def _array(t: Tensor) -> np.ndarray:
    return np.asarray(t.double().contiguous().numpy())


def _is_right(got: Tensor, terms: list[np.ndarray], reach: np.ndarray, k: int) -> bool:
    wanted = np.sum(terms, axis=0)
    allowed = ULP[got.dtype] * np.abs(wanted) + 2 * k * 2.0**-24 * reach
    return bool(np.all(np.abs(_array(got) - wanted) <= allowed))


def _wrong_of_shape(dtype: st.dtype, shape: tuple[int, int, int]) -> Iterator[str]:
    m, k, n = shape
    rng = np.random.default_rng(m + k + n)
    x, y, z = (rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n)))
    for a_layout in LAYOUTS:
        a = _of_layout(x, dtype, a_layout)
        for b_layout in LAYOUTS:
            b, c = _of_layout(y, dtype, b_layout), _of_layout(z, dtype, "dense")
            product = _array(a) @ _array(b)
            reach = np.abs(_array(a)) @ np.abs(_array(b)) + np.abs(_array(c))
            name = f"{dtype} {shape} {a_layout} {b_layout}"
            if not _is_right(a @ b, [product], reach, k):
                yield name
            added = st.addmm(c, a, b, beta=0.5, alpha=-2.0)
            if not _is_right(added, [0.5 * _array(c), -2.0 * product], 2 * reach, k):
                yield f"{name} added"
            out = st.full((n, m), float("nan"), dtype=dtype).t()
            if not _is_right(st.mm(a, b, out=out), [product], reach, k):
                yield f"{name} to columns"


def products(shapes: tuple[tuple[int, int, int], ...] = SHAPES) -> list[str]:
    """Every shape and layout."""
    return [wrong for d in ULP for shape in shapes for wrong in _wrong_of_shape(d, shape)]


def batches() -> list[str]:
    """Matrices of a batch, and a linear layer."""
    found = []
    rng = np.random.default_rng(3)
    for dtype in ULP:
        for m, k, n in ((5, 40, 33), (48, 64, 80)):
            a, b = (
                st.from_numpy(rng.standard_normal(s).astype(np.float32)).to(dtype)
                for s in ((6, m, k), (6, n, k))
            )
            wanted = _array(a) @ _array(b).transpose(0, 2, 1)
            reach = np.abs(_array(a)) @ np.abs(_array(b)).transpose(0, 2, 1)
            if not _is_right(st.bmm(a, b.transpose(1, 2)), [wanted], reach, k):
                found.append(f"bmm {dtype} {m}")
            bias = a[0, 0, 0].expand(n)
            got = st.nn.functional.linear(a, b[0], bias)
            terms = [_array(a) @ _array(b[0]).T, np.broadcast_to(_array(bias), got.shape)]
            bound = np.abs(_array(a)) @ np.abs(_array(b[0])).T + np.abs(_array(bias))
            if not _is_right(got, terms, bound, k):
                found.append(f"linear {dtype} {m}")
    return found


def specials() -> list[str]:
    """Infinities and NaN in the last row, column and position of sums: they stay in their lines."""
    found = []
    for m, k, n in ((4, 1, 16), (17, 33, 18), (31, 95, 33), (40, 340, 48)):
        for value in (float("inf"), float("nan")):
            for transposed in (False, True):
                a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
                a[m - 1, k - 1] = b[k - 1, n - 1] = value
                left, right = (
                    _of_layout(x, st.bfloat16, "transposed" if transposed else "dense")
                    for x in (a, b)
                )
                if not np.array_equal(_array(left @ right), a @ b, equal_nan=True):
                    found.append(f"{(m, k, n)} {value} {transposed}")
    return found


def _at_the_end(x: np.ndarray, transposed: bool) -> Tensor:
    """A bfloat16 matrix right before a page that may not be touched."""
    page, nbytes = mmap.PAGESIZE, 2 * x.size
    whole = (nbytes + page - 1) // page * page
    memory = mmap.mmap(-1, whole + page)
    address = np.frombuffer(memory, np.uint8).ctypes.data
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + whole), page, 0) == 0
    bits = np.frombuffer(memory, np.int16, x.size, whole - nbytes)
    bits[:] = st.from_numpy(np.ascontiguousarray(x)).to(st.bfloat16).view(st.int16).numpy().ravel()
    t = st.from_numpy(bits).view(st.bfloat16)
    rows, columns = x.shape
    return t.view(columns, rows).t() if transposed else t.view(rows, columns)


def ends() -> list[str]:
    """Nothing behind a factor or the result is read or written."""
    found = []
    for m, k, n in SHAPES[:9]:
        for transposed in (False, True):
            a, b, out = (
                _at_the_end(np.ones(s, np.float32), transposed) for s in ((m, k), (k, n), (m, n))
            )
            if st.mm(a, b, out=out).float().ne(float(st.tensor(k).to(st.bfloat16))).any():
                found.append(f"{(m, k, n)} {transposed}")
    return found


def _in_thread(part: Callable[[], list[str]]) -> list[str]:
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(part())) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return [wrong for each in found for wrong in each] if len(found) == 3 else ["a thread died"]


def _in_child(part: Callable[[], list[str]]) -> list[str]:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        made: list[str] = pool.apply(part)
    return made


def main() -> None:
    """Print what is wrong, by part."""
    kept = refuse_amx() if os.environ.get("WITHOUT_AMX") else None
    found = {}
    st.set_num_threads(1)
    found["products"], found["batches"] = products(), batches()
    st.set_num_threads(2)
    found["products of threads"], found["batches of threads"] = products(SHAPES[-2:]), batches()
    found["specials"] = specials()
    found["ends"] = ends()
    found["in threads"] = _in_thread(batches)
    found["in a child"] = _in_child(batches)
    del kept
    print(json.dumps(found))


if __name__ == "__main__":
    main()
