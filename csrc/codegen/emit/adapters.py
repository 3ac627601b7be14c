"""Per-signature C: the typed kernel call, and the two conversions between boxed and unboxed.

All operators with the same C signature share these, so a run has some hundred of them.
"""

from __future__ import annotations

from codegen.emit.emitter import Emitter
from codegen.spec.c_types import (
    CType,
    argument_letters,
    by_letter,
    c_type,
    kernel_type,
    result_type,
    signature,
)
from codegen.spec.model import Model
from codegen.spec.schema import Schema

SPEC = "csrc/spec/ops"


def _parameters(schema: Schema) -> list[str]:
    names = [f"{c_type(a.type).name} a{i}" for i, a in enumerate(schema.arguments)]
    names += [f"{result_type(schema.returns[i].type)}* r{i}" for i in schema.new_returns]
    return names


def _names(schema: Schema) -> list[str]:
    return [f"a{i}" for i in range(len(schema.arguments))] + [f"r{i}" for i in schema.new_returns]


def signatures(model: Model) -> dict[str, Schema]:
    """One schema per C signature, in order of first use."""
    found: dict[str, Schema] = {}
    for op in model.operators:
        found.setdefault(signature(op.schema), op.schema)
    return dict(sorted(found.items()))


def _typedef(schema: Schema) -> str:
    parameters = ", ".join(["shmt_keyset ks", *_parameters(schema)])
    return f"typedef shmt_status (*{kernel_type(schema)})({parameters});\n"


def _head(name: str, schema: Schema, first: list[str]) -> str:
    return f"shmt_status {name}({', '.join([*first, *_parameters(schema)])})"


def _box_head(name: str, schema: Schema) -> str:
    first = ["const shmt__kernel* k", "const shmt_operator* op", "shmt_keyset ks"]
    return _head(f"shmt__box_{name}", schema, first)


def _traced_head(name: str, schema: Schema) -> str:
    first = ["const shmt_operator* op", "bool redispatch", "shmt_keyset ks"]
    return _head(f"shmt__traced_{name}", schema, first)


def _unbox_head(name: str) -> str:
    return (
        f"shmt_status shmt__unbox_{name}(shmt__unboxed f, const shmt_operator* op, "
        "shmt_keyset ks,\n"
        "    const shmt_value* args, shmt_value* results)"
    )


def _clear(schema: Schema) -> str:
    """Results start empty."""
    return "".join(
        f"  *r{i} = ({result_type(schema.returns[i].type)}){{0}};\n"
        for i in schema.new_returns
        if schema.returns[i].type.is_tensor or schema.returns[i].type.is_tensor_list
    )


def _drop(schema: Schema, pointer: str) -> str:
    """What a failed kernel has left in its results is released; *pointer* takes the index."""
    text = ""
    for i in schema.new_returns:
        kind = schema.returns[i].type
        if kind.is_tensor_list:
            text += f" shmt__tensor_vec_fini({pointer % i});"
        elif kind.is_tensor:
            text += f" shmt__result_drop({pointer % i});"
    return text


def _invoke(name: str, schema: Schema) -> str:
    head = _head(f"shmt__invoke_{name}", schema, ["const shmt_operator* op", "shmt_keyset ks"])
    names = _names(schema)
    direct = f"(({kernel_type(schema)})k->unboxed)({', '.join(['ks', *names])})"
    boxed = f"shmt__box_{name}({', '.join(['k', 'op', 'ks', *names])})"
    drop = _drop(schema, "r%d")
    if drop:
        call = (
            f"  shmt_status status = SHMT_LIKELY(k->unboxed != 0)\n      ? {direct}\n"
            f"      : {boxed};\n"
            f"  if (SHMT_UNLIKELY(status != SHMT_OK)) {{{drop} }}\n"
            "  return status;\n"
        )
    else:
        call = f"  if (SHMT_LIKELY(k->unboxed != 0)) return {direct};\n  return {boxed};\n"
    return (
        f"static inline {head} {{\n"
        f"{_clear(schema)}"
        "  const shmt__kernel* k = shmt__operator_find(op, ks);\n"
        "  if (SHMT_UNLIKELY(!k)) return SHMT_E_NOT_IMPLEMENTED; /* recorded by find */\n"
        f"{call}"
        "}\n"
    )


