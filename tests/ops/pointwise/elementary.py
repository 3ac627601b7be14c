"""Measures the errors of elementary functions at the level of this process; prints them as JSON.

test_accuracy.py runs it in a process for each level. References for float32 are the C library's
functions of double, whose relative error is about 1e-16.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import shmtensor as st

ONE, WIDE = (-0.999, 0.999), (-80.0, 80.0)
POSITIVE = (1e-3, 1e4)
#: name: reference, intervals of the arguments, units in the last place that are allowed
UNARY: dict[str, tuple[Callable[[float], float], tuple[tuple[float, float], ...], float]] = {
    "exp": (math.exp, (WIDE, ONE), 2),
    "exp2": (math.exp2, ((-120.0, 120.0), ONE), 2),
    "expm1": (math.expm1, (WIDE, ONE), 2),
    "log": (math.log, (POSITIVE, (0.5, 2.0)), 2),
    "log2": (math.log2, (POSITIVE, (0.5, 2.0)), 2),
    "log10": (math.log10, (POSITIVE, (0.5, 2.0)), 2),
    "log1p": (math.log1p, (POSITIVE, ONE), 2),
    "sin": (math.sin, ((-8000.0, 8000.0), (-4.0, 4.0)), 2),
    "cos": (math.cos, ((-8000.0, 8000.0), (-4.0, 4.0)), 2),
    "tan": (math.tan, ((-8000.0, 8000.0), (-1.5, 1.5)), 4),
    "asin": (math.asin, (ONE,), 4),
    "acos": (math.acos, (ONE,), 4),
    "atan": (math.atan, (WIDE, (-2.0, 2.0)), 4),
    "sinh": (math.sinh, (WIDE, (-2.0, 2.0)), 4),
    "cosh": (math.cosh, (WIDE, (-2.0, 2.0)), 4),
    "tanh": (math.tanh, ((-10.0, 10.0), ONE), 2),
    "asinh": (math.asinh, (WIDE, (-2.0, 2.0)), 4),
    "acosh": (math.acosh, ((1.0, 80.0), (1.0, 2.0)), 4),
    "atanh": (math.atanh, (ONE,), 4),
    "erf": (math.erf, ((-5.0, 5.0), ONE), 2),
    "erfc": (math.erfc, ((-5.0, 9.0), ONE), 4),
    "lgamma": (math.lgamma, ((2.5, 100.0),), 4),
    "sigmoid": (lambda x: 1 / (1 + math.exp(-x)), (WIDE, ONE, (-17.4, -16.6), (-86.0, -80.0)), 2),
}
BINARY: dict[str, tuple[Callable[[float, float], float], tuple[float, float], float]] = {
    "pow": (math.pow, (0.01, 10.0), 2),
    "atan2": (math.atan2, (-3.0, 3.0), 4),
    "hypot": (math.hypot, (-3.0, 3.0), 2),
}
SPECIAL = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    1.0,
    -1.0,
    2.0,
    1e-40,
    3e38,
    -3e38,
    1e5,
    -1e9,
    0.5,
    -3.0,
]


def ulps(got: np.ndarray, exact: list[float]) -> float:
    """Return the largest error in units of float32's last place."""
    want = np.array(exact)
    unit = np.spacing(np.maximum(np.abs(want), 1e-37).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(got.astype(np.float64) - want) / unit))


def unary_errors() -> dict[str, float]:
    """Return the largest error of each function of one number."""
    rng = np.random.default_rng(7)
    found = {}
    for name, (reference, intervals, _) in UNARY.items():
        worst = 0.0
        for low, high in intervals:
            x = rng.uniform(low, high, 3000).astype(np.float32)
            got = getattr(st, name)(st.from_numpy(x)).numpy()
            worst = max(worst, ulps(got, [reference(float(v)) for v in x]))
        found[name] = worst
    return found


def binary_errors() -> dict[str, float]:
    """Return the largest error of each function of two numbers."""
    rng = np.random.default_rng(8)
    found = {}
    for name, (reference, (low, high), _) in BINARY.items():
        a, b = rng.uniform(low, high, (2, 3000)).astype(np.float32)
        got = getattr(st, name)(st.from_numpy(a), st.from_numpy(b)).numpy()
        found[name] = ulps(got, [reference(float(u), float(v)) for u, v in zip(a, b, strict=True)])
    return found


def _same(a: float, b: float) -> bool:
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    if a == b:
        return math.copysign(1.0, a) == math.copysign(1.0, b)
    return math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-44)


def wrong_specials() -> list[str]:
    """Compare results for special values with NumPy's, which follow IEEE 754 and C."""
    wrong = []
    names = "exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh".split()
    inverse = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh"}
    inverse |= {"acosh": "arccosh", "atanh": "arctanh"} | {name: name for name in names}
    for dtype in (np.float32, np.float64):
        x = np.array(SPECIAL, dtype)
        a, b = (grid.ravel().copy() for grid in np.meshgrid(x, x))
        with np.errstate(all="ignore"):
            for name, theirs in inverse.items():
                # Beside ordinary numbers too, as vectors take them together.
                padded = np.concatenate([x, np.full(40, 0.25, dtype)])
                got, want = (
                    getattr(st, name)(st.from_numpy(padded)).numpy(),
                    getattr(np, theirs)(padded),
                )
                wrong += [
                    f"{name}({v}) of {dtype.__name__}: {g}, not {w}"
                    for v, g, w in zip(padded, got, want, strict=True)
                    if not _same(float(g), float(w))
                ]
            for name, theirs in {
                "pow": "power",
                "atan2": "arctan2",
                "hypot": "hypot",
                "logaddexp": "logaddexp",
            }.items():
                got = getattr(st, name)(st.from_numpy(a), st.from_numpy(b)).numpy()
                want = getattr(np, theirs)(a, b)
                wrong += [
                    f"{name}({u}, {v}) of {dtype.__name__}: {g}, not {w}"
                    for u, v, g, w in zip(a, b, got, want, strict=True)
                    if not _same(float(g), float(w))
                ]
    return wrong


