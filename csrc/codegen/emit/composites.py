"""Kernels of composite operators that are written as expressions."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace

from codegen.expressions.arithmetic import OPERATORS
from codegen.expressions.blocks import give_value, parse_block, run_block
from codegen.expressions.calls import arguments_of, resolve
from codegen.expressions.conversions import as_type
from codegen.expressions.lowering import Lowering
from codegen.expressions.values import NONE, TENSOR, TUPLE, Value
from codegen.spec.c_types import c_name, result_names
from codegen.spec.loader import Text
from codegen.spec.model import Model, Operator


def _argument_loader(op: Operator) -> Callable[[Lowering, str], Value | None]:
    def load(_: Lowering, name: str) -> Value | None:
        argument = op.schema.argument(name)
        if argument is None or argument.is_out:
            return None
        return Value(c_name(argument), argument.type)

    return load


def lower_composite(model: Model, op: Operator, expression: Text, form: str = "functional") -> str:
    """The C body of a composite expression.

    For the in-place or out= form this succeeds only when the outermost call has that form itself
    (in place: with our own first argument first); otherwise the result is empty.
    """
    lowering = Lowering(model, expression.where, _argument_loader(op))
    statements, node = parse_block(lowering, expression)
    if form != "functional":
        return "" if statements else _lower_form(lowering, node, op, form)
    arguments = [c_name(argument) for argument in op.schema.arguments if not argument.is_out]
    lowering.taken = {*arguments, *result_names(op.schema)}
    lowering.section = op.entry.section

    def give(inner: Lowering, value: Value) -> None:
        _return(inner, op, value)

    run_block(lowering, statements, give)
    give_value(lowering, node, give)
    body = lowering.text()
    unused = [name for name in arguments if not re.search(rf"\b{name}\b", body)]
    return "".join(f"  (void){name};\n" for name in unused) + body


def _return(lowering: Lowering, op: Operator, value: Value) -> None:
    """Emit that the kernel gives *value*, and ends."""
    names = result_names(op.schema)
    items = value.items if value.type == TUPLE else [value]
    if len(items) != len(names):
        raise lowering.fail(f"the expression gives {len(items)} values, not {len(names)}")
    call = lowering.take_last_call(items, names)
    if call:
        lowering.emit(f"return {call};")
        return
    given = [item.local for item in items]
    for name, item, index in zip(names, items, op.schema.new_returns, strict=True):
        kind = op.schema.returns[index].type
        is_last = bool(item.local) and given.count(item.local) == 1
        if kind.is_tensor:
            is_left_out = item.type.optional or item.type == NONE
            if is_left_out and (len(names) == 1 or op.entry.variants):
                raise lowering.fail(
                    f"'{item.code}' may be None, and {op.schema.full_name} gives a Tensor"
                )
            if not item.type.is_tensor and item.type != NONE:
                item = Value(as_type(lowering, item, TENSOR), TENSOR, owned=True)
            lowering.give(replace(item, owned=item.owned or is_last), f"*{name}")
        elif kind.is_tensor_list and is_last:
            lowering.emit(f"*{name} = {item.local};")
            lowering.emit(f"{item.local} = (shmt_tensor_vec){{0, 0}};")
        elif kind.is_tensor_list:
            lowering.emit(f"SHMT_TRY(shmt__tensor_vec_copy({item.code}, {name}));")
        else:
            lowering.emit(f"*{name} = {as_type(lowering, item, kind)};")
    lowering.emit("return SHMT_OK;")


_BINARY_NAMES = {kind: names[0] for kind, names in OPERATORS.items()}


def _lower_form(lowering: Lowering, node: ast.expr, op: Operator, form: str) -> str:
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY_NAMES:
        name = _BINARY_NAMES[type(node.op)]
        parts, named = [node.left, node.right], []
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name, parts, named = node.func.id, node.args, node.keywords
    else:
        return ""
    if not parts:
        return ""
    first = op.schema.arguments[0].name
    is_self = isinstance(parts[0], ast.Name) and parts[0].id == first
    if form == "inplace" and not is_self:
        return ""
    if isinstance(node, ast.BinOp) and not is_self:
        return ""
    arguments = [lowering.lower(part) for part in parts]
    keywords = {k.arg: lowering.lower(k.value) for k in named if k.arg}
    target, bound = resolve(lowering, name, arguments, keywords, ast.unparse(node))
    twin = next((o for o in target.entry.operators if o.form == form), None)
    if twin is None or not twin.derived:
        return ""
    codes = arguments_of(lowering, target, bound)
    if form == "out":
        codes += [c_name(a) for a in op.schema.arguments if a.is_out]
    lowering.emit(f"return {twin.caller}({', '.join(codes)});")
    return lowering.text()
