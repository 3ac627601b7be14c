"""Write csrc/kernels/simd/avx512/tables.h: what the functions of the AVX-512 level look up.

Run it where mpmath is installed; the short polynomials of the headers it
prints. A table's column belongs to an interval and is found by the low bits of a number (4 of a
double's, 5 of a float's): a permutation of two registers is the lookup. Polynomials interpolate at
Chebyshev nodes. Where a column has an argument of its own, it is one whose result is all but a
number of the type: what lies between costs no accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

PAGE = Path(__file__).resolve().parent.parent / "csrc/kernels/simd/avx512/tables.h"
Number = Any
Function = Callable[[Number], Number]
ENTRIES = {"double": 16, "float": 32}
BITS = {"double": 53, "float": 24}
TINY = mpmath.mpf(10) ** -25


def fitted(f: Function, low: Number, high: Number, centre: Number, degree: int) -> list[Number]:
    """Return the coefficients, from the constant on, of a polynomial in x - centre near f."""
    n = degree + 1
    middle, half = (low + high) / 2, (high - low) / 2
    nodes = [middle + half * mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    nodes = [x if abs(x) > TINY else TINY for x in nodes]  # quotients have no value at 0
    matrix = mpmath.matrix(n, n)
    for row, x in enumerate(nodes):
        for k in range(n):
            matrix[row, k] = ((x - centre) / half) ** k
    solution = mpmath.lu_solve(matrix, mpmath.matrix([f(x) for x in nodes]))
    return [solution[k] / half**k for k in range(n)]


def odd(f: Function, high: Number, degree: int) -> list[Number]:
    """Return coefficients of an odd polynomial near f between 0 and high, relatively."""
    terms = (degree + 1) // 2
    coefficients = fitted(lambda z: f(mpmath.sqrt(z)) / mpmath.sqrt(z), 0, high**2, 0, terms - 1)
    row = [mpmath.mpf(0)] * (degree + 1)
    row[1 : 2 * terms : 2] = coefficients
    return row


def steps(f: Function, kind: str, step: Number, degree: int) -> list[list[Number]]:
    """Columns n: a number near n * step whose f is all but a number of the type, f about it.

    About 0 that is f(x) of a double, f(x) - x of a float.
    """
    columns = [[mpmath.mpf(0), *odd(f, step / 2, degree)]]
    columns[0][2] -= kind == "float"
    for n in range(1, ENTRIES[kind]):
        centre = exact(f, n * step, kind)[0]
        column = fitted(f, (n - 0.5) * step, (n + 0.5) * step, centre, degree)
        columns.append([centre, *column])
    return columns


def octaves(f: Function, kind: str, first: int, degree: int) -> list[list[Number]]:
    """Columns by the exponent's low 2 bits and the leading mantissa bits of u = x + 2^first."""
    parts = ENTRIES[kind] // 4
    columns: list[list[Number]] = [[]] * ENTRIES[kind]
    bias = 1023 if kind == "double" else 127
    for exponent in range(first, first + 4):
        for part in range(parts):
            low = mpmath.mpf(2) ** exponent * (1 + mpmath.mpf(part) / parts)
            width = mpmath.mpf(2) ** exponent / parts
            start = mpmath.mpf(2) ** first
            column = fitted(f, low - start, low + width - start, low + width / 2 - start, degree)
            columns[((exponent + bias) & 3) * parts + part] = column
    return columns


def apart(x: Number, kind: str) -> list[Number]:
    """Return numbers of the type about x, so far apart that their functions are not in step."""
    unit = mpmath.mpf(2) ** (mpmath.floor(mpmath.log(x, 2)) + 1 - BITS[kind])
    stride = mpmath.mpf(2) ** (BITS[kind] - 18.7)
    return [
        (mpmath.nint(x / unit) + mpmath.floor(away * stride)) * unit for away in range(-700, 700)
    ]


def exact(f: Function, x: Number, kind: str) -> list[Number]:
    """Return a number about x whose f is all but a number of the type, and that."""
    bits = BITS[kind]
    best = min(apart(x, kind), key=lambda c: abs(rounded(f(c), bits) - f(c)))
    return [best, f(best)]


