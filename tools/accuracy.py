"""Measure the errors of element-wise functions and reductions, in units in the last place.

Run ``python tools/accuracy.py`` where mpmath is installed; it writes docs/accuracy.md. Every
function is measured at each instruction-set level in a process of its own, against mpmath with 40
digits. An error of 0.5 is the best there is: the exact result, rounded.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "accuracy.md"
LEVELS = ("base", "v3", "v4")
BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
LEAST_EXPONENT = {"float64": -1074, "float32": -149, "float16": -24, "bfloat16": -133}
COUNT = {"float64": 1500, "float32": 4000, "float16": 1000, "bfloat16": 1000}
Number = Any


@dataclass(frozen=True)
class Case:
    """A function and the intervals its arguments are drawn from."""

    reference: Callable[..., Number]
    intervals: tuple[tuple[float, float], ...]
    second: tuple[float, float] | None = None
    path: str = ""
    tail: bool = False
    unit: Callable[[Number, Number], Number] | None = None
    """Of the argument and the exact result: the number whose last place counts."""
    every: int = 1
    """Take only every n-th argument, because the reference is slow."""


_WIDE = (-80.0, 80.0)
_ONE = (-1.0, 1.0)
_SMALL = (-1e-3, 1e-3)
_POSITIVE = (0.0, 1e30)
_NEAR_ONE = (0.5, 2.0)
_PI = mpmath.pi


def _gelu(x: Number) -> Number:
    return x * mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _tail_area(x: Number) -> Number:
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def _normal_quantile(p: Number) -> Number:
    return -mpmath.sqrt(2) * _inverse_erfc(2 * p)


def _inverse_erfc(area: Number) -> Number:
    """Newton's method on the logarithm, from the end of the curve that it comes down on."""
    if area > 1:
        return -_inverse_erfc(2 - area)
    x = mpmath.sqrt(-mpmath.log(area))
    for _ in range(100):
        left = mpmath.erfc(x)
        slope = -2 / mpmath.sqrt(_PI) * mpmath.exp(-x * x) / left
        step = (mpmath.log(left) - mpmath.log(area)) / slope
        x -= step
        if abs(step) < mpmath.mpf(10) ** -32:
            break
    return x


def _wave(argument: Number, exact: Number) -> Number:
    """The height of Airy's function to the left, at least."""
    return max(abs(exact), 1 / (1 + abs(argument))) if argument < 0 else exact


def _at_least_1(argument: Number, exact: Number) -> Number:
    return max(abs(exact), 1)


