"""Operators: the rows of their tables, key by key, and the files with all that is theirs."""

from __future__ import annotations

from codegen.emit.adapters import signatures
from codegen.emit.callers import caller, emit_ops_header
from codegen.emit.declarations import called, declared
from codegen.emit.emitter import Emitter
from codegen.emit.implementations import (
    WITH_KEYS,
    check_factory_out,
    check_writable,
    decomposition_body,
    emit_impls,
    expression_body,
    kernel_body,
    pointwise_record,
    record_nothing,
)
from codegen.emit.operator_records import emit_operator_list, operator_record, schema_record
from codegen.expressions.functions import helper_includes
from codegen.spec.autograd_kinds import autograd_kind, has_view_kernel
from codegen.spec.c_types import c_name, c_string, call_arguments, parameters
from codegen.spec.errors import SpecError
from codegen.spec.model import Model, Operator, OperatorEntry, file_stem, spec_file
from codegen.spec.schema import Schema
from codegen.spec.tables import Tables

_NOT_DENSE = ("SparseCPU", "SparseCsrCPU", "NoMemory")


def kernel_head(name: str, op: Operator) -> str:
    """A kernel in the unboxed convention."""
    return f"shmt_status {name}({', '.join(['shmt_keyset ks', *parameters(op.schema)])})"


def _ignore(names: list[str]) -> str:
    return "".join(f"  (void){name};\n" for name in names)


def _pointwise(entry: OperatorEntry) -> str:
    name = pointwise_record(entry)
    result = f"SHMT_{entry.result.upper()}" if entry.result else "SHMT_DTYPE_NONE"
    exact = "  .exact_out = true,\n" if "exact_out" in entry.tags else ""
    return (
        f"extern const shmt__pointwise {name};\n"
        f"const shmt__pointwise {name} = {{\n"
        f"  .name = {c_string(entry.schema.name)},\n"
        f"  .row = SHMT_LOOP_{entry.loop},\n"
        f"  .promote = SHMT_PROMOTE_{entry.promote.upper()},\n"
        f"  .result = {result},\n{exact}}};\n"
    )


def _backend_select(op: Operator) -> str:
    device = next((a for a in op.schema.arguments if a.type.base == "Device"), None)
    head = f"static {kernel_head(f'select_{op.ident}', op)}"
    names = ", ".join(["", *call_arguments(op.schema)])
    bit = "SHMT_KEYBIT_CPU"
    if device is not None:
        bit = f"({c_name(device)} == SHMT_META ? SHMT_KEYBIT_Meta : SHMT_KEYBIT_CPU)"
    return (
        f"{head} {{\n"
        "  ks = shmt__keys_below(ks, SHMT_KEY_BackendSelect);\n"
        f"  return {op.caller}_below(ks | {bit}{names});\n}}\n\n"
    )


class Rows:
    """The rows of one operator: key -> kernel, and the C in front of them."""

    def __init__(self) -> None:
        self.code = ""
        self.kernels: dict[str, str] = {}
        self.externs: list[str] = []

    def add(self, keys: tuple[str, ...], function: str) -> None:
        for key in keys:
            self.kernels[key] = function


def _reads_no_elements(op: Operator) -> bool:
    """Whether a kernel leaves reading to other operators, or looks at shapes only."""
    tags = set(op.entry.tags)
    is_like = "factory" in tags and op.has_tensors
    return op.is_made_of_others or is_like or {"inplace_only", "geometry"} <= tags


def build_rows(op: Operator, model: Model) -> Rows:
    """Everything that fills an operator's table."""
    rows = Rows()
    entry = op.entry
    function = f"shmt__pointwise_{entry.kernel}" if entry.kernel else (entry.function or "")
    body = ""
    if entry.composite_expression is not None:
        if not op.derived:
            head = ", ".join(parameters(op.schema))
            plain = f"composite_{op.ident}"
            rows.code += (
                f"static shmt_status {plain}({head}) {{\n{expression_body(op, model)}}}\n\n"
            )
            body = f"  return {plain}({', '.join(call_arguments(op.schema))});\n"
        else:
            body = expression_body(op, model)
    elif function:
        body = record_nothing(op) + kernel_body(
            op, model, function, is_loop=entry.kernel is not None
        )
    if body:
        name = f"kernel_{op.ident}"
        body = check_writable(op) + check_factory_out(op) + body
        rows.code += f"static {kernel_head(name, op)} {{\n  (void)ks;\n{body}}}\n\n"
        rows.add(("CPU", "Meta"), name)
        if entry.composite_expression is not None or "any_layout" in entry.tags:
            rows.add(_NOT_DENSE, name)
        elif _reads_no_elements(op):
            rows.add(("NoMemory",), name)
    _add_dispatch(rows, op, model)
    if op.is_factory and "BackendSelect" not in rows.kernels:
        rows.code += _backend_select(op)
        rows.add(("BackendSelect",), f"select_{op.ident}")
    if has_view_kernel(op) and "ADInplaceOrView" not in rows.kernels:
        name = f"shmt__view_kernel_{op.ident}"
        rows.externs.append(kernel_head(name, op))
        rows.add(("ADInplaceOrView",), name)
    if autograd_kind(op) and "Autograd" not in rows.kernels:
        name = f"shmt__autograd_kernel_{op.ident}"
        rows.externs.append(kernel_head(name, op))
        rows.add(("Autograd",), name)
    return rows


