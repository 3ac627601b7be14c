"""Rounded division of integers. Loops divide them as doubles, so values near 2**51 are tested.

The reference is Python's arithmetic, whose integers have no limits.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import shmtensor

Rounded = Callable[[int, int], int]

INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]


def truncated(a: int, b: int) -> int:
    """The quotient, rounded towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


OPERATORS: dict[str, tuple[Callable[..., shmtensor.Tensor], Rounded]] = {
    "floor_divide": (shmtensor.floor_divide, lambda a, b: a // b),
    "div trunc": (
        lambda a, b, **more: shmtensor.div(a, b, rounding_mode="trunc", **more),
        truncated,
    ),
    "remainder": (shmtensor.remainder, lambda a, b: a % b),
    "fmod": (shmtensor.fmod, lambda a, b: a - truncated(a, b) * b),
}


def numbers(dtype: str) -> list[int]:
    """Numbers near every limit: of the dtype, of what doubles hold, of quotients that are whole."""
    limits = shmtensor.iinfo(getattr(shmtensor, dtype))
    near = [0, limits.min, limits.max]
    near += [
        sign << bits for bits in (3, 6, 7, 14, 15, 30, 31, 50, 51, 52, 53, 62) for sign in (1, -1)
    ]
    found = {n + d for n in near for d in (-3, -2, -1, 0, 1, 2, 3)} | {7 * 143, 1 << 49, 3**31}
    return sorted(n for n in found if limits.min <= n <= limits.max)


def wrapped(value: int, dtype: str) -> int:
    """*value* as the dtype keeps it: the smallest integer by -1 is itself."""
    limits = shmtensor.iinfo(getattr(shmtensor, dtype))
    return (value - limits.min) % (limits.max - limits.min + 1) + limits.min


@pytest.mark.check
@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", OPERATORS)
def test_all_pairs_near_the_limits(name: str, dtype: str) -> None:
    run, reference = OPERATORS[name]
    found = numbers(dtype)
    divisors = [n for n in found if n != 0]
    a = shmtensor.tensor(found, dtype=getattr(shmtensor, dtype))
    b = shmtensor.tensor(divisors, dtype=getattr(shmtensor, dtype))
    want = [[wrapped(reference(x, y), dtype) for y in divisors] for x in found]
    assert run(a[:, None], b).tolist() == want
    assert run(a[:, None].expand(-1, len(divisors)).clone(), b).tolist() == want
    for k, divisor in enumerate(divisors):
        assert run(a, divisor).tolist() == [row[k] for row in want]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", OPERATORS)
def test_lengths_strides_and_offsets(name: str, dtype: str) -> None:
    run, reference = OPERATORS[name]
    found = (numbers(dtype) * 30)[:700]
    divisors = [n for n in found[::-1] if n != 0][:500]
    kind = getattr(shmtensor, dtype)
    for n in (1, 2, 31, 32, 33, 255, 256, 257, 500):
        want = [
            wrapped(reference(x, y), dtype) for x, y in zip(found[:n], divisors[:n], strict=True)
        ]
        a, b = shmtensor.tensor(found[:n], dtype=kind), shmtensor.tensor(divisors[:n], dtype=kind)
        wide_a, wide_b = shmtensor.zeros((n, 3), dtype=kind), shmtensor.ones((n, 2), dtype=kind)
        wide_a[:, 1], wide_b[:, 1] = a, b
        assert run(a, b).tolist() == want
        assert run(wide_a[:, 1], wide_b[:, 1]).tolist() == want
        assert run(a, wide_b[:, 1], out=wide_a[:, 1]).tolist() == want
        assert run(a, b, out=a).tolist() == want
        assert wide_a[:, 0].eq(0).all()


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", OPERATORS)
def test_one_zero_among_many(name: str, dtype: str) -> None:
    run, _ = OPERATORS[name]
    kind = getattr(shmtensor, dtype)
    a, b = shmtensor.ones(1000, dtype=kind), shmtensor.ones(1000, dtype=kind)
    b[777] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(a, b)
