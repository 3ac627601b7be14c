"""Calls of the derivative language: operators by the overload that fits, and facts of shapes."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from codegen.expressions.conversions import as_type
from codegen.expressions.functions import call_function
from codegen.expressions.lists import lower_range
from codegen.expressions.reuse import overwrite
from codegen.expressions.values import (
    BOOL,
    DEVICE,
    DTYPE,
    INT,
    INTS,
    TENSOR,
    TENSORS,
    TUPLE,
    Value,
    bind,
)
from codegen.spec.c_types import c_type, default_expression
from codegen.spec.model import Operator
from codegen.spec.schema import Type

if TYPE_CHECKING:
    from codegen.expressions.lowering import Lowering

SHAPE_FUNCTIONS = ("sizes", "strides", "dim", "numel", "dtype", "device", "size")


def lower_call(lowering: Lowering, node: ast.Call) -> Value:
    if not isinstance(node.func, ast.Name):
        raise lowering.fail(f"'{ast.unparse(node)}': calls are name(...), not methods")
    name = node.func.id
    if any(k.arg is None for k in node.keywords):
        raise lowering.fail(f"'{ast.unparse(node)}': ** is not part of the derivative language")
    if name in ("needs", "given", *SHAPE_FUNCTIONS, "len") and name not in lowering.model.by_base:
        return _builtin(lowering, name, node)
    if name in SHAPE_FUNCTIONS and len(node.args) == 1:
        return _builtin(lowering, name, node)
    if name == "range":
        return lower_range(lowering, node)
    arguments = [lowering.lower(a) for a in node.args]
    found = None if node.keywords else call_function(lowering, name, arguments)
    if found is not None:
        return found
    keywords = {k.arg: lowering.lower(k.value) for k in node.keywords if k.arg}
    return call(lowering, name, arguments, keywords, ast.unparse(node))


def _builtin(lowering: Lowering, name: str, node: ast.Call) -> Value:
    text = ast.unparse(node)
    expected = 2 if name == "size" else 1
    if len(node.args) != expected or node.keywords:
        raise lowering.fail(f"'{text}': {name} takes {expected} argument(s)")
    if name in ("needs", "given"):
        target = node.args[0]
        is_right = isinstance(target, ast.Name) and _is_incoming(target.id) == (name == "given")
        test = lowering.needs(target.id) if is_right else None
        if test is None:
            what = "a gradient" if name == "given" else "an argument that has a derivative"
            raise lowering.fail(f"'{text}': {name} takes {what}")
        return Value(test, BOOL)
    if name == "len":
        value = lowering.lower(node.args[0])
        if not value.type.is_list:
            raise lowering.fail(f"'{text}': {value.type} has no length")
        return Value(f"{value.code}.len", INT, small=True, positive=True)
    value_or_none = None
    if isinstance(node.args[0], ast.Name):
        asked = "sizes" if name == "size" else name
        value_or_none = lowering.shape(asked, node.args[0].id)
    if value_or_none is None:
        tensor = lowering.lower(node.args[0])
        if not tensor.type.is_tensor:
            raise lowering.fail(f"'{text}': {tensor.type} is no Tensor")
        value_or_none = shape_of("sizes" if name == "size" else name, tensor.code)
    if name != "size":
        return replace(value_or_none, small=name == "dim", positive=name in ("dim", "numel"))
    at = as_type(lowering, lowering.lower(node.args[1]), INT)
    local = lowering.local("n")
    lowering.emit(f"int64_t {local} = 0;")
    lowering.emit(f"SHMT_TRY(shmt__ints_at({value_or_none.code}, {at}, &{local}));")
    return Value(local, INT, local=local, positive=True)


def shape_of(function: str, tensor: str) -> Value:
    """``sizes(t)`` and its like of a tensor at hand."""
    return {
        "sizes": Value(f"shmt__tensor_sizes({tensor})", INTS),
        "strides": Value(f"shmt__tensor_strides({tensor})", INTS),
        "dim": Value(f"(int64_t){tensor}->n_dims", INT),
        "numel": Value(f"{tensor}->numel", INT),
        "dtype": Value(f"(shmt_dtype){tensor}->dtype", DTYPE),
        "device": Value(f"(shmt_device){tensor}->device", DEVICE),
    }[function]


def _is_incoming(name: str) -> bool:
    return name == "grad" or (name.startswith("grad") and name[4:].isdigit())


def resolve(
    lowering: Lowering, name: str, arguments: list[Value], keywords: dict[str, Value], text: str
) -> tuple[Operator, list[Value | None]]:
    """The overload of *name* that fits best, and its arguments (None: the default)."""
    form = "inplace" if name.endswith("_") else "functional"
    candidates = [op for op in lowering.model.by_base.get(name, []) if op.form == form]
    if not candidates:
        raise lowering.fail(f"'{text}': no operator '{name}'")
    best: tuple[int, Operator, list[Value | None]] | None = None
    for op in candidates:
        bound = bind(op, arguments, keywords)
        if bound is not None and (best is None or bound[0] < best[0]):
            best = (bound[0], op, bound[1])
    if best is None:
        got = ", ".join(
            [str(v.type) for v in arguments] + [f"{k}={v.type}" for k, v in keywords.items()]
        )
        known = "; ".join(str(op.schema) for op in candidates)
        raise lowering.fail(f"'{text}': {name}({got}) fits none of: {known}")
    return best[1], best[2]


def arguments_of(lowering: Lowering, op: Operator, bound: list[Value | None]) -> list[str]:
    """C arguments of a resolved call."""
    codes = []
    for argument, value in zip(op.schema.arguments, bound, strict=True):
        if value is None:
            default = default_expression(argument)
            assert default is not None
            codes.append(default)
        else:
            codes.append(as_type(lowering, value, argument.type))
    return codes


def call(
    lowering: Lowering, name: str, arguments: list[Value], keywords: dict[str, Value], text: str
) -> Value:
    """Emit a call of the operator *name*; the value owns its results."""
    op, bound = resolve(lowering, name, arguments, keywords, text)
    codes = arguments_of(lowering, op, bound)
    results = []
    for result in (op.schema.returns[i] for i in op.schema.new_returns):
        if result.type.is_tensor:
            local = lowering.temporary()
            results.append(Value(local, TENSOR, owned=True, local=local))
        elif result.type.is_tensor_list:
            local = lowering.local("list")
            lowering.emit(f"SHMT_AUTO_LIST {local} = {{0, 0}};")
            code = f"((shmt_tensors){{{local}.data, {local}.len}})"
            results.append(Value(code, TENSORS, local=local))
            codes.append(f"&{local}")
            continue
        else:
            local = lowering.local("n")
            lowering.emit(f"{c_type(result.type).name} {local};")
            results.append(Value(local, Type(result.type.base), local=local))
        codes.append(f"&{local}")
    single = results[0] if len(results) == 1 else None
    lines: list[str] = []
    if single is not None and single.owned:
        lines = overwrite(lowering.model, op, bound, codes[:-1], single.code)
    is_near = op.entry.composite_expression is None or op.entry.section == lowering.section
    caller = (op.direct if lowering.section and is_near else "") or op.caller
    for line in lines or [f"SHMT_TRY({caller}({', '.join(codes)}));"]:
        lowering.emit(line)
    if single is not None:
        return single
    return Value("", TUPLE, items=results)
