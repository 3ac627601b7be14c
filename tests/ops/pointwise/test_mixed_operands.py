"""Operands of different dtypes, 0-d ones in every place.

An operator with promotion is the same operator on operands that were cast to the common dtype and
expanded to the common shape: that definition says what each result must be.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import pytest

import shmtensor as st

Operator = Callable[..., st.Tensor]

_DTYPES = [
    st.bool,
    st.uint8,
    st.int16,
    st.int64,
    st.float16,
    st.bfloat16,
    st.float32,
    st.float64,
    st.complex64,
    st.complex128,
]

_BINARY: dict[str, Operator] = {
    "add": st.add,
    "add alpha": lambda a, b, **kw: st.add(a, b, alpha=2, **kw),
    "sub": st.sub,
    "mul": st.mul,
    "div": st.div,
    "div floor": lambda a, b, **kw: st.div(a, b, rounding_mode="floor", **kw),
    "div trunc": lambda a, b, **kw: st.div(a, b, rounding_mode="trunc", **kw),
    "floor_divide": st.floor_divide,
    "remainder": st.remainder,
    "fmod": st.fmod,
    "pow": st.pow,
    "float_power": st.float_power,
    "maximum": st.maximum,
    "minimum": st.minimum,
    "fmax": st.fmax,
    "fmin": st.fmin,
    "atan2": st.atan2,
    "hypot": st.hypot,
    "copysign": st.copysign,
    "nextafter": st.nextafter,
    "logaddexp": st.logaddexp,
    "logaddexp2": st.logaddexp2,
    "xlogy": st.xlogy,
    "heaviside": st.heaviside,
    "gcd": st.gcd,
    "lcm": st.lcm,
    "eq": st.eq,
    "ne": st.ne,
    "lt": st.lt,
    "le": st.le,
    "gt": st.gt,
    "ge": st.ge,
    "logical_and": st.logical_and,
    "logical_or": st.logical_or,
    "logical_xor": st.logical_xor,
    "bitwise_and": st.bitwise_and,
    "bitwise_or": st.bitwise_or,
    "bitwise_xor": st.bitwise_xor,
    "bitwise_left_shift": st.bitwise_left_shift,
    "bitwise_right_shift": st.bitwise_right_shift,
    "xlog1py": st.special.xlog1py,
    "zeta": st.special.zeta,
    "where": lambda a, b, **kw: st.where(st.tensor([True, False, True]), a, b, **kw),
}
_TERNARY: dict[str, Operator] = {
    "clamp": st.clamp,
    "addcmul": st.addcmul,
    "addcmul value": lambda a, b, c, **kw: st.addcmul(a, b, c, value=2, **kw),
    "addcdiv": st.addcdiv,
    "lerp": st.lerp,
}

# Whether each operand has dims; the others are 0-d.
_PLACES = {n: list(itertools.product([True, False], repeat=n)) for n in (2, 3)}


def _operand(dtype: st.dtype, index: int, *, has_dims: bool) -> st.Tensor:
    rows = [[2.0, 1.0, 3.0], [3.0, 2.0, 1.0], [1.0, 3.0, 2.0]]
    full = st.tensor(rows[index], dtype=st.float64).to(dtype)
    # An element of a longer tensor: what lies behind it in memory is another number.
    return full if has_dims else full[1]


def _try(
    operator: Operator, *operands: st.Tensor, **keywords: object
) -> st.Tensor | type[Exception]:
    try:
        return operator(*operands, **keywords)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return type(error)


def _promote(operands: list[st.Tensor]) -> st.dtype:
    return functools.reduce(st.promote_types, (t.dtype for t in operands))


def _common_dtype(operands: list[st.Tensor]) -> st.dtype:
    """Operands with dims promote among themselves, 0-d ones too; then one of each promotes."""
    full, single = (
        [t for t in operands if bool(t.dim()) is has_dims] for has_dims in (True, False)
    )
    if not full or not single:
        return _promote(operands)
    return st.result_type(st.ones(1, dtype=_promote(full)), st.ones((), dtype=_promote(single)))


def _same(result: st.Tensor, expected: st.Tensor) -> bool:
    """Equal, NaN where the other is NaN."""
    both_nan = (result != result) & (expected != expected)
    return bool(((result == expected) | both_nan).all())


def _check(name: str, operator: Operator, operands: list[st.Tensor]) -> bool:
    common = _common_dtype(operands)
    shape = (3,) if any(t.dim() for t in operands) else ()
    plain = [t.to(common).expand(shape).clone() for t in operands]
    expected = _try(operator, *plain)
    result = _try(operator, *operands)
    case = (name, [(t.dtype, t.dim()) for t in operands])
    if isinstance(expected, type) or isinstance(result, type):
        return False  # an operator may refuse mixed dtypes
    assert result.dtype == expected.dtype, case
    assert result.shape == expected.shape, case
    assert _same(result, expected), (case, result, expected)
    out = _try(operator, *operands, out=st.empty(expected.shape, dtype=expected.dtype))
    if not isinstance(out, type):
        assert _same(out, expected), (case, out)
    return True


@pytest.mark.parametrize("name", _BINARY)
def test_two_operands_of_all_dtypes(name: str) -> None:
    n = 0
    for a, b in itertools.product(_DTYPES, repeat=2):
        for places in _PLACES[2]:
            operands = [
                _operand(d, i, has_dims=p)
                for i, (d, p) in enumerate(zip((a, b), places, strict=True))
            ]
            n += _check(name, _BINARY[name], operands)
    assert n >= len(_PLACES[2])


@pytest.mark.check
@pytest.mark.parametrize("name", _TERNARY)
def test_three_operands_of_all_dtypes(name: str) -> None:
    n = 0
    for dtypes in itertools.product(_DTYPES, repeat=3):
        for places in _PLACES[3]:
            operands = [
                _operand(d, i, has_dims=p)
                for i, (d, p) in enumerate(zip(dtypes, places, strict=True))
            ]
            n += _check(name, _TERNARY[name], operands)
    assert n >= len(_PLACES[3])