def reciprocals(kind: str, base: Number) -> list[list[Number]]:
    """Columns n mod entries, n / entries in [3/4, 3/2]: r near its reciprocal, and -log(r)."""
    entries = ENTRIES[kind]
    columns: list[list[Number]] = [[mpmath.mpf(1), mpmath.mpf(0)]] * entries
    for n in range(3 * entries // 4, 3 * entries // 2 + 1):
        if n != entries:
            columns[n % entries] = exact(
                lambda c: -mpmath.log(c) / mpmath.log(base), mpmath.mpf(entries) / n, kind
            )
    return columns


def unit_reciprocals(kind: str) -> list[list[Number]]:
    """Columns n, x = n / (entries - 1): r near 1 / (1 + x), and -log(r)."""
    last = ENTRIES[kind] - 1
    columns = [
        exact(lambda c: -mpmath.log(c), mpmath.mpf(last) / (last + n), kind)
        for n in range(1, last + 1)
    ]
    return [[mpmath.mpf(1), mpmath.mpf(0)], *columns]


def angles(kind: str) -> list[list[Number]]:
    """Columns n: a tangent near n / (entries - 1), and the angle."""
    last = ENTRIES[kind] - 1
    columns = [exact(mpmath.atan, mpmath.mpf(n) / last, kind) for n in range(1, last + 1)]
    return [[mpmath.mpf(0), mpmath.mpf(0)], *columns]


def sines(kind: str) -> list[list[Number]]:
    """Columns n: sin(2 pi n / entries), and what that lacks."""
    columns: list[list[Number]] = []
    for n in range(ENTRIES[kind]):
        sine = mpmath.sinpi(mpmath.mpf(2 * n) / ENTRIES[kind])
        short = rounded(sine, BITS[kind])
        columns.append([short, sine - short])
    return columns


def half_angle(kind: str) -> list[list[Number]]:
    """Columns n: sin(pi n / entries), what that lacks, and the same of the cosine."""
    columns: list[list[Number]] = []
    for n in range(ENTRIES[kind]):
        column: list[Number] = []
        for exact_value in (mpmath.sinpi, mpmath.cospi):
            value = exact_value(mpmath.mpf(n) / ENTRIES[kind])
            short = rounded(value, BITS[kind])
            column += [short, value - short]
        columns.append(column)
    return columns


def rounded(x: Number, bits: int) -> Number:
    """Return x with so many bits."""
    with mpmath.workprec(bits):
        return +x


def text(x: Number, kind: str) -> str:
    """Return x as a literal of C."""
    if kind == "double":
        return repr(float(x))
    shortest = np.format_float_scientific(np.float32(rounded(x, 24)), unique=True, trim="0")
    return f"{shortest}f"


def table(name: str, kind: str, columns: list[list[Number]]) -> str:
    """Return the definition: one line of entries a coefficient."""
    lines = [f"static const {kind} shmt__{name}[{len(columns[0])}][{len(columns)}] = {{"]
    for k in range(len(columns[0])):
        line = "  {"
        for column, values in enumerate(columns):
            item = text(values[k], kind) + ("}," if column == len(columns) - 1 else ",")
            if len(line) + 1 + len(item) > 120:
                lines.append(line)
                line = "   "
            line += item if line.endswith(("{", "   ")) else f" {item}"
        lines.append(line)
    return "\n".join([*lines, "};"])


def powers(kind: str) -> list[list[Number]]:
    """Columns j: 2^(j / entries)."""
    entries = ENTRIES[kind]
    return [[mpmath.mpf(2) ** (mpmath.mpf(j) / entries)] for j in range(entries)]


def half_powers() -> list[list[Number]]:
    """Columns j: half of 2^(j / entries), and what is missing of that, by itself."""
    columns = []
    for (power,) in powers("float"):
        short = rounded(power / 2, BITS["float"])
        columns.append([short, (power / 2 - short) / short])
    return columns


def erfcx(x: Number) -> Number:
    """exp(x^2) erfc(x)."""
    return mpmath.exp(x * x) * mpmath.erfc(x)


def inverse_error_ratio(w: Number) -> Number:
    """erfinv(x) / x of w = -log(1 - x^2)."""
    w = max(w, mpmath.mpf(10) ** -30)
    x = mpmath.sqrt(-mpmath.expm1(-w))
    # erfinv(x) by erfc, as x may be all but 1: Newton's method from the asymptotic form.
    rest = -mpmath.expm1(mpmath.log1p(-mpmath.exp(-w)) / 2)
    y = mpmath.sqrt(max(w - mpmath.log(mpmath.pi * (w + 1)) / 2, mpmath.mpf(0.01)) * 0.9)
    if x < 0.9:
        return mpmath.erfinv(x) / x
    for _ in range(60):
        error = mpmath.erfc(y) - rest
        y += error / (2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-y * y))
        if abs(error) < rest * mpmath.mpf(10) ** -35:
            break
    return y / x


