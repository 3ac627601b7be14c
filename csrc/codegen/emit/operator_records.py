"""Operator records: schemas, tables of kernels, and the list of all operators."""

from __future__ import annotations

from codegen.emit.emitter import Emitter
from codegen.emit.forward import jvp_record
from codegen.spec.autograd_kinds import follows_tangents
from codegen.spec.c_types import c_string, c_type, signature
from codegen.spec.model import Model, Operator
from codegen.spec.schema import Argument

_CONJ_NEG = ("Conjugate", "Negative")
_SPARSE = ("SparseCPU", "SparseCsrCPU")
#: The kernel of a key for operators that have none of their own there.
_FALLBACKS = {
    **dict.fromkeys(_CONJ_NEG, "shmt__conj_neg_fallback"),
    **dict.fromkeys(_SPARSE, "shmt__no_sparse_kernel"),
    "NoMemory": "shmt__no_memory_kernel",
    "ForwardAD": "shmt__forward_fallback",
}


def _flags(argument: Argument) -> str:
    kind = argument.type
    flags = []
    if kind.optional:
        flags.append("SHMT_ARG_OPTIONAL")
    if kind.element_optional:
        flags.append("SHMT_ARG_ELEM_OPTIONAL")
    if argument.keyword_only:
        flags.append("SHMT_ARG_KEYWORD_ONLY")
    if argument.default is not None:
        flags.append("SHMT_ARG_HAS_DEFAULT")
    if kind.alias:
        flags.append("SHMT_ARG_WRITE" if kind.alias.write else "SHMT_ARG_ALIAS")
    if argument.is_out:
        flags.append("SHMT_ARG_OUT")
    return " | ".join(flags) or "0"


def _argument_row(argument: Argument) -> str:
    kind = argument.type
    alias = f"'{kind.alias.name}'" if kind.alias else "0"
    default = c_string(argument.default) if argument.default is not None else "0"
    name = c_string(argument.name) if argument.name else '""'
    return (
        f"    {{{name}, SHMT_TYPE_{c_type(kind).enum}, {_flags(argument)}, {kind.size}, {alias}, "
        f"{default}}},\n"
    )


def schema_record(op: Operator) -> str:
    """What an operator takes and returns."""
    schema = op.schema
    arguments = "".join(_argument_row(a) for a in schema.arguments)
    returns = "".join(_argument_row(Argument(r.type, r.name)) for r in schema.returns)
    text = f"static const shmt_schema schema_{op.ident} = {{\n"
    text += f"  .name = {c_string(schema.name)},\n  .overload = {c_string(schema.overload)},\n"
    text += f"  .text = {c_string(str(schema))},\n"
    if arguments:
        text += f"  .args = (const shmt_arg[]){{\n{arguments}  }},\n"
    if returns:
        text += f"  .returns = (const shmt_arg[]){{\n{returns}  }},\n"
    text += f"  .n_args = {len(schema.arguments)},\n  .n_returns = {len(schema.returns)},\n}};\n"
    return text


def _shared_kernels(op: Operator, kernels: list[str]) -> dict[str, str]:
    """What stands at keys for which an operator has no kernel of its own."""
    if not op.has_tensors and not op.is_factory:
        return {}
    shared = dict(_FALLBACKS)
    if "sparse_unary" in op.entry.tags:
        shared |= dict.fromkeys(_SPARSE, "shmt__sparse_unary_kernel")
    absent = set(kernels)
    if not op.has_tensors or op.passes_conj_neg:
        absent.update(_CONJ_NEG)
    if not follows_tangents(op):
        absent.add("ForwardAD")
    return {key: kernel for key, kernel in shared.items() if key not in absent}


def operator_record(op: Operator, own: dict[str, str], order: list[str]) -> str:
    """The operator with its table; *own*: the C functions of its kernels by key."""
    kernels = [key for key in order if key in own]
    text = f"static const shmt__kernel kernels_{op.ident}[] = {{\n"
    for key in kernels:
        text += (
            f"  {{.unboxed = (shmt__unboxed){own[key]}, .where = {c_string(op.entry.where)}}},\n"
        )
    text += "};\n"
    shared = _shared_kernels(op, kernels)
    mask = " | ".join(f"SHMT_KEYBIT_{key}" for key in [*kernels, *shared])
    jvp = jvp_record(op)
    if jvp:
        text += f"extern const struct shmt__jvp {jvp};\n"
    text += f"shmt_operator {op.record} = {{\n  .schema = &schema_{op.ident},\n  .mask = {mask},\n"
    text += "  .table = {\n"
    for i, key in enumerate(kernels):
        text += f"    [SHMT_KEY_{key}] = &kernels_{op.ident}[{i}],\n"
    for key, kernel in shared.items():
        text += f"    [SHMT_KEY_{key}] = &{kernel},\n"
    text += "  },\n"
    if op.is_composite:
        text += "  .is_composite = true,\n"
    if op.passes_conj_neg:
        text += "  .passes_conj_neg = true,\n"
    if follows_tangents(op):
        text += "  .follows_tangents = true,\n"
    if jvp:
        text += f"  .jvp = &{jvp},\n"
    text += f"  .call_unboxed = shmt__unbox_{signature(op.schema)},\n"
    return f"{text}{_batching(op)}}};\n"


def _batching(op: Operator) -> str:
    """What vmap knows of an operator."""
    text = f"  .batch = {op.entry.batch_rule},\n" if op.entry.batch_rule else ""
    if op.entry.batch_expression is not None:
        text += f"  .decomposition = (shmt__unboxed)decomposed_{op.ident},\n"
    elif op.is_made_of_others and (op.is_composite or not op.entry.batch_rule):
        text += "  .is_decomposed = true,\n"
    return f"{text}  .is_random = true,\n" if "random" in op.entry.tags else text


def emit_operator_list(emitter: Emitter, model: Model) -> None:
    """Write operators.c."""
    rows = "".join(f"  &{op.record},\n" for op in model.operators)
    fallbacks = "".join(f"  [SHMT_KEY_{key}] = &{name},\n" for key, name in _FALLBACKS.items())
    emitter.c_file(
        "operators.c",
        "every built-in operator.",
        "csrc/spec/ops",
        '#include "autograd/forward/follow.h"\n'
        '#include "dispatch/registry.h"\n'
        '#include "generated/ops.h"\n'
        '#include "ops/pointwise/conj_neg_views.h"\n\n'
        f"shmt_operator* const shmt__generated_operators[] = {{\n{rows}  0,\n}};\n"
        f"const size_t shmt__n_generated_operators = {len(model.operators)};\n"
        "const shmt__kernel* const shmt__generated_fallbacks[SHMT_N_KEYS] = {\n"
        f"{fallbacks}}};",
    )
