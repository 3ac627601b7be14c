"""Complex functions with infinite, NaN or zero parts, as in Annex G of the C standard."""

from __future__ import annotations

import math
from typing import Any

import pytest

import shmtensor as st

INF, NAN = math.inf, math.nan

# Function, real and imaginary part of the argument, the same of the result. ~: its sign is open.
TABLE = """
acos      0    0  pi/2 -0
acos      0  nan  pi/2 nan
acos      0  inf  pi/2 -inf
acos      2  inf  pi/2 -inf
acos      2  nan   nan nan
acos   -inf    2    pi -inf
acos    inf    2     0 -inf
acos   -inf  inf 3*pi/4 -inf
acos    inf  inf  pi/4 -inf
acos    inf  nan   nan inf~
acos   -inf  nan   nan inf~
acos    nan    0   nan nan
acos    nan    2   nan nan
acos    nan  inf   nan -inf
acosh     0    0     0 pi/2
acosh     0  inf   inf pi/2
acosh     2  inf   inf pi/2
acosh     2  nan   nan nan
acosh     0  nan   nan pi/2~
acosh  -inf    2   inf pi
acosh   inf    2   inf 0
acosh  -inf  inf   inf 3*pi/4
acosh   inf  inf   inf pi/4
acosh   inf  nan   inf nan
acosh  -inf  nan   inf nan
acosh   nan    0   nan nan
acosh   nan    2   nan nan
acosh   nan  inf   inf nan
asinh     0    0     0 0
asinh     2  inf   inf pi/2
asinh     0  nan   nan nan
asinh     2  nan   nan nan
asinh   inf    2   inf 0
asinh   inf  inf   inf pi/4
asinh   nan    0   nan 0
asinh   nan    2   nan nan
asinh   nan  inf  inf~ nan
atanh     0    0     0 0
atanh     0  nan     0 nan
atanh     1    0   inf 0
atanh     2  inf     0 pi/2
atanh     2  nan   nan nan
atanh   inf    2     0 pi/2
atanh   inf  inf     0 pi/2
atanh   inf  nan     0 nan
atanh   nan    0   nan nan
atanh   nan    2   nan nan
atanh   nan  inf    0~ pi/2~
cosh      0    0     1 0
cosh      0  inf   nan 0~
cosh      0  nan   nan 0~
cosh      2  inf   nan nan
cosh      2  nan   nan nan
cosh    inf    0   inf 0
cosh    inf    2  -inf inf
cosh    inf  inf  inf~ nan
cosh    inf  nan   inf nan
cosh    nan    0   nan 0~
cosh    nan    2   nan nan
exp       0    0     1 0
exp       0  inf   nan nan
exp       2  inf   nan nan
exp       0  nan   nan nan
exp       2  nan   nan nan
exp     inf    0   inf 0
exp    -inf    0     0 0
exp    -inf    2    -0 0
exp     inf    2  -inf inf
exp    -inf  inf    0~ 0~
exp     inf  inf  inf~ nan
exp    -inf  nan    0~ 0~
exp     inf  nan  inf~ nan
exp     nan    0   nan 0
exp     nan    2   nan nan
exp     nan  inf   nan nan
expm1     0    0     0 0
expm1     0  inf   nan nan
expm1     2  inf   nan nan
expm1     0  nan   nan nan
expm1     2  nan   nan nan
expm1   inf    0   inf 0
expm1  -inf    0    -1 0
expm1  -inf    2    -1 0
expm1   inf    2  -inf inf
expm1  -inf  inf    -1 0~
expm1   inf  inf  inf~ nan
expm1  -inf  nan    -1 0~
expm1   inf  nan  inf~ nan
expm1   nan    0   nan 0
expm1   nan    2   nan nan
expm1   nan  inf   nan nan
log      -0    0  -inf pi
log       0    0  -inf 0
log       0  inf   inf pi/2
log       2  inf   inf pi/2
log       0  nan   nan nan
log       2  nan   nan nan
log    -inf    2   inf pi
log     inf    2   inf 0
log    -inf  inf   inf 3*pi/4
log     inf  inf   inf pi/4
log     inf  nan   inf nan
log    -inf  nan   inf nan
log     nan    0   nan nan
log     nan    2   nan nan
log     nan  inf   inf nan
log1p    -1    0  -inf 0
log1p     0  inf   inf pi/2
log1p     2  inf   inf pi/2
log1p     0  nan   nan nan
log1p     2  nan   nan nan
log1p  -inf    2   inf pi
log1p   inf    2   inf 0
log1p  -inf  inf   inf 3*pi/4
log1p   inf  inf   inf pi/4
log1p   inf  nan   inf nan
log1p  -inf  nan   inf nan
log1p   nan    0   nan nan
log1p   nan    2   nan nan
log1p   nan  inf   inf nan
sinh      0    0     0 0
sinh      0  inf    0~ nan
sinh      0  nan    0~ nan
sinh      2  inf   nan nan
sinh      2  nan   nan nan
sinh    inf    0   inf 0
sinh    inf    2  -inf inf
sinh    inf  inf  inf~ nan
sinh    inf  nan  inf~ nan
sinh    nan    0   nan 0
sinh    nan    2   nan nan
sqrt      0    0     0 0
sqrt      0  inf   inf inf
sqrt      2  inf   inf inf
sqrt    inf  inf   inf inf
sqrt   -inf  inf   inf inf
sqrt      0  nan   nan nan
sqrt      2  nan   nan nan
sqrt   -inf    2     0 inf
sqrt    inf    2   inf 0
sqrt   -inf  nan   nan inf~
sqrt    inf  nan   inf nan
sqrt    nan    0   nan nan
sqrt    nan    2   nan nan
tanh      0    0     0 0
tanh      2  inf   nan nan
tanh      0  inf     0 nan
tanh      2  nan   nan nan
tanh      0  nan     0 nan
tanh    inf    1     1 0
tanh    inf  inf     1 0~
tanh    inf  nan     1 0~
tanh    nan    0   nan 0
tanh    nan    2   nan nan
tanh    nan  inf   nan nan
"""
NUMBERS = {
    "inf": INF,
    "nan": NAN,
    "pi": math.pi,
    "pi/2": math.pi / 2,
    "pi/4": math.pi / 4,
    "3*pi/4": 3 * math.pi / 4,
}