FUNCTIONS: dict[str, Case] = {
    "exp": Case(mpmath.exp, (_WIDE, _ONE)),
    "exp2": Case(lambda x: mpmath.mpf(2) ** x, ((-120.0, 120.0), _ONE)),
    "expm1": Case(mpmath.expm1, (_WIDE, _ONE, _SMALL)),
    "log": Case(mpmath.log, (_POSITIVE, _NEAR_ONE)),
    "log2": Case(lambda x: mpmath.log(x, 2), (_POSITIVE, _NEAR_ONE)),
    "log10": Case(mpmath.log10, (_POSITIVE, _NEAR_ONE)),
    "log1p": Case(mpmath.log1p, (_POSITIVE, (-0.9, 3.0), _SMALL)),
    "sin": Case(mpmath.sin, ((-8000.0, 8000.0), (-4.0, 4.0), _SMALL)),
    "cos": Case(mpmath.cos, ((-8000.0, 8000.0), (-4.0, 4.0), _SMALL)),
    "tan": Case(mpmath.tan, ((-8000.0, 8000.0), (-4.0, 4.0), _SMALL), tail=True),
    "asin": Case(mpmath.asin, (_ONE, _SMALL), tail=True),
    "acos": Case(mpmath.acos, (_ONE, _SMALL), tail=True),
    "atan": Case(mpmath.atan, (_WIDE, (-2.0, 2.0), _SMALL), tail=True),
    "sinh": Case(mpmath.sinh, (_WIDE, (-2.0, 2.0), _SMALL), tail=True),
    "cosh": Case(mpmath.cosh, (_WIDE, (-2.0, 2.0)), tail=True),
    "tanh": Case(mpmath.tanh, ((-10.0, 10.0), _ONE, _SMALL)),
    "asinh": Case(mpmath.asinh, ((-1e10, 1e10), (-4.0, 4.0), _SMALL), tail=True),
    "acosh": Case(mpmath.acosh, ((1.0, 1e10), (1.0, 3.0)), tail=True),
    "atanh": Case(mpmath.atanh, (_ONE, _SMALL), tail=True),
    "sigmoid": Case(lambda x: 1 / (1 + mpmath.exp(-x)), (_WIDE, _ONE)),
    "erf": Case(mpmath.erf, ((-5.0, 5.0), _ONE, _SMALL)),
    "erfc": Case(mpmath.erfc, ((-5.0, 9.0), _ONE), tail=True),
    "erfinv": Case(mpmath.erfinv, (_ONE, _SMALL), tail=True),
    "lgamma": Case(
        lambda x: mpmath.log(abs(mpmath.gamma(x))),
        ((0.01, 100.0), (-9.5, 3.5)),
        tail=True,
        unit=_at_least_1,
    ),
    "digamma": Case(mpmath.digamma, ((0.01, 100.0), (-9.5, 3.5)), tail=True, unit=_at_least_1),
    "i0": Case(lambda x: mpmath.besseli(0, x), ((-50.0, 50.0), _ONE), tail=True),
    "i0e": Case(
        lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
        ((-50.0, 50.0), _ONE),
        path="special.i0e",
        tail=True,
    ),
    "i1": Case(lambda x: mpmath.besseli(1, x), ((-50.0, 50.0), _ONE), path="special.i1", tail=True),
    "i1e": Case(
        lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
        ((-50.0, 50.0), _ONE),
        path="special.i1e",
        tail=True,
    ),
    "modified_bessel_k0": Case(
        lambda x: mpmath.besselk(0, x),
        ((0.0, 50.0), (0.0, 2.0)),
        path="special.modified_bessel_k0",
        every=20,
        tail=True,
    ),
    "modified_bessel_k1": Case(
        lambda x: mpmath.besselk(1, x),
        ((0.0, 50.0), (0.0, 2.0)),
        path="special.modified_bessel_k1",
        every=20,
        tail=True,
    ),
    "bessel_j0": Case(
        lambda x: mpmath.besselj(0, x),
        ((-50.0, 50.0), (-5.0, 5.0)),
        path="special.bessel_j0",
        tail=True,
        unit=_at_least_1,
    ),
    "bessel_j1": Case(
        lambda x: mpmath.besselj(1, x),
        ((-50.0, 50.0), (-5.0, 5.0)),
        path="special.bessel_j1",
        tail=True,
        unit=_at_least_1,
    ),
    "bessel_y0": Case(
        lambda x: mpmath.bessely(0, x),
        ((0.0, 50.0), (0.0, 5.0)),
        path="special.bessel_y0",
        every=4,
        tail=True,
        unit=_at_least_1,
    ),
    "bessel_y1": Case(
        lambda x: mpmath.bessely(1, x),
        ((0.0, 50.0), (0.0, 5.0)),
        path="special.bessel_y1",
        every=4,
        tail=True,
        unit=_at_least_1,
    ),
    "spherical_bessel_j0": Case(
        lambda x: mpmath.sin(x) / x,
        ((-100.0, 100.0), _ONE),
        path="special.spherical_bessel_j0",
        tail=True,
        unit=lambda x, y: max(abs(y), 1 / (1 + abs(x))),
    ),
    "airy_ai": Case(
        mpmath.airyai, ((-30.0, 30.0), (-3.0, 3.0)), path="special.airy_ai", tail=True, unit=_wave
    ),
    "erfcx": Case(
        lambda x: mpmath.erfc(x) * mpmath.exp(x * x),
        ((-9.0, 100.0), _ONE),
        path="special.erfcx",
        tail=True,
    ),
    "ndtr": Case(lambda x: _tail_area(-x), ((-13.0, 9.0), _ONE), path="special.ndtr", tail=True),
    "log_ndtr": Case(
        lambda x: mpmath.log(_tail_area(-x)),
        ((-30.0, 5.0), _ONE),
        path="special.log_ndtr",
        tail=True,
    ),
    "ndtri": Case(
        _normal_quantile, ((0.0, 1.0), (0.0, 0.1)), path="special.ndtri", every=4, tail=True
    ),
    "zeta": Case(
        mpmath.zeta,
        ((1.01, 30.0), (1.01, 2.0)),
        path="special.zeta",
        every=10,
        tail=True,
        second=(0.0, 20.0),
    ),
    "sqrt": Case(mpmath.sqrt, (_POSITIVE, _NEAR_ONE)),
    "rsqrt": Case(lambda x: 1 / mpmath.sqrt(x), (_POSITIVE, _NEAR_ONE)),
    "reciprocal": Case(lambda x: 1 / x, (_POSITIVE, _NEAR_ONE)),
    "gelu": Case(_gelu, ((-3.0, 8.0), _SMALL), path="nn.functional.gelu", unit=lambda x, y: x),
    "silu": Case(
        lambda x: x / (1 + mpmath.exp(-x)), ((-20.0, 20.0), _SMALL), path="nn.functional.silu"
    ),
    "softplus": Case(
        lambda x: mpmath.log1p(mpmath.exp(x)), ((-15.0, 15.0),), path="nn.functional.softplus"
    ),
    "logsigmoid": Case(
        lambda x: -mpmath.log1p(mpmath.exp(-x)), ((-15.0, 15.0),), path="nn.functional.logsigmoid"
    ),
    "elu": Case(
        lambda x: x if x > 0 else mpmath.expm1(x), ((-15.0, 3.0), _SMALL), path="nn.functional.elu"
    ),
    "pow": Case(lambda a, b: a**b, ((0.0, 30.0), _NEAR_ONE), (-20.0, 20.0)),
    "atan2": Case(mpmath.atan2, (_WIDE, _ONE), (-10.0, 10.0), tail=True),
    "hypot": Case(mpmath.hypot, (_WIDE, _ONE), (-10.0, 10.0)),
    "logaddexp": Case(
        lambda a, b: mpmath.log(mpmath.exp(a) + mpmath.exp(b)), ((1.0, 20.0),), (1.0, 20.0)
    ),
    "div": Case(lambda a, b: a / b, (_WIDE, _ONE), (1.0, 3.0)),
}


