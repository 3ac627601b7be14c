"""Memory of temporaries: an element-wise operator on a tensor nobody else has is done in place.

``grad * (2 * (self - target))`` so takes one tensor and not three. Whether the tensor is nobody
else's, and has the result's shape and dtype, is found at run time (``ops/scalar_expression.h``).
"""

from __future__ import annotations

from codegen.expressions.values import TENSOR, Value
from codegen.spec.model import Model, Operator

_ARITHMETIC = ("add", "sub", "mul", "div", "pow")
_COMMUTATIVE = ("add.Tensor", "mul.Tensor")
_OTHER_RESULTS = ("unary_real", "unary_angle")


def _twin(model: Model, op: Operator) -> Operator | None:
    """The in-place form of an operator whose result has its first argument's shape and dtype."""
    schema, kernel = op.schema, op.entry.kernel
    if kernel is None and schema.name not in _ARITHMETIC:
        return None
    if kernel in _OTHER_RESULTS or op.entry.promote == "compare" or op.entry.result:
        return None
    derived = next((o for o in op.entry.operators if o.form == "inplace"), None)
    own = model.by_name.get(f"{schema.name}_.{schema.overload}" if schema.overload else "")
    return derived or own


def _is_temporary(value: Value | None) -> bool:
    return value is not None and value.owned and value.type == TENSOR


def overwrite(
    model: Model, op: Operator, bound: list[Value | None], codes: list[str], target: str
) -> list[str]:
    """Statements for *target* = op(*codes*), in the memory of a temporary among its arguments.

    Empty where no argument is one.
    """
    twin = _twin(model, op)
    if twin is None:
        return []
    at = 0
    test = "shmt__can_reuse"
    if not _is_temporary(bound[0]) and op.schema.full_name in _COMMUTATIVE:
        at, test = 1, "shmt__can_reuse_second"
    if not _is_temporary(bound[at]):
        return []
    arguments = list(zip(op.schema.arguments, bound, codes, strict=True))
    others = [code for i, (a, _, code) in enumerate(arguments) if a.type.is_tensor and i != at]
    if len(others) > 1:
        return []
    tests = [f"{test}({codes[at]}, {others[0] if others else '0'})"]
    for argument, value, code in arguments:
        if argument.type.base == "Scalar" and value is not None and value.type.base == "Scalar":
            tests.append(f"({code}).tag != SHMT_SCALAR_COMPLEX")
    inplace = codes if at == 0 else [codes[1], codes[0], *codes[2:]]
    return [
        f"SHMT_TRY({' && '.join(tests)} ? {twin.caller}({', '.join(inplace)}) : "
        f"{op.caller}({', '.join([*codes, f'&{target}'])}));",
        f"shmt__finish_reuse(&{codes[at]}, &{target});",
    ]
