"""Blocks of the derivative language: statements before an expression.

``name = expression; require(...); expression``: names are bound to values, conditions are checked,
and the last expression is the value of the block.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from codegen.expressions.lowering import Lowering
from codegen.expressions.values import DTYPE, INT, STR, TUPLE, Value
from codegen.spec.c_types import c_string


def parse_block(lowering: Lowering, text: str) -> tuple[list[ast.stmt], ast.expr]:
    """Parse ``name = expression; require(...); expression``: statements, and the value."""
    try:
        body = ast.parse(" ".join(text.split())).body
    except SyntaxError as error:
        raise lowering.fail(f"'{text}': {error.msg}") from None
    if not body or not isinstance(body[-1], ast.Expr):
        raise lowering.fail(f"'{text}' does not end in an expression")
    return body[:-1], body[-1].value


def run_block(lowering: Lowering, statements: list[ast.stmt]) -> None:
    """Emit the statements of a block; later expressions see the names they bind."""
    for statement in statements:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            _bind(lowering, statement.targets[0], lowering.lower(statement.value), statement)
        elif isinstance(statement, ast.Expr) and _called(statement.value) == "require":
            _require(lowering, statement.value)
        elif isinstance(statement, ast.Expr) and _is_command(lowering, statement.value):
            continue
        else:
            raise lowering.fail(f"'{ast.unparse(statement)}' is no statement of this language")


def _is_command(lowering: Lowering, node: ast.expr) -> bool:
    """Emit *node*; is it a call without results?"""
    value = lowering.lower(node) if isinstance(node, ast.Call) else None
    return value is not None and value.type == TUPLE and not value.items


def _bind(lowering: Lowering, target: ast.expr, value: Value, statement: ast.stmt) -> None:
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    items = value.items if value.type == TUPLE else [value]
    if isinstance(target, ast.Name) and value.type == TUPLE:
        items = [value]
    if len(targets) != len(items):
        raise lowering.fail(f"'{ast.unparse(statement)}': {len(items)} values")
    for each, item in zip(targets, items, strict=True):
        if not isinstance(each, ast.Name):
            raise lowering.fail(f"'{ast.unparse(statement)}': only names can be bound")
        # Not owned: what uses the name last is unknown, so nobody may take the reference.
        lowering.bound[each.id] = _shared(item)


def _shared(value: Value) -> Value:
    items = [_shared(item) for item in value.items]
    return replace(value, owned=False, literal=False, items=items)


def _require(lowering: Lowering, node: ast.expr) -> None:
    """``require(condition, "text {}", value, ...)``: a RuntimeError when it does not hold."""
    assert isinstance(node, ast.Call)
    if len(node.args) < 2 or node.keywords:
        raise lowering.fail(f"'{ast.unparse(node)}': require takes a condition, a text and values")
    test, text = lowering.condition(node.args[0]), node.args[1]
    values = [lowering.lower(argument) for argument in node.args[2:]]
    parts = text.value.split("{}") if isinstance(text, ast.Constant) else []
    if len(parts) != len(values) + 1:
        raise lowering.fail(f"'{ast.unparse(node)}': the text needs a {{}} for every value")
    parts = [part.replace("%", "%%") for part in parts]
    words, codes = c_string(parts[0]), ""
    for part, value in zip(parts[1:], values, strict=True):
        form, code = _printed(value)
        if not form:
            raise lowering.fail(f"'{ast.unparse(node)}': {value.type} cannot be printed")
        words += f" {form} {c_string(part)}"
        codes += f", {code}"
    lowering.emit(f"SHMT_REQUIRE({test}, SHMT_E_RUNTIME, {words}{codes});")


def _called(node: ast.expr) -> str:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _printed(value: Value) -> tuple[str, str]:
    """The conversion and the argument that print a value in a message."""
    kind = value.type
    if kind.is_tensor:
        return '"%s"', f"SHMT_SHAPE_TEXT({value.code})"
    if kind == DTYPE:
        return '"%s"', f"shmt__dtype_title({value.code})"
    if kind == STR:
        return '"%s"', value.code
    if kind == INT:
        return '"%" PRId64', f"(int64_t){value.code}"
    return "", ""
