"""The callers ``shmt_op_X``: what C calls to call an operator."""

from __future__ import annotations

from codegen.emit.emitter import Emitter
from codegen.spec.c_types import (
    c_name,
    call_arguments,
    parameters,
    signature,
)
from codegen.spec.model import Model, Operator, spec_file
from codegen.spec.schema import Schema


def caller_head(op: Operator) -> str:
    """``shmt_status shmt_op_add_Tensor(shmt_tensor* self, ...)``."""
    return f"shmt_status {op.caller}({', '.join(parameters(op.schema)) or 'void'})"


def below_head(op: Operator) -> str:
    """The redispatching twin, which takes the key set as given."""
    return f"shmt_status {op.caller}_below({', '.join(['shmt_keyset ks', *parameters(op.schema)])})"


def _key_terms(schema: Schema) -> list[str]:
    """C expressions whose union is the key set of the tensor arguments."""
    terms = []
    for argument in schema.arguments:
        if argument.type.base != "Tensor":
            continue
        if argument.type.is_list:
            terms.append(f"shmt__keys_of_list({c_name(argument)})")
        elif argument.type.optional:
            terms.append(f"shmt__keys_of_optional({c_name(argument)})")
        else:
            terms.append(f"shmt__tensor_keys({c_name(argument)})")
    return terms


def _start_keys(op: Operator) -> str:
    if op.is_factory:
        return "  shmt_keyset ks = shmt__call_keys(SHMT_KEYBIT_BackendSelect);\n"
    terms = _key_terms(op.schema)
    if not terms:
        return "  shmt_keyset ks = shmt__call_keys(SHMT_KEYBIT_CPU);\n"
    union = " | ".join(terms)
    required = any(
        a.type.is_tensor and not a.type.optional and not a.is_out for a in op.schema.arguments
    )
    if required:
        return f"  shmt_keyset ks = shmt__call_keys({union});\n"
    return f"  shmt_keyset ks = {union};\n  ks = shmt__call_keys(ks ? ks : SHMT_KEYBIT_CPU);\n"


def caller(op: Operator) -> str:
    """Both functions of an operator: the caller and its redispatching twin."""
    name = signature(op.schema)
    names = call_arguments(op.schema)
    invoke = ", ".join([f"&{op.record}", "ks", *names])
    body = (
        f"  if (SHMT_LIKELY(!shmt__trace_on)) return shmt__invoke_{name}({invoke});\n"
        f"  return shmt__traced_{name}("
    )
    call = ", ".join([f"&{op.record}", "false", "ks", *names])
    again = ", ".join([f"&{op.record}", "true", "ks", *names])
    return (
        f"{caller_head(op)} {{\n{_start_keys(op)}{body}{call});\n}}\n\n"
        f"{below_head(op)} {{\n{body}{again});\n}}\n"
    )


def emit_ops_header(emitter: Emitter, model: Model) -> None:
    """Write ops.h."""
    text = '#include "dispatch/operator.h"\n#include "tensor/tensor.h"\n\n'
    text += (
        "/* shmt_op_X calls X from outside: results are new references, arguments are borrowed.\n"
    )
    text += " * shmt_op_X_below goes on with the keys in ks, as kernels do. */\n"
    for section in model.sections:
        text += f"\n/* {spec_file(section)} */\n"
        for op in model.of_section(section):
            text += f"\n/* {op.schema} */\n{caller_head(op)};\n{below_head(op)};\n"
            text += f"extern shmt_operator {op.record};\n"
    emitter.c_file("ops.h", "the callers of all operators.", "csrc/spec/ops", text)
