"""Values as C of another type, and the type that two values have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codegen.expressions.values import (
    FLOAT,
    INT,
    MAYBE_TENSOR,
    NONE,
    NUMBERS,
    SCALAR,
    Value,
    cost,
    is_number,
)
from codegen.spec.c_types import c_type
from codegen.spec.schema import Type

if TYPE_CHECKING:
    from codegen.expressions.lowering import Lowering


def as_type(lowering: Lowering, value: Value, kind: Type) -> str:
    """*value* as C of type *kind*; emits a tensor for a number where one is wanted."""
    code, have = value.code, value.type
    if cost(have, kind) is None:
        raise lowering.fail(f"a {have} cannot be a {kind}")
    if have == NONE:
        return c_type(Type(kind.base, optional=True, is_list=kind.is_list)).none or "0"
    if kind.base == "Tensor" and not kind.is_list and not have.is_tensor:
        local = lowering.temporary()
        scalar = as_type(lowering, value, SCALAR)
        lowering.emit(f"SHMT_TRY(shmt__wrapped_scalar_tensor({scalar}, &{local}));")
        return local
    if kind.is_list and not have.is_list:
        one = as_type(lowering, value, Type(kind.base))
        if kind.base == "Tensor":
            return f"((shmt_tensors){{(shmt_tensor* const[]){{{one}}}, 1}})"
        return f"SHMT_INTS({', '.join([one] * max(kind.size, 1))})"
    if kind.is_list or kind.base in ("Tensor", "str") or c_type(kind).letter == "e":
        return code
    if kind.base == "Scalar":
        return _to_scalar(code, have)
    if have.optional and kind.optional and have.base == kind.base:
        return code
    if have.base == "Scalar":
        function = {"float": "double", "int": "int64", "bool": "bool"}[kind.base]
        code = f"shmt__scalar_to_{function}({code})"
    if kind.optional and kind.base in NUMBERS:
        return f"((shmt_opt_{kind.base}){{{code}, true}})"
    return code


def _to_scalar(code: str, have: Type) -> str:
    if have.base == "Scalar":
        return code
    if have.optional:
        inner = f"shmt__scalar_{have.base}({code}.value)"
        return f"({code}.has ? {inner} : shmt__scalar_none())"
    return f"shmt__scalar_{have.base}({code})"


def common_type(lowering: Lowering, a: Type, b: Type, text: str) -> Type:
    """The type of ``a if ... else b``; *text* is the expression, for errors."""
    if NONE in (a, b):
        other = b if a == NONE else a
        if other == NONE:
            return MAYBE_TENSOR
        if other.is_tensor:
            return MAYBE_TENSOR
        return other if other.is_list else Type(other.base, optional=True)
    if a.base == b.base and a.is_list == b.is_list:
        return Type(a.base, optional=a.optional or b.optional, is_list=a.is_list)
    if is_number(a) and is_number(b):
        return FLOAT if "float" in (a.base, b.base) else INT
    if {a.base, b.base} <= {*NUMBERS, "Scalar"} and not (a.is_list or b.is_list):
        return SCALAR
    raise lowering.fail(f"'{text}': {a} and {b} have no common type")
