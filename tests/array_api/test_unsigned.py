"""uint16, uint32 and uint64: by the standard they calculate like any integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T
from shmtensor import array_api as xp

BITS = {"uint16": 16, "uint32": 32, "uint64": 64}


def numbers(bits: int) -> list[int]:
    """Numbers at the ends of the range, around its middle and between."""
    top, half = 2**bits - 1, 2 ** (bits - 1)
    return [0, 1, 2, 3, 7, 10, half - 1, half, half + 1, top // 3, top - 1, top]


def pairs(bits: int) -> tuple[list[int], list[int]]:
    every = [(a, b) for a in numbers(bits) for b in numbers(bits)]
    return [a for a, _ in every], [b for _, b in every]


WRAPPING: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "maximum": max,
    "minimum": min,
}
DIVIDING: dict[str, Callable[[int, int], int]] = {
    "floor_divide": operator.floordiv,
    "remainder": operator.mod,
}
COMPARING: dict[str, Callable[[int, int], bool]] = {
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize("name", [*WRAPPING, *DIVIDING, *COMPARING])
def test_pairs_of_unsigned_integers_equal_pythons(name: str, dtype: str) -> None:
    bits = BITS[dtype]
    a, b = pairs(bits)
    if name in DIVIDING:
        a, b = [x for x, y in zip(a, b, strict=True) if y], [y for y in b if y]
    x1, x2 = (xp.asarray(values, dtype=getattr(xp, dtype)) for values in (a, b))
    exact = {**WRAPPING, **DIVIDING, **COMPARING}[name]
    got = getattr(xp, name)(x1, x2)
    assert got.dtype is (xp.bool if name in COMPARING else x1.dtype)
    assert got.tolist() == [exact(x, y) % 2**bits for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize("dtype", BITS)
def test_shifts_of_unsigned_integers_move_zeros_in(dtype: str) -> None:
    bits = BITS[dtype]
    every = [(a, n) for a in numbers(bits) for n in (0, 1, 5, bits - 1)]
    a, n = ([pair[i] for pair in every] for i in (0, 1))
    x1, x2 = (xp.asarray(values, dtype=getattr(xp, dtype)) for values in (a, n))
    right = xp.bitwise_right_shift(x1, x2)
    left = xp.bitwise_left_shift(x1, x2)
    assert right.tolist() == [x >> y for x, y in every]
    assert left.tolist() == [(x << y) % 2**bits for x, y in every]
    assert xp.bitwise_right_shift(x1, bits).tolist() == [0] * len(every)


@pytest.mark.parametrize("dtype", BITS)
def test_single_unsigned_integers_equal_pythons(dtype: str) -> None:
    bits = BITS[dtype]
    a = numbers(bits)
    x = xp.asarray(a, dtype=getattr(xp, dtype))
    expected: dict[str, list[int]] = {
        "abs": a,
        "positive": a,
        "negative": [-n % 2**bits for n in a],
        "square": [n * n % 2**bits for n in a],
        "sign": [min(n, 1) for n in a],
        "bitwise_invert": [2**bits - 1 - n for n in a],
        "floor": a,
        "ceil": a,
        "round": a,
        "trunc": a,
        "logical_not": [n == 0 for n in a],
    }
    for name, values in expected.items():
        assert getattr(xp, name)(x).tolist() == values, name
    assert xp.pow(x, xp.asarray(3, dtype=x.dtype)).tolist() == [n**3 % 2**bits for n in a]


@pytest.mark.parametrize("dtype", BITS)
def test_order_of_unsigned_integers(dtype: str) -> None:
    bits = BITS[dtype]
    a = numbers(bits)[::-1] + [5, 5]
    x = xp.asarray(a, dtype=getattr(xp, dtype))
    assert int(xp.max(x)) == max(a)
    assert int(xp.min(x)) == min(a)
    assert int(xp.argmax(x)) == a.index(max(a))
    assert int(xp.argmin(x)) == a.index(min(a))
    assert xp.sort(x).tolist() == sorted(a)
    assert xp.sort(x, descending=True).tolist() == sorted(a, reverse=True)
    assert xp.clip(x, 3, 2 ** (bits - 1)).tolist() == [min(max(n, 3), 2 ** (bits - 1)) for n in a]
    assert xp.clip(x, -1, 2**70).tolist() == a
    assert xp.unique_values(x).tolist() == sorted(set(a))
    at = xp.searchsorted(xp.sort(x), xp.asarray([2 ** (bits - 1)], dtype=x.dtype))
    assert at.tolist() == [sorted(a).index(2 ** (bits - 1))]


@pytest.mark.check
@pytest.mark.parametrize("dtype", ["uint8", *BITS])
def test_sums_and_products_of_unsigned_integers_are_uint64(dtype: str) -> None:
    x = xp.asarray([[1, 2, 3], [4, 5, 250]], dtype=getattr(xp, dtype))
    for function in (xp.sum, xp.prod, xp.cumulative_sum, xp.cumulative_prod):
        along: Any = function
        result = along(x, axis=1)
        assert result.dtype is xp.uint64
        assert result.tolist()[1] in ([259], [5000], 259, 5000, [4, 9, 259], [4, 20, 5000])
    assert int(xp.sum(xp.asarray([2**64 - 2, 1], dtype=xp.uint64))) == 2**64 - 1
    assert int(xp.linalg.trace(x[:, :2])) == 6
    assert xp.linalg.trace(x).dtype is xp.uint64
    assert xp.count_nonzero(x).dtype is xp.int64


@pytest.mark.parametrize("dtype", BITS)
def test_matrix_products_of_unsigned_integers_wrap(dtype: str) -> None:
    bits = BITS[dtype]
    big = 2**bits - 3
    x = xp.asarray([[big, 2], [1, big]], dtype=getattr(xp, dtype))
    expected = [[n % 2**bits for n in row] for row in ([big * big + 2, 4 * big], [2 * big, 0])]
    expected[1][1] = (2 + big * big) % 2**bits
    assert xp.matmul(x, x).tolist() == expected
    assert xp.tensordot(x, x, axes=1).tolist() == expected
    assert xp.vecdot(x, x).tolist() == [(big * big + 4) % 2**bits, (big * big + 1) % 2**bits]
    assert xp.linalg.outer(x[0], x[0]).tolist()[0][0] == big * big % 2**bits
    assert xp.diff(x).tolist() == [[(2 - big) % 2**bits], [(big - 1) % 2**bits]]


@pytest.mark.check
def test_ranges_beyond_int64() -> None:
    assert xp.arange(2**63, 2**63 + 5, 2, dtype=xp.uint64).tolist() == [
        2**63,
        2**63 + 2,
        2**63 + 4,
    ]
    assert xp.arange(2**64 - 1, 2**64 - 4, -2, dtype=xp.uint64).tolist() == [2**64 - 1, 2**64 - 3]
    assert xp.arange(3, 0, dtype=xp.uint64).shape == (0,)


def test_the_engines_own_operators_refuse_them_as_torch_does() -> None:
    with pytest.raises(NotImplementedError, match="UInt16"):
        T.ones(2, dtype=T.uint16) + T.ones(2, dtype=T.uint16)
