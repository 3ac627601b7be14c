"""Write csrc/kernels/wide_tables.h: what the functions of the AVX-512 level look up.

Run ``python tools/fit_wide.py`` where mpmath is installed. A table's column belongs to an interval and is
found by the low bits of a number (4 of a double's, 5 of a float's): a permutation of two registers is the
lookup. Polynomials interpolate at Chebyshev nodes. The logarithms' reciprocals are chosen so that their
logarithm is all but a number of the type: what lies between costs no accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath
import numpy as np

PAGE = Path(__file__).resolve().parent.parent / "csrc" / "kernels" / "wide_tables.h"
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
    bits = BITS[kind]
    columns = [[mpmath.mpf(0), *odd(f, step / 2, degree)]]
    columns[0][2] -= kind == "float"
    for n in range(1, ENTRIES[kind]):
        near = [n + away * mpmath.mpf(2) ** -17 for away in range(-1500, 1500)]
        around = [rounded(x * step, bits) for x in near]
        centre = min(around, key=lambda x: abs(rounded(f(x), bits) - f(x)))
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
            column = fitted(
                f, low - start, low + width - start, low + width / 2 - start, degree
            )
            columns[((exponent + bias) & 3) * parts + part] = column
    return columns


def reciprocals(kind: str, base: Number) -> list[list[Number]]:
    """Columns n mod entries, n / entries in [3/4, 3/2]: r near its reciprocal, and -log(r)."""
    entries, bits = ENTRIES[kind], BITS[kind]
    columns: list[list[Number]] = [[mpmath.mpf(1), mpmath.mpf(0)]] * entries
    for n in range(3 * entries // 4, 3 * entries // 2 + 1):
        if n == entries:
            continue
        best: tuple[Number, list[Number]] | None = None
        near = mpmath.mpf(entries) / n
        unit = mpmath.mpf(2) ** (mpmath.floor(mpmath.log(near, 2)) + 1 - bits)
        # Far enough apart for the logarithms not to be evenly spaced.
        for away in range(-700, 700):
            r = (mpmath.nint(near / unit) + mpmath.floor(away * mpmath.mpf(2) ** (bits - 18.7))) * unit
            value = -mpmath.log(r) / mpmath.log(base)
            short = rounded(value, bits)
            error = abs(short - value) / abs(value)
            if best is None or error < best[0]:
                best = (error, [r, short])
        assert best is not None
        columns[n % entries] = best[1]
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


HEAD = """\
/* kernels/wide_tables.h -- what the functions of 512-bit vectors look up, by tools/fit_wide.py.
 *
 * A row is a coefficient, a column an interval; wide_exp.h, wide_log.h and wide_error.h say which.
 */
#ifndef SHMT_KERNELS_WIDE_TABLES_H
#define SHMT_KERNELS_WIDE_TABLES_H
"""


def main() -> None:
    """Fit everything and write the header."""
    mpmath.mp.dps = 90
    half = mpmath.mpf(1) / 2
    parts = [HEAD]
    for kind, tail in (("double", ""), ("float", "f")):
        parts.append(table(f"wide_powers{tail}", kind, powers(kind)))
        for name, base in (("", mpmath.e), ("2", mpmath.mpf(2)), ("10", mpmath.mpf(10))):
            parts.append(table(f"wide_logs{name}{tail}", kind, reciprocals(kind, base)))
    parts.append(table("wide_half_powersf", "float", half_powers()))
    erf = mpmath.erf
    parts.append(table("wide_erf_steps", "double", steps(erf, "double", mpmath.mpf(25) / 64, 13)))
    parts.append(table("wide_erff_steps", "float", steps(erf, "float", mpmath.mpf(33) / 256, 5)))
    tanh = steps(mpmath.tanh, "float", mpmath.mpf(19) / 64, 6)
    parts.append(table("wide_tanhf_steps", "float", tanh))
    parts.append(table("wide_erfcx_octaves", "double", octaves(erfcx, "double", 1, 13)))
    parts.append(table("wide_erfcxf_octaves", "float", octaves(erfcx, "float", 0, 5)))
    parts.append(table("wide_erfinvf_octaves", "float", octaves(inverse_error_ratio, "float", 1, 5)))
    PAGE.write_text("\n".join(parts) + "\n\n#endif\n")
    for label, kind, f, high, degree in (
        ("exp", "double", lambda r: (mpmath.exp(r) - 1 - r) / r**2, mpmath.log(2) / 32, 4),
        ("exp", "float", lambda r: (mpmath.exp(r) - 1 - r) / r**2, mpmath.log(2) / 64, 1),
        ("exp2", "double", lambda r: mpmath.expm1(r * mpmath.log(2)) / r, half / 16, 5),
        ("exp2", "float", lambda r: mpmath.expm1(r * mpmath.log(2)) / r, half / 32, 2),
        ("log", "double", lambda r: (mpmath.log1p(r) - r) / r**2, mpmath.mpf(1) / 24, 8),
        ("log", "float", lambda r: (mpmath.log1p(r) - r) / r**2, mpmath.mpf(1) / 48, 2),
        ("log for pow", "double", lambda r: mpmath.log1p(r) / mpmath.log(2) / r, mpmath.mpf(1) / 24, 5),
        ("exp2 for pow", "double", lambda r: mpmath.expm1(r * mpmath.log(2)) / r, half / 16, 2),
    ):
        row = ", ".join(text(c, kind) for c in fitted(f, -high, high, 0, degree))
        print(f"{label} {kind}: {row}")


if __name__ == "__main__":
    main()