def number(text: str) -> float:
    sign = -1.0 if text.startswith("-") else 1.0
    text = text.removeprefix("-")
    return math.copysign(NUMBERS[text] if text in NUMBERS else float(text), sign)


def same(got: float, want: float, open_sign: bool = False) -> bool:
    if math.isnan(want):
        return math.isnan(got)
    if open_sign:
        got, want = abs(got), abs(want)
    return math.isclose(got, want, rel_tol=1e-6) and math.copysign(1, got) == math.copysign(1, want)


def values(function: Any, z: complex, dtype: Any) -> list[complex]:
    """Of one number, of a long row and of one with gaps."""
    row = st.tensor([z] * 37, dtype=dtype)
    gaps = st.ones(37, 2, dtype=dtype)
    gaps[:, 1] = row
    return [function(row[0]).item(), *function(row).tolist(), *function(gaps[:, 1]).tolist()]


@pytest.mark.parametrize("dtype", [st.complex64, st.complex128], ids=str)
@pytest.mark.parametrize("row", TABLE.split("\n")[1:-1])
def test_special_value(row: str, dtype: Any) -> None:
    name, a, b, re, im = row.split()
    z = complex(number(a), number(b))
    for got in values(getattr(st, name), z, dtype):
        assert same(got.real, number(re.removesuffix("~")), re.endswith("~")), got
        assert same(got.imag, number(im.removesuffix("~")), im.endswith("~")), got


POINTS = [
    complex(a, b) for a in (0.0, -0.0, 2.0, INF, -INF, NAN) for b in (0.0, -0.0, 2.0, INF, NAN)
]


@pytest.mark.check
@pytest.mark.parametrize("dtype", [st.complex64, st.complex128], ids=str)
@pytest.mark.parametrize(
    ("circular", "hyperbolic"),
    [("sin", "sinh"), ("tan", "tanh"), ("asin", "asinh"), ("atan", "atanh")],
)
def test_circular_functions_are_turned_hyperbolic_ones(
    circular: str, hyperbolic: str, dtype: Any
) -> None:
    """f(z) is -i h(i z)."""
    for z in POINTS:
        (want, *_) = values(getattr(st, hyperbolic), complex(-z.imag, z.real), dtype)
        for got in values(getattr(st, circular), z, dtype):
            assert same(got.real, want.imag, open_sign=True), (z, got, want)
            assert same(got.imag, -want.real, open_sign=True), (z, got, want)


@pytest.mark.check
@pytest.mark.parametrize("dtype", [st.complex64, st.complex128], ids=str)
def test_logarithms_of_other_bases_are_scaled_ones(dtype: Any) -> None:
    for z in POINTS:
        (natural, *_) = values(st.log, z, dtype)
        for name, base in (("log2", 2.0), ("log10", 10.0)):
            for got in values(getattr(st, name), z, dtype):
                assert same(got.real, natural.real / math.log(base)), (z, got)
                assert same(got.imag, natural.imag / math.log(base)), (z, got)


@pytest.mark.parametrize("dtype", [st.complex64, st.complex128], ids=str)
def test_functions_near_zero_keep_its_sign(dtype: Any) -> None:
    for name in ("expm1", "log1p", "asinh", "atanh", "sinh", "tanh"):
        for z in (complex(-0.0, 0.0), complex(0.0, -0.0), complex(-0.0, -0.0)):
            for got in values(getattr(st, name), z, dtype):
                assert same(got.real, z.real), (name, z, got)
                assert same(got.imag, z.imag), (name, z, got)