def sine_rest(z: Number) -> Number:
    """Return (sin(r) / r - 1) / z of z = r^2."""
    return (mpmath.sin(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z


def tangent_rest(z: Number) -> Number:
    """Return (tan(r) / r - 1) / z of z = r^2."""
    return (mpmath.tan(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z


def cosine_rest(z: Number) -> Number:
    """Return (cos(r) - 1) / z of z = r^2."""
    return (mpmath.cos(mpmath.sqrt(z)) - 1) / z


HEAD = """\
/* kernels/simd/avx512/tables.h -- coefficients, written by tools/fit_avx512_tables.py.
 *
 * A row is a coefficient and a column an interval; the headers in this folder say which.
 */
#ifndef SHMT_KERNELS_SIMD_AVX512_TABLES_H
#define SHMT_KERNELS_SIMD_AVX512_TABLES_H
"""


def main() -> None:
    """Fit everything and write the header."""
    mpmath.mp.dps = 90
    half = mpmath.mpf(1) / 2
    parts = [HEAD]
    for kind, tail in (("double", ""), ("float", "f")):
        parts.append(table(f"avx512_powers{tail}", kind, powers(kind)))
        for name, base in (("", mpmath.e), ("2", mpmath.mpf(2)), ("10", mpmath.mpf(10))):
            parts.append(table(f"avx512_logs{name}{tail}", kind, reciprocals(kind, base)))
        parts.append(table(f"avx512_unit_logs{tail}", kind, unit_reciprocals(kind)))
        parts.append(table(f"avx512_angles{tail}", kind, angles(kind)))
        parts.append(table(f"avx512_sines{tail}", kind, sines(kind)))
        parts.append(table(f"avx512_half_angle{tail}", kind, half_angle(kind)))
    parts.append(table("avx512_half_powersf", "float", half_powers()))
    erf = mpmath.erf
    parts.append(table("avx512_erf_steps", "double", steps(erf, "double", mpmath.mpf(25) / 64, 13)))
    parts.append(table("avx512_erff_steps", "float", steps(erf, "float", mpmath.mpf(33) / 256, 5)))
    tanh = steps(mpmath.tanh, "float", mpmath.mpf(19) / 64, 6)
    parts.append(table("avx512_tanhf_steps", "float", tanh))
    parts.append(table("avx512_erfcx_octaves", "double", octaves(erfcx, "double", 1, 13)))
    parts.append(table("avx512_erfcxf_octaves", "float", octaves(erfcx, "float", 0, 5)))
    parts.append(
        table("avx512_erfinvf_octaves", "float", octaves(inverse_error_ratio, "float", 1, 5))
    )
    PAGE.write_text("\n".join(parts) + "\n\n#endif\n")
    for label, kind, f, high, degree in (
        ("exp", "double", lambda r: (mpmath.exp(r) - 1 - r) / r**2, mpmath.log(2) / 32, 4),
        ("exp", "float", lambda r: (mpmath.exp(r) - 1 - r) / r**2, mpmath.log(2) / 64, 1),
        ("exp2", "double", lambda r: mpmath.expm1(r * mpmath.log(2)) / r, half / 16, 5),
        ("exp2", "float", lambda r: mpmath.expm1(r * mpmath.log(2)) / r, half / 32, 2),
        ("log", "double", lambda r: (mpmath.log1p(r) - r) / r**2, mpmath.mpf(1) / 24, 8),
        ("log", "float", lambda r: (mpmath.log1p(r) - r) / r**2, mpmath.mpf(1) / 48, 2),
        (
            "log for pow",
            "double",
            lambda r: mpmath.log1p(r) / mpmath.log(2) / r,
            mpmath.mpf(1) / 24,
            5,
        ),
        ("exp2 for pow", "double", lambda r: mpmath.expm1(r * mpmath.log(2)) / r, half / 16, 2),
        (
            "atan",
            "double",
            lambda z: (mpmath.atan(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
            mpmath.mpf(1) / 800,
            4,
        ),
        (
            "atan",
            "float",
            lambda z: (mpmath.atan(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1) / z,
            mpmath.mpf(1) / 3000,
            1,
        ),
        ("sin", "double", sine_rest, (mpmath.pi / 16) ** 2, 4),
        ("sin", "float", sine_rest, (mpmath.pi / 32) ** 2, 1),
        ("tan", "double", tangent_rest, (mpmath.pi / 32) ** 2, 5),
        ("tan", "float", tangent_rest, (mpmath.pi / 64) ** 2, 1),
        ("cos", "double", cosine_rest, (mpmath.pi / 16) ** 2, 4),
        ("cos", "float", cosine_rest, (mpmath.pi / 32) ** 2, 1),
    ):
        low = 0 if label in ("atan", "sin", "cos", "tan") else -high
        row = ", ".join(text(c, kind) for c in fitted(f, low, high, 0, degree))
        print(f"{label} {kind}: {row}")


if __name__ == "__main__":
    main()