#: functions NumPy has not, at special values: reference for |x| <= 700
MORE: dict[str, Callable[[float], float]] = {
    "erf": math.erf,
    "erfc": math.erfc,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
    "rsqrt": lambda x: math.copysign(math.inf, x) if x == 0 else x**-0.5 if x > 0 else math.nan,
    "erfinv": lambda x: math.copysign(math.inf, x) if abs(x) == 1 else x if x == 0 else math.nan,
}


def wrong_more() -> list[str]:
    """As wrong_specials, of functions whose values there are easily written down."""
    wrong = []
    for dtype in (np.float32, np.float64):
        for name, reference in MORE.items():
            x = [v for v in SPECIAL if name != "erfinv" or not 0 < abs(v) < 1]
            want = np.array([reference(float(dtype(v))) for v in x], dtype)
            got = getattr(st, name)(st.from_numpy(np.array(x, dtype))).numpy()
            wrong += [
                f"{name}({v}) of {dtype.__name__}: {g}, not {w}"
                for v, g, w in zip(x, got, want, strict=True)
                if not _same(float(g), float(w)) and abs(w) > 1e-37
            ]
    return wrong


def wrong_lengths() -> list[str]:
    """Results of runs of every length and of other strides are those of one long run."""
    wrong = []
    one = "exp log log1p sigmoid tanh erf erfc sqrt rsqrt erfinv atan asin acos sin cos tan".split()
    one += "asinh atanh exp2 log2 log10".split()
    two = "pow atan2 hypot logaddexp".split()
    rng = np.random.default_rng(10)
    for dtype in (st.float32, st.float64, st.float16, st.bfloat16):
        a, b = (st.from_numpy(rng.uniform(0.01, 0.99, 600)).to(dtype) for _ in range(2))
        for name in one + two:
            call = getattr(st, name)

            def made(x: st.Tensor, y: st.Tensor, name: str = name, call: Any = call) -> st.Tensor:
                result: st.Tensor = call(x, y) if name in two else call(x)
                return result

            whole = made(a, b)
            parts = [*map(slice, range(70)), slice(1, 560), slice(3, 590, 2), slice(0, 600, 7)]
            wrong += [
                f"{name} of {dtype}: {mine}"
                for mine in parts
                if not st.equal(made(a[mine], b[mine]), whole[mine])
            ]
            if name in two and not st.equal(made(a, b[:1].expand(600)), made(a, b[:1].repeat(600))):
                wrong.append(f"{name} of {dtype}: a repeated number")
    return wrong


def wrong_halves() -> int:
    """Count conversions of and to float16 that differ from NumPy's."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = st.from_numpy(every).to(st.float32).numpy()
    wrong = int(np.sum(~((wide == every.astype(np.float32)) | (np.isnan(wide) & np.isnan(every)))))
    bits = np.random.default_rng(9).integers(0, 1 << 32, 200_000, dtype=np.uint64).astype(np.uint32)
    around = np.array([0, 4095, 4096, 4097, 8191], np.uint32)
    near = (every.astype(np.float32).view(np.uint32)[:, None] + around).ravel()
    x = np.concatenate([bits, near]).view(np.float32)
    with np.errstate(all="ignore"):
        want = x.astype(np.float16)
    got = st.from_numpy(x).to(st.float16).numpy()
    same = (got.view(np.uint16) == want.view(np.uint16)) | (np.isnan(got) & np.isnan(want))
    return wrong + int(np.sum(~same))


def near_middles() -> list[float]:
    """Numbers whose roots are nearest to the middle of two doubles.

    That is (2 q + 1)^2 = 4 x + d for a small d, a number of 53 bits x and an integer q.
    """
    found = []
    for bits in (105, 106):
        places = bits - 51  # 4 x is a multiple of 2^places
        first, last = math.isqrt(1 << (bits + 1)), math.isqrt(1 << (bits + 2))
        for d in range(-1023, 1024, 8):
            root = 1
            for place in range(3, places):
                root += (root * root - d >> place & 1) << (place - 1)
            half = 1 << (places - 1)
            for start in (root, -root, root + half, half - root):
                odd = first + (start - first) % (2 * half)
                for middle in range(odd, last, 2 * half):
                    found.append(float(middle * middle - d >> 2))
    return found


def wrong_roots() -> int:
    """Count square roots that are not rounded once."""
    middles = np.array(near_middles())
    rng = np.random.default_rng(8)
    bits = rng.integers(0, 1 << 64, 100_000, dtype=np.uint64)
    doubles = [bits.view(np.float64), *(middles * scale for scale in (1.0, 2.0**-1000, 2.0**700))]
    floats = [bits.view(np.float32), np.arange(1, 4, 2.0**-21, np.float32)]
    wrong = 0
    for x in (np.concatenate(doubles), np.concatenate(floats)):
        with np.errstate(all="ignore"):
            want = np.sqrt(x)
        got = st.sqrt(st.from_numpy(x)).numpy()
        wrong += int(np.sum(~((got == want) | (np.isnan(got) & np.isnan(want)))))
    return wrong


if __name__ == "__main__":
    json.dump(
        {
            "errors": {**unary_errors(), **binary_errors()},
            "specials": wrong_specials() + wrong_more(),
            "lengths": wrong_lengths(),
            "halves": wrong_halves(),
            "roots": wrong_roots(),
        },
        sys.stdout,
    )