def round_to(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """Return float64 *values* that are numbers of *dtype*."""
    if dtype == "float64":
        return values
    if dtype == "bfloat16":
        bits = values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        return bits.view(np.float32).astype(np.float64)
    with np.errstate(over="ignore"):
        return values.astype(dtype).astype(np.float64)


def arguments(interval: tuple[float, float], dtype: str, seed: int) -> np.ndarray[Any, Any]:
    """Draw numbers of *dtype* inside *interval*: half of them evenly, half by their exponents."""
    rng = np.random.default_rng(seed)
    low, high = interval
    if dtype == "float16":
        low, high = max(low, -6e4), min(high, 6e4)
    n = COUNT[dtype]
    even = rng.uniform(low, high, n // 2)
    least = max(low, 1e-30 if dtype != "float16" else 1e-7)
    if low < 0:
        scaled = np.exp(rng.uniform(math.log(1e-7), math.log(min(-low, high)), n // 2))
        scaled *= rng.choice([-1.0, 1.0], n // 2)
    else:
        scaled = np.exp(rng.uniform(math.log(least), math.log(high), n // 2))
    found = round_to(np.concatenate([even, scaled]), dtype)
    return found[(found > low) & (found < high) & (found != 0)]


def ulp_error(got: float, exact: Number, dtype: str, at: Number | None = None) -> float:
    """Return |got - exact| in units in the last place of *dtype* at *at*, or at *exact*."""
    if exact == 0:
        return 0.0 if got == 0 else math.inf
    scale = abs(exact if at is None else at)
    exponent = int(mpmath.floor(mpmath.log(scale, 2))) + 1 - BITS[dtype]
    unit = mpmath.mpf(2) ** max(exponent, LEAST_EXPONENT[dtype])
    return float(abs(mpmath.mpf(got) - exact) / unit)


def _find(lib: Any, path: str) -> Callable[..., Any]:
    found = lib
    for part in path.split("."):
        found = getattr(found, part)
    result: Callable[..., Any] = found
    return result


def _limit(dtype: str) -> Number:
    return {"float64": 1.7e308, "float32": 3.4e38, "float16": 65000.0, "bfloat16": 3.3e38}[dtype]


def measure_function(lib: Any, name: str, dtype: str) -> tuple[float, list[float]]:
    """Return the largest error of a function and the arguments where it is."""
    case = FUNCTIONS[name]
    call = _find(lib, case.path or name)
    worst, where = 0.0, [math.nan]
    for k, interval in enumerate(case.intervals):
        columns = [arguments(interval, dtype, 2 * k)]
        if case.second:
            columns.append(arguments(case.second, dtype, 2 * k + 1))
        n = min(len(column) for column in columns)
        columns = [column[: n : case.every] for column in columns]
        n = len(columns[0])
        tensors = [lib.from_numpy(c.copy()).to(getattr(lib, dtype)) for c in columns]
        results = call(*tensors).to(lib.float64).numpy()
        for row in range(n):
            numbers = [float(column[row]) for column in columns]
            try:
                exact = case.reference(*(mpmath.mpf(x) for x in numbers))
            except (ValueError, ZeroDivisionError):
                continue
            if not mpmath.isfinite(exact) or not 1e-37 < abs(exact) < _limit(dtype):
                continue
            if dtype == "float16" and abs(exact) < 1e-7:
                continue
            at = case.unit(mpmath.mpf(numbers[0]), exact) if case.unit else None
            error = ulp_error(float(results[row]), exact, dtype, at)
            if not error <= worst:
                worst, where = error, numbers
    return worst, where


def _sums(lib: Any, dtype: str) -> dict[str, float]:
    """Errors of reductions of a million numbers in (0, 1), against math.fsum."""
    rng = np.random.default_rng(0)
    values = round_to(rng.random(1 << 20), dtype)
    t = lib.from_numpy(values).to(getattr(lib, dtype))
    total = mpmath.mpf(math.fsum(values))
    mean = total / len(values)
    squares = mpmath.mpf(math.fsum(v * v for v in values.tolist()))
    spread = mpmath.mpf(math.fsum((v - float(mean)) ** 2 for v in values.tolist())) / (
        len(values) - 1
    )
    rows = t.reshape(1024, 1024)
    row_sums = [mpmath.mpf(math.fsum(r)) for r in values.reshape(1024, 1024).tolist()]
    column_sums = [mpmath.mpf(math.fsum(r)) for r in values.reshape(1024, 1024).T.tolist()]

    def largest(got: Any, exact: list[Number]) -> float:
        found = got.to(lib.float64).numpy().ravel()
        return max(ulp_error(float(g), e, dtype) for g, e in zip(found, exact, strict=True))

    found = {
        "sum of rows": largest(rows.sum(1), row_sums),
        "sum of columns": largest(rows.sum(0), column_sums),
        "mean": largest(t.mean(), [mean]),
        "norm": largest(t.norm(), [mpmath.sqrt(squares)]) if dtype != "float16" else math.nan,
        "var": largest(t.var(), [spread]),
        "logsumexp": largest(lib.logsumexp(t, 0), [mpmath.log(math.fsum(np.exp(values).tolist()))]),
    }
    if dtype != "float16":
        found["sum"] = largest(t.sum(), [total])
    return found


def measure(dtypes: list[str], names: list[str]) -> dict[str, Any]:
    """Measure in this process, at the level it runs at."""
    import shmtensor

    found: dict[str, Any] = {}
    for dtype in dtypes:
        found[dtype] = {name: measure_function(shmtensor, name, dtype) for name in names}
        if names == list(FUNCTIONS):
            found[dtype]["reductions"] = _sums(shmtensor, dtype)
    return found


def _at_level(level: str, dtypes: list[str], names: list[str]) -> dict[str, Any]:
    environment = {**os.environ, "SHMTENSOR_CPU_CAPABILITY": level}
    command = [sys.executable, __file__, "--measure", "--dtype", *dtypes, "--only", *names]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def bound(name: str, dtype: str) -> float:
    """Return what is promised, in units in the last place."""
    if dtype in ("float16", "bfloat16"):
        return 0.51
    if dtype == "float64":
        return 10.0 if FUNCTIONS[name].tail else 4.0
    return 4.0 if FUNCTIONS[name].tail else 2.0


def _figure(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


_INTRODUCTION = """# Accuracy

Largest errors found, in units in the last place (ulp) of the result's type; 0.5 is the exact
result, rounded. Measured with `python tools/accuracy.py` on {machine}, {python}. An error depends
on the instruction-set level, not on the processor: `base` (SSE2), `v3` (AVX2 and FMA), `v4`
(AVX-512), chosen at run time or by `SHMTENSOR_CPU_CAPABILITY`.

How it was measured: each interval of the table at the end gave some thousand arguments from a fixed
seed, half of them distributed evenly and half by their exponents. mpmath computed the exact results
with 40 digits. A sample does not prove a bound. We promise the bounds below;
`tests/ops/pointwise/test_accuracy.py` checks them for float32 and the 16-bit types at each level:

- float32: 2 ulp; 4 for the functions marked *tail*.
- float64: 4 ulp; 10 for those marked *tail*.
- float16 and bfloat16 are computed in float32 and rounded once: 0.51 ulp.
- Matrix products of bfloat16 are summed in float32 and rounded once, too. Where the processor has
  AVX512_BF16 or AMX, they use it; these instructions treat subnormal numbers as 0.
- `gelu`, `lgamma`, `digamma` and the oscillating Bessel functions are nearly 0 where larger terms
  cancel. There, the unit is that of the argument (`gelu`), of the amplitude (`airy_ai` left of 0,
  `spherical_bessel_j0`), or of 1 where the result is smaller (the others).
- Sums are computed in blocks with many partial sums, so errors do not grow with the length.
"""


def _table(found: dict[str, dict[str, Any]], dtype: str) -> list[str]:
    lines = [f"## {dtype}", "", "| function | base | v3 | v4 | promised |"]
    lines.append("|---|---|---|---|---|")
    for name, case in FUNCTIONS.items():
        errors = " | ".join(_figure(found[level][dtype][name][0]) for level in LEVELS)
        mark = " *tail*" if case.tail and dtype in ("float32", "float64") else ""
        lines.append(f"| `{name}`{mark} | {errors} | {bound(name, dtype):g} |")
    lines += ["", "Reductions of 1048576 numbers in (0, 1); rows and columns are of 1024 by 1024:"]
    lines += ["", "| reduction | base | v3 | v4 |", "|---|---|---|---|"]
    for name in found[LEVELS[0]][dtype]["reductions"]:
        errors = " | ".join(_figure(found[level][dtype]["reductions"][name]) for level in LEVELS)
        lines.append(f"| `{name}` | {errors} |")
    return [*lines, ""]


def page(found: dict[str, dict[str, Any]], dtypes: list[str]) -> str:
    """Return docs/accuracy.md."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    lines = [_INTRODUCTION.format(machine=f"Linux {platform.machine()}", python=python)]
    for dtype in dtypes:
        lines += _table(found, dtype)
    lines += ["## Arguments", "", "| function | intervals |", "|---|---|"]
    for name, case in FUNCTIONS.items():
        intervals = ", ".join(f"({a:g}, {b:g})" for a, b in case.intervals)
        more = f"; the second ({case.second[0]:g}, {case.second[1]:g})" if case.second else ""
        lines.append(f"| `{name}` | {intervals}{more} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the page, or print one level's figures; the status is 1 when a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dtype", nargs="*", default=["float32", "float64", "bfloat16", "float16"])
    parser.add_argument("--only", nargs="*", default=list(FUNCTIONS), metavar="FUNCTION")
    parser.add_argument(
        "--measure", action="store_true", help="print this process's figures as JSON"
    )
    options = parser.parse_args()
    mpmath.mp.dps = 40
    if options.measure:
        json.dump(measure(options.dtype, options.only), sys.stdout)
        return 0
    found = {level: _at_level(level, options.dtype, options.only) for level in LEVELS}
    missed = False
    for dtype in options.dtype:
        for name in options.only:
            for level in LEVELS:
                error, where = found[level][dtype][name]
                if not error <= bound(name, dtype):
                    missed = True
                    print(f"{dtype} {name} {level}: {error:.2f} ulp at {where}")
    if options.only == list(FUNCTIONS) and len(options.dtype) == len(BITS):
        PAGE.write_text(page(found, options.dtype))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