def _unfinished(op: Operator) -> Rows:
    """A kernel that says what is wrong with its entry, so that the rest can still be built."""
    rows = Rows()
    name = f"kernel_{op.ident}"
    message = c_string(f"{op.schema.full_name} is incomplete")
    ignored = _ignore(["ks", *call_arguments(op.schema)])
    rows.code = (
        f"static {kernel_head(name, op)} {{\n{ignored}"
        f"  SHMT_FAIL(SHMT_E_NOT_IMPLEMENTED, {message});\n"
        "}\n\n"
    )
    rows.add(("CPU", "Meta"), name)
    return rows


def _add_dispatch(rows: Rows, op: Operator, model: Model) -> None:
    for key, function in op.entry.dispatch.items():
        if key in WITH_KEYS:
            if not op.derived:
                rows.externs.append(kernel_head(function, op))
                rows.add((key,), str(function))
            continue
        name = f"kernel_{key}_{op.ident}"
        body = check_writable(op) + kernel_body(op, model, function)
        rows.code += f"static {kernel_head(name, op)} {{\n  (void)ks;\n{body}}}\n\n"
        keys = ("CPU", "Meta") if key.startswith(("Composite", "CatchAll")) else (key,)
        if key.startswith("CompositeImplicit"):
            keys += ("NoMemory",)
        rows.add(keys, name)


def _decomposition(op: Operator, model: Model) -> str:
    """The kernel that says how an operator is made of others under vmap."""
    expression = op.entry.batch_expression
    if expression is None:
        return ""
    head = f"static {kernel_head(f'decomposed_{op.ident}', op)}"
    return f"{head} {{\n  (void)ks;\n{decomposition_body(op, model, expression)}}}\n\n"


# --- files --------------------------------------------------------------------------------------


def emit_dispatch(emitter: Emitter, model: Model, tables: Tables) -> None:
    """Write ops.h, impls.h, pointwise.c, ops_<section>.c and operators.c."""
    emit_ops_header(emitter, model)
    emit_impls(emitter, model)
    _emit_pointwise(emitter, model)
    order = [k.name for k in tables.keys]
    known = signatures(model)
    for section in model.sections:
        _emit_section(emitter, model, section, order, known)
    emit_operator_list(emitter, model)


def _emit_pointwise(emitter: Emitter, model: Model) -> None:
    """Write pointwise.c; apart, as each new loop moves the rows of those behind it."""
    emitter.c_file(
        "pointwise.c",
        "the loops of operators that are a single one.",
        "csrc/spec/ops",
        '#include "generated/operator_loops.h"\n#include "ops/pointwise/pointwise.h"\n\n'
        + "\n".join(_pointwise(entry) for entry in model.entries if entry.kernel),
    )


def _emit_section(
    emitter: Emitter, model: Model, section: str, order: list[str], known: dict[str, Schema]
) -> None:
    head = (
        '#include "autograd/forward/follow.h"\n'
        '#include "autograd/vmap/loop.h"\n'
        '#include "autograd/vmap/random.h"\n'
        '#include "autograd/vmap/rules.h"\n'
        '#include "base/dtype.h"\n'
        '#include "dispatch/argument_keys.h"\n'
        '#include "dispatch/registry.h"\n'
        '#include "dispatch/trace.h"\n'
        '#include "generated/impls.h"\n'
        '#include "ops/outputs.h"\n'
        '#include "ops/pointwise/conj_neg_views.h"\n'
        '#include "ops/pointwise/pointwise.h"\n'
        '#include "ops/scalar_expression.h"\n'
        '#include "ops/sparse/sparse.h"\n'
    )
    text = "".join(
        f"static shmt_status composite_{op.ident}({', '.join(parameters(op.schema))});\n"
        for op in model.of_section(section)
        if op.direct.startswith("composite_")
    )
    for op in model.of_section(section):
        try:
            rows = build_rows(op, model)
        except SpecError as error:
            model.problems.append(error)
            rows = _unfinished(op)
        if not rows.kernels:
            raise SpecError(op.entry.where, f"{op.schema.full_name} has no kernel")
        text += f"\n/* --- {op.schema.full_name} --- */\n\n"
        text += "".join(f"{extern};\n" for extern in rows.externs)
        if op.entry.kernel and not op.derived:
            text += f"extern const shmt__pointwise {pointwise_record(op.entry)};\n\n"
        text += rows.code + _decomposition(op, model)
        text += f"{schema_record(op)}\n{operator_record(op, rows.kernels, order)}\n{caller(op)}"
    emitter.c_file(
        f"ops_{file_stem(section)}.c",
        f"the operators of {section}.yaml.",
        spec_file(section),
        head + helper_includes(text) + declared(text, model) + called(text, known) + text,
    )
