"""Forward mode: a record per entry that says how the tangents of its results follow, and formulas.

A formula is a C function. Per argument that has a tangent it adds one term: the expression of
``jvp:``, or, for element-wise operators, that of ``vjp:`` with the tangent in place of the
gradient. Where the operator is element-wise, its Jacobian is diagonal, so that both products are
the same but for conjugation: J t is the conjugate of J^H applied to the conjugate of t.
"""

from __future__ import annotations

import re

from codegen.emit.declarations import declared
from codegen.emit.emitter import Emitter
from codegen.expressions.blocks import parse_block, run_block
from codegen.expressions.conversions import as_type
from codegen.expressions.functions import helper_includes
from codegen.expressions.lowering import Lowering
from codegen.expressions.nodes import is_grad, result_index
from codegen.expressions.values import MAYBE_TENSOR, NONE, TENSOR, TUPLE, Value
from codegen.spec.autograd_kinds import follows_tangents, jvp_kind
from codegen.spec.c_types import c_type
from codegen.spec.errors import SpecError
from codegen.spec.loader import Text
from codegen.spec.model import (
    MAX_ARGUMENTS,
    MAX_RESULTS,
    Model,
    Operator,
    OperatorEntry,
    file_stem,
    spec_file,
)
from codegen.spec.schema import Argument, Schema


def jvp_record(op: Operator) -> str:
    """The C record of the operator; empty when it has none."""
    if not follows_tangents(op) or op.form == "out" or not jvp_kind(op):
        return ""
    shared = op.entry.derivatives and op.entry.operators[0]
    return f"shmt__jvp_{(shared or op).ident}"


def _argument_value(argument: Argument, index: int) -> Value:
    """An argument as it stands in the boxed call."""
    kind = c_type(argument.type)
    code = kind.unbox % f"args[{index}].v.{kind.member}"
    if kind.none and not argument.type.is_tensor:
        code = f"(args[{index}].tag == SHMT_VALUE_NONE ? {kind.none} : {code})"
    return Value(code, argument.type)


class _Names:
    """The names of one term."""

    def __init__(self, entry: OperatorEntry, argument: Argument, incoming: str) -> None:
        self.entry = entry
        self.index = entry.schema.arguments.index(argument)
        self.incoming = incoming
        self.reads_results = False

    def load(self, lowering: Lowering, name: str) -> Value | None:
        schema = self.entry.schema
        if name == "tangent" and self.incoming == "tangent":
            return Value(f"tangents[{self.index}].v.tensor", TENSOR)
        if is_grad(self.entry, name) and self.incoming == "grad":
            return Value("cotangent", TENSOR)
        argument = schema.argument(name)
        if argument is not None:
            return _argument_value(argument, schema.arguments.index(argument))
        result = result_index(self.entry, name)
        if result is None:
            return None
        self.reads_results = True
        return Value(f"results[{result}].v.tensor", TENSOR)


def _term(model: Model, entry: OperatorEntry, argument: Argument, text: Text) -> tuple[str, bool]:
    """The C that adds what one argument contributes, and whether it reads results."""
    elementwise = entry.jvp_kind == "elementwise"
    names = _Names(entry, argument, "grad" if elementwise else "tangent")
    lowering = Lowering(model, text.where, names.load, needs=lambda name: "true", indent="    ")
    statements, expression = parse_block(lowering, text)
    run_block(lowering, statements)
    value = lowering.lower(expression)
    items = value.items if value.type == TUPLE else [value]
    if len(items) > len(entry.schema.returns):
        raise lowering.fail(f"{len(items)} tangents for {len(entry.schema.returns)} results")
    for result, item in enumerate(items):
        if item.type == NONE:
            continue
        if not item.type.is_tensor:
            item = Value(as_type(lowering, item, TENSOR), TENSOR)
        if not item.owned:
            item = Value(item.code, MAYBE_TENSOR)
        lowering.emit(f"SHMT_AUTO(shmt_tensor) term{result} = 0;")
        lowering.give(item, f"term{result}")
        if elementwise:
            lowering.emit(f"SHMT_TRY(shmt__jvp_conj(&term{result}));")
        lowering.emit(f"SHMT_TRY(shmt__jvp_add(&out[{result}], &term{result}));")
    head = ""
    tangent = f"tangents[{names.index}]"
    if elementwise:
        head = (
            "    SHMT_AUTO(shmt_tensor) cotangent = 0;\n    SHMT_TRY(shmt__jvp_as_cotangent("
            f"{tangent}.v.tensor, results[0].v.tensor, &cotangent));\n"
        )
    text_c = f"  if ({tangent}.tag == SHMT_VALUE_TENSOR) {{\n{head}{lowering.text()}  }}\n"
    return text_c, names.reads_results