def _box_one(kind: CType) -> str:
    """The case of the letter of *kind* in ``box_arguments``."""
    promoted = "int" if kind.name == "bool" else kind.name
    boxed = f"(shmt_value){{.v.{kind.member} = {kind.box % 'a'}, .tag = SHMT_VALUE_{kind.tag}}}"
    condition = f"if (!({kind.is_none % 'a'})) " if kind.is_none else ""
    return (
        f"      case '{kind.letter}': {{\n"
        f"        {kind.name} a = va_arg(values, {promoted});\n"
        f"        {condition}*args = {boxed};\n"
        "        break;\n"
        "      }\n"
    )


def _shared() -> str:
    """What the functions of all signatures call."""
    cases = "".join(_box_one(kind) for kind in by_letter().values())
    return (
        "/* Makes args of values whose types `letters` names, as in generated/signatures.h. */\n"
        "static void box_arguments(shmt_value* args, const char* letters, ...) {\n"
        "  va_list values;\n"
        "  va_start(values, letters);\n"
        "  for (; *letters; letters++, args++) {\n"
        "    *args = (shmt_value){{0}, SHMT_VALUE_NONE};\n"
        "    switch (*letters) {\n"
        f"{cases}"
        "    }\n"
        "  }\n"
        "  va_end(values);\n"
        "}\n\n"
        "/* Of a failed call no result is left. */\n"
        "static shmt_status call_boxed(const shmt__kernel* k, const shmt_operator* op, "
        "shmt_keyset ks, const shmt_value* args,\n"
        "    shmt_value* results, int n_results) {\n"
        "  for (int i = 0; i < n_results; i++) results[i] = (shmt_value){{0}, SHMT_VALUE_NONE};\n"
        "  const shmt_status status = k->boxed(k->ctx, op, ks, args, results);\n"
        "  if (SHMT_UNLIKELY(status != SHMT_OK)) shmt__results_drop(results, n_results);\n"
        "  return status;\n"
        "}\n"
    )


def _boxed_arguments(schema: Schema) -> str:
    """Statements that make the array ``args`` of a0, a1, ..."""
    values = [f'"{argument_letters(schema)}"', *(f"a{i}" for i in range(len(schema.arguments)))]
    return (
        f"  shmt_value args[{max(len(schema.arguments), 1)}];\n"
        f"  box_arguments({', '.join(['args', *values])});\n"
    )


def _box(name: str, schema: Schema) -> str:
    after = ""
    for i, result in enumerate(schema.returns):
        kind = c_type(result.type)
        if schema.returned_argument(i) is not None:
            after += f"  shmt__value_fini(&results[{i}]);\n"
        elif result.type.is_tensor_list:
            after += (
                f"  *r{i} = (shmt_tensor_vec){{(shmt_tensor**)results[{i}].v.tensors.data, "
                f"results[{i}].v.tensors.len}};\n"
            )
        else:
            value = kind.unbox % f"results[{i}].v.{kind.member}"
            if kind.none:
                value = f"results[{i}].tag == SHMT_VALUE_NONE ? {kind.none} : {value}"
            after += f"  *r{i} = {value};\n"
    n = len(schema.returns)
    return (
        f"{_box_head(name, schema)} {{\n"
        f"{_boxed_arguments(schema)}"
        f"  shmt_value results[{max(n, 1)}];\n"
        f"  const shmt_status status = call_boxed(k, op, ks, args, results, {n});\n"
        "  if (SHMT_UNLIKELY(status != SHMT_OK)) return status;\n"
        f"{after}"
        "  return SHMT_OK;\n}\n"
    )


