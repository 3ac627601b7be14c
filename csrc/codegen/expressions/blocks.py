"""Blocks of the derivative language: statements before an expression.

Names are bound to values, requirements are checked, a condition may end the block early, and the
last expression is the value of the block. ``csrc/spec/README.md`` has the grammar.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from textwrap import dedent

from codegen.expressions.conversions import as_type
from codegen.expressions.lowering import Lowering
from codegen.expressions.values import (
    BOOL,
    DEVICE,
    DTYPE,
    FLOAT,
    INT,
    INTS,
    SCALAR,
    STR,
    TUPLE,
    Value,
    unwrapped,
)
from codegen.spec.c_types import c_string, c_type

#: Emits what ends a block with a value.
Give = Callable[[Lowering, Value], None]

_ERRORS = {
    "RuntimeError": "RUNTIME",
    "ValueError": "VALUE",
    "TypeError": "TYPE",
    "IndexError": "INDEX",
    "NotImplementedError": "NOT_IMPLEMENTED",
}
_NAMED = (BOOL, INT, FLOAT, SCALAR, DTYPE, DEVICE)  # what a C constant is declared for


def parse_block(lowering: Lowering, text: str) -> tuple[list[ast.stmt], ast.expr]:
    """Parse a block: its statements, and the expression that is its value."""
    try:
        body = ast.parse(dedent(text)).body
    except SyntaxError as error:
        raise lowering.fail(f"'{text}': {error.msg}") from None
    if not body or not isinstance(body[-1], ast.Expr):
        raise lowering.fail(f"'{text}' does not end in an expression")
    return body[:-1], body[-1].value


def run_block(lowering: Lowering, statements: list[ast.stmt], give: Give | None = None) -> None:
    """Emit the statements of a block; later expressions see the names they bind.

    Args:
        lowering: Where to.
        statements: What.
        give: Emits the value of ``return`` and the end of the function; None: no ``return`` here.
    """
    for statement in statements:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            _bind(lowering, statement.targets[0], lowering.lower(statement.value), statement)
        elif isinstance(statement, ast.If):
            _branch(lowering, statement, give)
        elif isinstance(statement, ast.Return) and give:
            if lowering.parent is None or statement is not statements[-1]:
                raise lowering.fail(f"'{ast.unparse(statement)}': what follows it never runs")
            give_value(lowering, statement.value or ast.Tuple([]), give)
        elif isinstance(statement, ast.Expr) and _called(statement.value) == "require":
            _require(lowering, statement.value)
        elif isinstance(statement, ast.Expr) and _called(statement.value) == "refuse_dtype":
            _refuse_dtype(lowering, statement.value)
        elif isinstance(statement, ast.Expr) and _is_command(lowering, statement.value):
            continue
        else:
            raise lowering.fail(f"'{ast.unparse(statement)}' is no statement of this language")


def give_value(lowering: Lowering, node: ast.expr, give: Give) -> None:
    """Emit the value of a block with *give*; ``a if condition else b`` gives either by itself."""
    if isinstance(node, ast.IfExp) and not isinstance(node.body, ast.IfExp):
        test = lowering.condition(node.test)
        holds, fails = lowering.branches(node.test)
        give_value(holds, node.body, give)
        _emit_if(lowering, test, holds)
        lowering.bound.update(fails.bound)
        give_value(lowering, node.orelse, give)
        return
    give(lowering, lowering.lower(node))


def _is_command(lowering: Lowering, node: ast.expr) -> bool:
    """Emit *node*; is it a call without results?"""
    value = lowering.lower(node) if isinstance(node, ast.Call) else None
    return value is not None and value.type == TUPLE and not value.items


def _branch(lowering: Lowering, statement: ast.If, give: Give | None) -> None:
    """``if condition: statements``, with ``elif`` and ``else``; names bound inside stay inside."""
    test = lowering.condition(statement.test)
    holds, fails = lowering.branches(statement.test)
    run_block(holds, statement.body, give)
    run_block(fails, statement.orelse, give)
    _emit_if(lowering, test, holds, fails)
    if isinstance(statement.body[-1], ast.Return) and not statement.orelse:
        lowering.bound.update(fails.bound)


def _emit_if(lowering: Lowering, test: str, holds: Lowering, fails: Lowering | None = None) -> None:
    lowering.emit(f"if ({unwrapped(test)}) {{")
    lowering.lines += holds.lines
    if fails is not None and fails.lines:
        lowering.emit("} else {")
        lowering.lines += fails.lines
    lowering.emit("}")


# --- names ---------------------------------------------------------------------------------------


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
        if lowering.parent is not None and _is_outside(lowering, each.id):
            raise lowering.fail(
                f"'{ast.unparse(statement)}': '{each.id}' is bound outside; "
                f"write {each.id} = a if condition else b there"
            )
        # Not owned: what uses the name last is unknown, so nobody may take the reference.
        lowering.bound[each.id] = _shared(_named(lowering, each.id, item))


def _is_outside(lowering: Lowering, name: str) -> bool:
    """Is *name* bound in a block around this one, or an argument of a composite?"""
    scope = lowering.parent
    while scope is not None:
        if name in scope.bound:
            return True
        scope = scope.parent
    return lowering.taken is not None and lowering.load(lowering, name) is not None


def _shared(value: Value) -> Value:
    items = [_shared(item) for item in value.items]
    return replace(value, owned=False, literal=False, items=items)


def _named(lowering: Lowering, name: str, value: Value) -> Value:
    """*value* in a C local that has its name in the block, where names are kept."""
    if lowering.taken is None or value.literal:
        return value
    if value.local in lowering.taken:
        return value  # another name of a local that has one
    if value.local and lowering.declares(value.local):
        local = lowering.fresh(name)
        lowering.rename(value.local, local)
        return value.renamed(value.local, local)
    if value.type in _NAMED and not re.fullmatch(r"\w+", value.code):
        local = lowering.fresh(name)
        lowering.emit(f"const {c_type(value.type).name} {local} = {value.code};")
        return replace(value, code=local)
    return value


# --- requirements --------------------------------------------------------------------------------


def _require(lowering: Lowering, node: ast.expr) -> None:
    """``require(condition, Error, f"text {value}")``: the error when it does not hold."""
    assert isinstance(node, ast.Call)
    error = "RUNTIME"
    arguments = list(node.args)
    named = arguments[1] if len(arguments) == 3 else None
    if isinstance(named, ast.Name):
        error = _ERRORS.get(named.id, "")
        arguments.remove(named)
    if len(arguments) != 2 or node.keywords or not error:
        raise lowering.fail(
            f"'{ast.unparse(node)}': require takes a condition, {' or '.join(_ERRORS)} "
            "(RuntimeError may be left out), and a text"
        )
    test = lowering.condition(arguments[0])
    inner = lowering.inner()
    words, codes = _message(inner, arguments[1])
    if not inner.lines:
        lowering.emit(f"SHMT_REQUIRE({unwrapped(test)}, SHMT_E_{error}, {words}{codes});")
        return
    inner.emit(f"SHMT_FAIL(SHMT_E_{error}, {words}{codes});")
    _emit_if(lowering, f"!({unwrapped(test)})", inner)


def _refuse_dtype(lowering: Lowering, node: ast.expr) -> None:
    """``refuse_dtype(condition, x, "kernel")``: torch has no such kernel for the dtype."""
    assert isinstance(node, ast.Call)
    if len(node.args) != 3 or node.keywords or not isinstance(node.args[2], ast.Constant):
        raise lowering.fail(
            f"'{ast.unparse(node)}': refuse_dtype takes a condition, a tensor or dtype, and a text"
        )
    test = unwrapped(lowering.condition(node.args[0]))
    value = lowering.lower(node.args[1])
    dtype = f"{value.code}->dtype" if value.type.is_tensor else as_type(lowering, value, DTYPE)
    lowering.emit(f"SHMT_REFUSE_DTYPE({test}, {dtype}, {c_string(str(node.args[2].value))});")


def _message(lowering: Lowering, node: ast.expr) -> tuple[str, str]:
    """A text, and the values in its braces, as arguments of printf."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return c_string(node.value.replace("%", "%%")), ""
    if not isinstance(node, ast.JoinedStr):
        raise lowering.fail(f"'{ast.unparse(node)}' is no text")
    words: list[str] = []
    codes = ""
    for part in node.values:
        if isinstance(part, ast.Constant):
            words.append(c_string(str(part.value).replace("%", "%%")))
            continue
        if not isinstance(part, ast.FormattedValue) or part.format_spec or part.conversion != -1:
            raise lowering.fail(f"'{ast.unparse(node)}': braces hold a value and nothing else")
        value = lowering.lower(part.value)
        form, code = _printed(value)
        if not form:
            raise lowering.fail(f"'{ast.unparse(part.value)}': {value.type} cannot be printed")
        words.append(form)
        codes += f", {code}"
    text = " ".join(words).replace('" "', "")
    return text, codes


def _called(node: ast.expr) -> str:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _printed(value: Value) -> tuple[str, str]:
    """The conversion and the argument that print a value in a message."""
    kind = value.type
    if kind.is_tensor:
        return '"%s"', f"SHMT_SHAPE_TEXT({value.code})"
    if kind == INTS:
        return '"%s"', f"shmt__ints_text({value.code}, (char[256]){{0}}, 256)"
    if kind.base == "ScalarType":
        return '"%s"', f"shmt__dtype_title({value.code})"
    if kind == STR:
        return '"%s"', value.code
    if kind == INT:
        cast = "" if value.code.startswith("(int64_t)") else "(int64_t)"
        return '"%" PRId64', f"{cast}{value.code}"
    if kind == FLOAT:
        return '"%g"', value.code
    return "", ""