def _expressions(entry: OperatorEntry) -> list[tuple[Argument, Text]]:
    if entry.jvp_kind == "elementwise":
        pairs = [(n, d.expression) for d in entry.derivatives for n in d.arguments]
    else:
        pairs = [(str(name), text) for name, text in entry.jvp]
    found = []
    for name, text in pairs:
        argument = entry.schema.argument(name)
        assert argument is not None
        found.append((argument, text))
    return found


def _formula(model: Model, entry: OperatorEntry) -> tuple[str, bool]:
    body, reads = "", False
    for argument, text in _expressions(entry):
        term, term_reads = _term(model, entry, argument, text)
        body += term
        reads |= term_reads
    unused = "".join(
        f"  (void){name};\n" for name in ("args", "results") if not re.search(rf"\b{name}\[", body)
    )
    return (
        f"static shmt_status expression_{entry.schema.ident}(const shmt_value* args,\n"
        "    const shmt_value* results, const shmt_value* tangents, shmt_tensor** out) {\n"
        f"{unused}{body}  return SHMT_OK;\n}}\n\n",
        reads,
    )


def _results_with_tangents(entry: OperatorEntry, schema: Schema) -> list[int]:
    """The results that depend on an argument: whose gradients the derivatives read."""
    tensors = [i for i, r in enumerate(schema.returns) if r.type.base == "Tensor"]
    named = entry.differentiable
    chosen = [i for i in tensors if not named or schema.returns[i].name in named]
    used = {n for d in entry.derivatives for n in re.findall(r"\bgrad(\d*)\b", d.expression)}
    if len(schema.returns) == 1 or not used:
        return chosen
    return [i for i in chosen if str(i) in used or (i == 0 and "" in used)]


def _record(op: Operator, name: str, kind: str, reads: bool) -> str:
    entry, schema = op.entry, op.schema
    if len(schema.arguments) > MAX_ARGUMENTS or len(schema.returns) > MAX_RESULTS:
        raise SpecError(entry.where, f"{schema.full_name} has too many arguments or results")
    differentiable = {n for d in entry.derivatives for n in d.arguments}
    arguments = sum(
        1 << i
        for i, a in enumerate(schema.arguments)
        if a.type.base == "Tensor" and (a.name in differentiable or not entry.derivatives)
    )
    results = sum(1 << i for i in _results_with_tangents(entry, schema))
    functional = f"&{op.record}" if op.form == "functional" else "0"
    formula = f"  .expression = expression_{schema.ident},\n" if kind == "EXPRESSION" else ""
    uses = "  .uses_results = true,\n" if reads else ""
    return (
        f"extern const shmt__jvp {name};\nconst shmt__jvp {name} = {{\n"
        f"  .functional = {functional},\n{formula}  .arguments = {arguments:#x},\n"
        f"  .results = {results:#x},\n  .kind = SHMT_JVP_{kind},\n{uses}}};\n"
    )


def _entry(model: Model, op: Operator) -> str:
    kind, reads, text = jvp_kind(op), False, ""
    if kind == "EXPRESSION":
        try:
            text, reads = _formula(model, op.entry)
        except SpecError as error:
            model.problems.append(error)
            kind = "TWO_VJPS"
    return (
        f"\n/* --- {op.schema.full_name} --- */\n\n{text}{_record(op, jvp_record(op), kind, reads)}"
    )


def emit_forward(emitter: Emitter, model: Model) -> None:
    """Write forward/<section>.c."""
    for section in model.sections:
        text, seen = "", set()
        for op in model.of_section(section):
            name = jvp_record(op)
            if name and name not in seen:
                seen.add(name)
                text += _entry(model, op)
        if not text:
            continue
        emitter.c_file(
            f"forward/{file_stem(section)}.c",
            f"how tangents follow through {section}.yaml.",
            spec_file(section),
            '#include "autograd/forward/jvp.h"\n#include "ops/scalar_expression.h"\n'
            f"{helper_includes(text)}{declared(text, model)}{text}",
        )