def _unbox(name: str, schema: Schema) -> str:
    call = ["ks"]
    for i, argument in enumerate(schema.arguments):
        kind = c_type(argument.type)
        value = kind.unbox % f"args[{i}].v.{kind.member}"
        if kind.none:
            value = f"args[{i}].tag == SHMT_VALUE_NONE ? {kind.none} : {value}"
        call.append(value)
    before = after = ""
    for i, result in enumerate(schema.returns):
        kind = c_type(result.type)
        index = schema.returned_argument(i)
        if index is not None:
            after += (
                f"  results[{i}] = (shmt_value){{.v.tensor = "
                f"shmt__tensor_ref(args[{index}].v.tensor), .tag = SHMT_VALUE_TENSOR}};\n"
            )
            continue
        before += f"  {result_type(result.type)} r{i} = {{0}};\n"
        call.append(f"&r{i}")
        if result.type.is_tensor_list:
            after += (
                f"  results[{i}] = (shmt_value){{.v.tensors = {{r{i}.data, r{i}.len}}, "
                ".tag = SHMT_VALUE_TENSORS};\n"
            )
            continue
        tag = f"SHMT_VALUE_{kind.tag}"
        if kind.is_none:
            tag = f"{kind.is_none % f'r{i}'} ? SHMT_VALUE_NONE : {tag}"
        after += (
            f"  results[{i}] = (shmt_value){{.v.{kind.member} = {kind.box % f'r{i}'}, "
            f".tag = {tag}}};\n"
        )
    arguments = ",\n      ".join(call)
    return (
        f"{_unbox_head(name)} {{\n"
        f"{before}"
        f"  shmt_status status = (({kernel_type(schema)})f)(\n      {arguments});\n"
        "  (void)op;\n  (void)args;\n  (void)results;\n"
        f"  if (SHMT_UNLIKELY(status != SHMT_OK)) {{{_drop(schema, '&r%d')} return status; }}\n"
        f"{after}"
        "  return SHMT_OK;\n}\n"
    )


def _traced(name: str, schema: Schema) -> str:
    return (
        f"{_traced_head(name, schema)} {{\n"
        f"{_boxed_arguments(schema)}"
        "  const int done = shmt__trace_enter(op, ks, redispatch, args);\n"
        f"  shmt_status status = shmt__invoke_{name}({', '.join(['op', 'ks', *_names(schema)])});\n"
        "  shmt__trace_leave(done);\n"
        "  return status;\n}\n"
    )


def signature_text(name: str, schema: Schema) -> str:
    """What signatures.h says of one signature."""
    return (
        f"{_typedef(schema)}"
        f"{_box_head(name, schema)};\n"
        f"{_unbox_head(name)};\n"
        f"{_traced_head(name, schema)};\n"
        f"{_invoke(name, schema)}"
    )


def emit_adapters(emitter: Emitter, model: Model) -> None:
    """Write signatures.h and adapters.c."""
    found = signatures(model)
    header = (
        '#include "dispatch/operator.h"\n#include "tensor/tensor.h"\n\n'
        "/* A signature's name: a letter per argument (T Tensor, L Tensor[], S Scalar, i int,\n"
        " * f float, b bool, I F B the optional ones, v int[], w float[], s str,\n"
        " * e dtype/layout/device/format, G Generator, O Storage), then per return a letter, or\n"
        " * the number of the argument it is.\n"
        " *\n"
        " *   shmt__fn_X      the unboxed kernel\n"
        " *   shmt__box_X     unboxed call of a boxed kernel\n"
        " *   shmt__unbox_X   boxed call of an unboxed kernel\n"
        " *   shmt__traced_X  a call while calls are traced\n"
        " *   shmt__invoke_X  find the kernel for ks and call it */\n"
    )
    header += "".join(f"\n{signature_text(name, schema)}" for name, schema in found.items())
    emitter.c_file("signatures.h", "typed calls of kernels, one set per C signature.", SPEC, header)
    source = (
        '#include "dispatch/trace.h"\n#include "generated/signatures.h"\n\n#include <stdarg.h>\n\n'
    )
    source += _shared()
    for name, schema in found.items():
        source += f"\n{_box(name, schema)}\n{_unbox(name, schema)}\n{_traced(name, schema)}"
    emitter.c_file("adapters.c", "boxed and unboxed calls, one set per C signature.", SPEC, source)
