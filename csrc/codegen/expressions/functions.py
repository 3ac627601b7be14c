"""Functions of the derivative language on numbers, lists and dtypes, which call no operator."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from codegen.expressions.conversions import as_type
from codegen.expressions.values import BOOL, DTYPE, FLOAT, INT, INTS, SCALAR, STR, Value

if TYPE_CHECKING:
    from codegen.expressions.lowering import Lowering


def helper_includes(text: str) -> str:
    """``#include`` lines for what only some expressions call, where *text* calls it."""
    return "".join(f'#include "{header}"\n' for header, name in _HELPERS if re.search(name, text))


def call_function(lowering: Lowering, name: str, arguments: list[Value]) -> Value | None:
    """The value of a call, or None when *name* is no function that takes these types."""
    function = _FUNCTIONS.get(name)
    return function(lowering, arguments) if function else None


def _are(arguments: list[Value], *kinds: object) -> bool:
    return [argument.type for argument in arguments] == list(kinds)


def _dtype(arguments: list[Value]) -> str:
    """The C of the dtype that a function of one tensor or dtype is about; empty otherwise."""
    if len(arguments) == 1 and arguments[0].type.base == "ScalarType":
        return arguments[0].code
    if len(arguments) == 1 and arguments[0].type.is_tensor:
        return f"{arguments[0].code}->dtype"
    return ""


def _is_floating_point(_: Lowering, arguments: list[Value]) -> Value | None:
    dtype = _dtype(arguments)
    return Value(f"shmt__is_floating({dtype})", BOOL) if dtype else None


def _is_complex(_: Lowering, arguments: list[Value]) -> Value | None:
    if _are(arguments, SCALAR):
        return Value(f"({arguments[0].code}.tag == SHMT_SCALAR_COMPLEX)", BOOL)
    dtype = _dtype(arguments)
    return Value(f"shmt__is_complex({dtype})", BOOL) if dtype else None


def _is_bool(_: Lowering, arguments: list[Value]) -> Value | None:
    if not _are(arguments, SCALAR):
        return None
    return Value(f"({arguments[0].code}.tag == SHMT_SCALAR_BOOL)", BOOL)


def _real_dtype(_: Lowering, arguments: list[Value]) -> Value | None:
    dtype = _dtype(arguments)
    return Value(f"shmt__to_real_dtype({dtype})", DTYPE) if dtype else None


def _float(lowering: Lowering, arguments: list[Value]) -> Value | None:
    if len(arguments) != 1 or arguments[0].type.base not in ("Scalar", "int", "float"):
        return None
    return Value(f"(double){as_type(lowering, arguments[0], FLOAT)}", FLOAT)


def _ctype(_: Lowering, arguments: list[Value]) -> Value | None:
    dtype = _dtype(arguments)
    return Value(f"shmt__dtype_ctype({dtype})", STR) if dtype else None


def _is_meta(_: Lowering, arguments: list[Value]) -> Value | None:
    if len(arguments) == 1 and arguments[0].type.is_tensor:
        return Value(f"shmt__tensor_is_meta({arguments[0].code})", BOOL)
    return None


def _least_or_most(sign: str) -> Callable[[Lowering, list[Value]], Value | None]:
    def function(_: Lowering, arguments: list[Value]) -> Value | None:
        if not _are(arguments, INT, INT):
            return None
        a, b = arguments[0].code, arguments[1].code
        small = arguments[0].small and arguments[1].small
        positive = arguments[0].positive and arguments[1].positive
        return Value(f"({a} {sign} {b} ? {a} : {b})", INT, small=small, positive=positive)

    return function


def _absolute(_: Lowering, arguments: list[Value]) -> Value | None:
    return Value(f"__builtin_fabs({arguments[0].code})", FLOAT) if _are(arguments, FLOAT) else None


def _root(_: Lowering, arguments: list[Value]) -> Value | None:
    if _are(arguments, FLOAT) or _are(arguments, INT):
        return Value(f"__builtin_sqrt({arguments[0].code})", FLOAT)
    return None


def _product(lowering: Lowering, arguments: list[Value]) -> Value | None:
    if not _are(arguments, INTS):
        return None
    name = lowering.local("n")
    lowering.emit(f"int64_t {name} = 0;")
    lowering.emit(f"SHMT_TRY(shmt__ints_product({arguments[0].code}, &{name}));")
    return Value(name, INT, local=name)


def _wrap(lowering: Lowering, arguments: list[Value]) -> Value | None:
    if not _are(arguments, INT, INT):
        return None
    name = lowering.local("n")
    lowering.emit(f"int64_t {name} = 0;")
    codes = f"{arguments[0].code}, {arguments[1].code}"
    lowering.emit(f"SHMT_TRY(shmt__wrap_dim({codes}, &{name}));")
    return Value(name, INT, local=name, small=True, positive=True)


_HELPERS = (
    ("base/dtype.h", r"\bshmt__(is_complex|is_floating|to_real_dtype)\("),
    ("ops/check.h", r"\bSHMT_REFUSE_DTYPE\("),
    ("ops/list_expression.h", r"\bshmt__(shape|ints_part|ints_product)"),
)

_FUNCTIONS: dict[str, Callable[[Lowering, list[Value]], Value | None]] = {
    "abs": _absolute,
    "ctype": _ctype,
    "float": _float,
    "is_bool": _is_bool,
    "is_complex": _is_complex,
    "is_floating_point": _is_floating_point,
    "is_meta": _is_meta,
    "max": _least_or_most(">"),
    "min": _least_or_most("<"),
    "prod": _product,
    "real_dtype": _real_dtype,
    "sqrt": _root,
    "wrap": _wrap,
}
