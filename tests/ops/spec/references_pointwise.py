"""References of operators on one element at a time: arithmetic, comparison, bits, selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

Reference = Callable[..., Any]


def _is_inexact(a: Any) -> bool:
    return np.asarray(a).dtype.kind in "fc"


def _real_floating(a: Any) -> np.ndarray:
    array = np.asarray(a)
    return array if _is_inexact(array) else array.astype(np.float64)


def _scaled(other: Any, alpha: Any) -> Any:
    if alpha == 1 or np.asarray(other).dtype == np.bool_:  # bools are multiplied by bool(alpha)
        return other
    return alpha * other


def _add(a: Any, b: Any, alpha: Any = 1) -> Any:
    return np.add(a, _scaled(b, alpha))


def _sub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return np.subtract(a, _scaled(b, alpha))


def _rsub(a: Any, b: Any, alpha: Any = 1) -> Any:
    return np.subtract(b, _scaled(a, alpha))


def _logaddexp(a: Any, b: Any) -> Any:
    a, b = _real_floating(a), _real_floating(b)
    return np.log(np.exp(a) + np.exp(b))


def _logaddexp2(a: Any, b: Any) -> Any:
    return np.log2(np.exp2(a) + np.exp2(b))


def _float_power(a: Any, b: Any) -> Any:
    wide = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(b) else np.float64
    return np.power(np.asarray(a, wide), np.asarray(b, wide))


def _ldexp(a: Any, b: Any) -> Any:
    return a * np.power(2.0, b)


def _atan2(a: Any, b: Any) -> Any:
    return np.arctan2(_real_floating(a), _real_floating(b))


BINARY: dict[str, Reference] = {
    "_mul_conj": lambda a, b: a * np.conj(b),
    "_scale_conj": lambda a, factor: a * np.conj(factor),
    "add": _add,
    "arctan2": _atan2,
    "atan2": _atan2,
    "copysign": lambda a, b: np.copysign(_real_floating(a), b),
    "float_power": _float_power,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "gcd": np.gcd,
    "heaviside": lambda a, b: np.where(a == 0, b, (a > 0) * np.ones_like(a)),
    "hypot": np.hypot,
    "lcm": np.lcm,
    "ldexp": _ldexp,
    "logaddexp": _logaddexp,
    "logaddexp2": _logaddexp2,
    "max.other": np.maximum,
    "maximum": np.maximum,
    "min.other": np.minimum,
    "minimum": np.minimum,
    "mul": np.multiply,
    "multiply": np.multiply,
    "nextafter": np.nextafter,
    "pow": np.power,
    "rsub": _rsub,
    "sub": _sub,
    "subtract": _sub,
    "xlogy": special.xlogy,
    "special_xlogy": special.xlogy,
    "special_xlog1py": special.xlog1py,
}


def _div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return np.floor_divide(a, b)
    if rounding_mode is None:
        return np.true_divide(a, b)
    quotient = np.trunc(np.true_divide(a, b))
    return quotient if _is_inexact(a) or _is_inexact(b) else quotient.astype(np.int64)


DIVISION: dict[str, Reference] = {
    "_div_conj": lambda a, b: a / np.conj(b),
    "_div_trunc": lambda a, b: _div(a, b, "trunc"),
    "div": _div,
    "divide": _div,
    "true_divide": np.true_divide,
    "floor_divide": np.floor_divide,
    "fmod": np.fmod,
    "remainder": np.remainder,
}

COMPARE: dict[str, Reference] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "not_equal": np.not_equal,
    "ge": np.greater_equal,
    "greater_equal": np.greater_equal,
    "gt": np.greater,
    "greater": np.greater,
    "le": np.less_equal,
    "less_equal": np.less_equal,
    "lt": np.less,
    "less": np.less,
    "isclose": np.isclose,
    "allclose": np.allclose,
    "equal": np.array_equal,
    "_eq_as": lambda a, b: (a == b).astype(a.dtype),
}


def _left_shift(a: Any, b: Any) -> Any:
    if _is_inexact(a) or _is_inexact(b):
        return a * np.power(2.0, b)
    return np.left_shift(a, b)


def _right_shift(a: Any, b: Any) -> Any:
    if _is_inexact(a) or _is_inexact(b):
        return a / np.power(2.0, b)
    return np.right_shift(a, b)


LOGICAL: dict[str, Reference] = {
    "__and__": np.bitwise_and,
    "__or__": np.bitwise_or,
    "__xor__": np.bitwise_xor,
    "__lshift__": _left_shift,
    "__rshift__": _right_shift,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_left_shift": _left_shift,
    "bitwise_right_shift": _right_shift,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def _rounding(function: Reference) -> Reference:
    return lambda a: function(a) if _is_inexact(a) else a


def _round(a: Any, decimals: int = 0) -> Any:
    return np.round(a, decimals) if _is_inexact(a) else a


def _sgn(a: Any) -> Any:
    if not np.iscomplexobj(a):
        return np.sign(a) if a.dtype != np.bool_ else a
    return np.divide(a, np.abs(a), out=np.zeros_like(a), where=a != 0)


def _frexp(a: Any) -> Any:
    mantissa, exponent = np.frexp(a)
    return mantissa, exponent.astype(np.int32)


def _nan_to_num(a: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Any:
    return np.nan_to_num(a, nan=0.0 if nan is None else nan, posinf=posinf, neginf=neginf)


UNARY: dict[str, Reference] = {
    "_conj_complex": np.conj,
    "_conj": np.conj,
    "_neg_view": np.negative,
    "abs": np.abs,
    "absolute": np.abs,
    "angle": np.angle,
    "bitwise_not": np.invert,
    "ceil": _rounding(np.ceil),
    "conj": np.conj,
    "conj_physical": np.conj,
    "fix": _rounding(np.trunc),
    "floor": _rounding(np.floor),
    "frac": lambda a: a - np.trunc(a),
    "frexp": _frexp,
    "imag": np.imag,
    "real": np.real,
    "is_complex": np.iscomplexobj,
    "is_conj": lambda a: False,
    "is_neg": lambda a: False,
    "is_floating_point": lambda a: a.dtype.kind == "f",
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "isneginf": np.isneginf,
    "isposinf": np.isposinf,
    "isreal": np.isreal,
    "logical_not": np.logical_not,
    "nan_to_num": _nan_to_num,
    "neg": np.negative,
    "negative": np.negative,
    "positive": np.positive,
    "reciprocal": lambda a: 1.0 / a,
    "resolve_conj": lambda a: a,
    "resolve_neg": lambda a: a,
    "round": _round,
    "special_round": _round,
    "sgn": _sgn,
    "sign": _sgn,
    "signbit": lambda a: np.signbit(a) if _is_inexact(a) else a < 0,
    "square": lambda a: a * a,
    "trunc": _rounding(np.trunc),
    "_imaginary": lambda a: 1j * a.imag if np.iscomplexobj(a) else a.imag,
    "_zero_reciprocal": lambda a: np.where(a == 0, 0, 1 / np.where(a == 0, 1, a)),
    "_wrapped_scalar": lambda value: value,
}


def _clamp(a: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None:
        a = np.maximum(a, low)
    return a if high is None else np.minimum(a, high)


def _lerp(a: Any, b: Any, weight: Any) -> Any:
    return a + weight * (b - a)


def _where(condition: Any, *values: Any) -> Any:
    return np.where(condition, *values)


def _masked_fill(a: Any, mask: Any, value: Any) -> Any:
    return np.where(mask, value, a).astype(a.dtype)


TERNARY: dict[str, Reference] = {
    "addcdiv": lambda a, b, c, value=1: a + value * (b / c),
    "addcmul": lambda a, b, c, value=1: a + value * (b * c),
    "clamp": _clamp,
    "clip": _clamp,
    "clamp_max": lambda a, high: np.minimum(a, high),
    "clamp_min": lambda a, low: np.maximum(a, low),
    "lerp": _lerp,
    "masked_fill": _masked_fill,
    "where": _where,
}

REFERENCES = {**BINARY, **DIVISION, **COMPARE, **LOGICAL, **UNARY, **TERNARY}
