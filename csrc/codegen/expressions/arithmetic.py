"""Operators of the derivative language: arithmetic, comparisons, and, or, not.

Those of tensors are calls; those of plain numbers are C. What is calculated with numbers of unknown
kind goes through ``ops/scalar_expression.h``.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from codegen.expressions.calls import call
from codegen.expressions.conversions import as_type
from codegen.expressions.lists import repeat_int
from codegen.expressions.values import BOOL, FLOAT, INT, INTS, NONE, SCALAR, Value, is_number
from codegen.spec.c_types import c_type

if TYPE_CHECKING:
    from codegen.expressions.lowering import Lowering

OPERATORS = {
    ast.Add: ("add", "ADD", "+"),
    ast.Sub: ("sub", "SUB", "-"),
    ast.Mult: ("mul", "MUL", "*"),
    ast.Div: ("div", "DIV", "/"),
    ast.Pow: ("pow", "POW", ""),
}
_COMPARISONS = {
    ast.Eq: ("eq", "=="),
    ast.NotEq: ("ne", "!="),
    ast.Lt: ("lt", "<"),
    ast.LtE: ("le", "<="),
    ast.Gt: ("gt", ">"),
    ast.GtE: ("ge", ">="),
}


def lower_unary(lowering: Lowering, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        return Value(f"(!{lowering.condition(node.operand)})", BOOL)
    value = lowering.lower(node.operand)
    if not isinstance(node.op, ast.USub):
        raise lowering.fail(f"'{ast.unparse(node)}' is not part of the derivative language")
    if is_number(value.type):
        if value.type.base == "float":
            return Value(f"(-{value.code})", FLOAT)
        if value.small or value.positive:
            return Value(f"(-{value.code})", INT, small=value.small)
        return lowering.checked("sub", "0", value.code)
    if value.type.base == "Scalar":
        return Value(f"shmt__scalar_negate({value.code})", SCALAR)
    return call(lowering, "neg", [value], {}, ast.unparse(node))


def lower_and_or(lowering: Lowering, node: ast.BoolOp) -> Value:
    """``and`` and ``or``; what the second part calculates runs only when it is asked."""
    is_and = isinstance(node.op, ast.And)
    word = " && " if is_and else " || "
    test = lowering.condition(node.values[0])
    for part in node.values[1:]:
        inner = lowering.inner()
        other = inner.condition(part)
        if not inner.lines:
            test = f"{test}{word}{other}"
            continue
        name = lowering.local("n")
        lowering.emit(f"bool {name} = {test};")
        lowering.emit(f"if ({'' if is_and else '!'}{name}) {{")
        inner.emit(f"{name} = {other};")
        lowering.lines += inner.lines
        lowering.emit("}")
        test = name
    return Value(f"({test})", BOOL)


def lower_binary(lowering: Lowering, node: ast.BinOp) -> Value:
    left, right = lowering.lower(node.left), lowering.lower(node.right)
    text = ast.unparse(node)
    if isinstance(node.op, ast.Mult) and left.type == INTS:
        return repeat_int(lowering, left, right)
    numbers = [v.type for v in (left, right) if not v.type.is_tensor]
    if isinstance(node.op, ast.FloorDiv | ast.Mod):
        if not all(v.type.base == "int" and is_number(v.type) for v in (left, right)):
            raise lowering.fail(f"'{text}': // and % are for ints")
        word = "div" if isinstance(node.op, ast.FloorDiv) else "mod"
        code = f"shmt__floor_{word}_i64({left.code}, {right.code})"
        positive = left.positive and right.positive
        return Value(code, INT, small=left.small and right.small, positive=positive)
    if type(node.op) not in OPERATORS:
        raise lowering.fail(f"'{text}' is not part of the derivative language")
    if any(not is_number(k) and str(k) != "Scalar" for k in numbers):
        raise lowering.fail(f"'{text}': {left.type} and {right.type} do not go together")
    name, number, sign = OPERATORS[type(node.op)]
    if len(numbers) == 2:
        return _number_binary(lowering, left, right, number, sign)
    if not numbers or left.type.is_tensor:
        return call(lowering, name, [left, right], {}, text)
    return _number_first(lowering, name, left, right, text)


def _number_first(lowering: Lowering, name: str, left: Value, right: Value, text: str) -> Value:
    """number op tensor, by operators that take the tensor first."""
    if name in ("add", "mul"):
        return call(lowering, name, [right, left], {}, text)
    if name == "sub":
        if "rsub" in lowering.model.by_base:
            return call(lowering, "rsub", [right, left], {}, text)
        return call(lowering, "add", [call(lowering, "neg", [right], {}, text), left], {}, text)
    if name == "div":
        inverse = call(lowering, "reciprocal", [right], {}, text)
        if left.literal and left.code in ("1", "1.0"):
            return inverse
        return call(lowering, "mul", [inverse, left], {}, text)
    return call(lowering, "pow", [left, right], {}, text)


def _number_binary(lowering: Lowering, left: Value, right: Value, number: str, sign: str) -> Value:
    if "Scalar" in (left.type.base, right.type.base):
        a, b = as_type(lowering, left, SCALAR), as_type(lowering, right, SCALAR)
        return Value(f"shmt__scalar_calculate(SHMT_SCALAR_OP_{number}, {a}, {b})", SCALAR)
    if number == "POW":
        return Value(f"__builtin_pow({left.code}, {right.code})", FLOAT)
    cast = "(double)" if number == "DIV" else ""
    code = f"({cast}{left.code} {sign} {right.code})"
    if number == "DIV" or "float" in (left.type.base, right.type.base):
        return Value(code, FLOAT)
    small = left.small and right.small and number != "MUL"
    positive = left.positive and right.positive
    if small or (positive and number == "SUB"):
        return Value(code, INT, small=small, positive=positive and number == "ADD")
    value = lowering.checked(number.lower(), left.code, right.code)
    return replace(value, positive=positive and number != "SUB")


def lower_compare(lowering: Lowering, node: ast.Compare) -> Value:
    if len(node.ops) != 1:
        raise lowering.fail(f"'{ast.unparse(node)}': one comparison at a time")
    if isinstance(node.ops[0], ast.In | ast.NotIn):
        return _is_one_of(lowering, node)
    left, right = lowering.lower(node.left), lowering.lower(node.comparators[0])
    op = node.ops[0]
    if isinstance(op, ast.Is | ast.IsNot):
        if right.type != NONE:
            raise lowering.fail(f"'{ast.unparse(node)}': 'is' is for None")
        return Value(_is_none(left, isinstance(op, ast.IsNot)), BOOL)
    if type(op) not in _COMPARISONS:
        raise lowering.fail(f"'{ast.unparse(node)}' is not part of the derivative language")
    name, sign = _COMPARISONS[type(op)]
    if left.type.is_tensor:
        return call(lowering, name, [left, right], {}, ast.unparse(node))
    if left.type == INTS and right.type == INTS and sign in ("==", "!="):
        equal = f"shmt__same_ints({left.code}, {right.code})"
        return Value(equal if sign == "==" else f"(!{equal})", BOOL)
    if left.type.base == "str" and right.type.base == "str":
        equal = f"shmt__text_is({left.code}, {right.code})"
        if sign not in ("==", "!="):
            raise lowering.fail(f"'{ast.unparse(node)}': texts are only equal or not")
        return Value(equal if sign == "==" else f"(!{equal})", BOOL)
    if is_number(left.type) and is_number(right.type):
        return Value(f"({left.code} {sign} {right.code})", BOOL)
    if "Scalar" in (left.type.base, right.type.base):
        a, b = as_type(lowering, left, SCALAR), as_type(lowering, right, SCALAR)
        order = f"shmt__scalar_compare({a}, {b})"
        tests = {"<": f"{order} == -1", "<=": f"{order} <= 0", ">": f"{order} == 1"}
        tests |= {"==": f"{order} == 0", "!=": f"{order} != 0"}
        tests[">="] = f"(unsigned){order} <= 1"
        return Value(f"({tests[sign]})", BOOL)
    if left.type.base == right.type.base and c_type(left.type).letter == "e":
        return Value(f"({left.code} {sign} {right.code})", BOOL)
    raise lowering.fail(f"'{ast.unparse(node)}': {left.type} and {right.type} do not compare")


def _is_one_of(lowering: Lowering, node: ast.Compare) -> Value:
    """``x in (a, b)``."""
    choices = node.comparators[0]
    if not isinstance(choices, ast.Tuple):
        raise lowering.fail(f"'{ast.unparse(node)}': 'in' takes (a, b, ...)")
    tests = [
        lowering.condition(ast.Compare(node.left, [ast.Eq()], [choice])) for choice in choices.elts
    ]
    test = f"({' || '.join(tests)})"
    return Value(test if isinstance(node.ops[0], ast.In) else f"(!{test})", BOOL)


def _is_none(value: Value, negate: bool) -> str:
    if value.type == NONE:
        return "false" if negate else "true"
    test = c_type(value.type).is_none
    if not test:
        return "true" if negate else "false"
    text = test % value.code
    if not negate:
        return f"({text})"
    return text[1:] if test.startswith("!") else f"(!({text}))"
