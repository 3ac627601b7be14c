"""ADInplaceOrView kernels: results become views of what they alias, writes bump versions."""

from __future__ import annotations

from codegen.emit.declarations import declared
from codegen.emit.emitter import Emitter
from codegen.spec.autograd_kinds import has_view_kernel
from codegen.spec.c_types import c_name, call_arguments, parameters, result_names
from codegen.spec.model import Model, Operator, file_stem, spec_file
from codegen.spec.schema import Argument, Return


def _source(op: Operator, result: Return) -> Argument | None:
    """The argument a result is a view of."""
    alias = result.type.alias
    if alias is None or alias.write:
        return None
    for argument in op.schema.arguments:
        mark = argument.type.alias
        if mark is not None and not mark.write and (mark.name == alias.name or mark.to_any):
            return argument
    return None


def _mark(view: str, source: str, plain: bool, several: str) -> str:
    """Make a result a view of its argument; *plain*: it shares only the version."""
    if plain:
        return f"shmt__tensor_set_base({view}, {source}, false);\n"
    return f"SHMT_TRY(shmt__view_created({view}, {source}, {several}));\n"


def _for_written(op: Operator, statement: str) -> str:
    """*statement*, where ``{}`` stands for a tensor, for each that the operator writes to."""
    text = ""
    for argument in op.schema.written:
        name = c_name(argument)
        if argument.type.is_list:
            each = statement.format(f"{name}.data[i]")
            text += f"  for (int64_t i = 0; i < {name}.len; i++) {each};\n"
        else:
            test = f"if ({name}) " if argument.type.optional else ""
            text += f"  {test}{statement.format(name)};\n"
    return text


def _kernel(op: Operator) -> str:
    names = ", ".join(["shmt_keyset ks", *parameters(op.schema)])
    head = f"shmt_status shmt__view_kernel_{op.ident}({names})"
    below = ", ".join(
        ["shmt__keys_below(ks, SHMT_KEY_ADInplaceOrView)", *call_arguments(op.schema)]
    )
    text = f"{head};\n{head} {{\n"
    # What was made in inference mode is not written to: refused before it happens.
    text += _for_written(op, "SHMT_TRY(shmt__check_tracked({}))")
    text += (
        "  {\n"
        "    SHMT_KEYS_GUARD(guard);\n"
        "    shmt__tls_keys.excluded |= SHMT_KEYBIT_ADInplaceOrView;\n"
        f"    SHMT_TRY({op.caller}_below({below}));\n  }}\n"
    )
    text += _for_written(op, "shmt__tensor_bump_version({})")
    plain = "nondifferentiable" in op.entry.tags
    several = "true" if len(op.schema.new_returns) > 1 else "false"
    for index, out in zip(op.schema.new_returns, result_names(op.schema), strict=True):
        result = op.schema.returns[index]
        source = _source(op, result)
        if source is None or source.type.is_list:
            continue
        name = c_name(source)
        if result.type.is_tensor_list:
            text += (
                f"  for (int64_t i = 0; i < {out}->len; i++)\n"
                f"    if ({out}->data[i] != {name}) {_mark(f'{out}->data[i]', name, plain, 'true')}"
            )
        else:
            text += f"  if (*{out} != {name})\n"
            text += f"    {_mark(f'*{out}', name, plain, several)}"
    return text + "  return SHMT_OK;\n}\n"


def emit_views(emitter: Emitter, model: Model) -> None:
    """Write views_<section>.c."""
    for section in model.sections:
        ops = [
            op
            for op in model.of_section(section)
            if has_view_kernel(op) and "ADInplaceOrView" not in op.entry.dispatch
        ]
        if not ops:
            continue
        text = "\n".join(_kernel(op) for op in ops)
        head = '#include "autograd/meta.h"\n#include "dispatch/registry.h"\n'
        emitter.c_file(
            f"views/{file_stem(section)}.c",
            f"views and version counters of {section}.yaml.",
            spec_file(section),
            head + declared(text, model) + text,
        )
