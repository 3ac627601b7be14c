"""Autograd kernels: one per operator that can be recorded, and per form.

Per entry with derivatives there is one node class (its functional and in-place forms share it) with
a struct of what its derivatives use, and one kernel per form at the Autograd key::

    wanted?  no -> redispatch below
    create the node, connect edges, save inputs, redispatch below with Autograd excluded,
    give the results their history, save results
"""

from __future__ import annotations

from codegen.emit.backward import (
    apply_body,
    node_apply,
    node_double_backward,
    node_release,
    node_struct,
)
from codegen.emit.declarations import declared
from codegen.emit.emitter import Emitter
from codegen.expressions.functions import helper_includes
from codegen.expressions.nodes import Node, camel_case, node_names, plan_node
from codegen.spec.autograd_kinds import autograd_kind
from codegen.spec.c_types import c_name, c_string, call_arguments, parameters, result_names
from codegen.spec.errors import SpecError
from codegen.spec.model import Model, Operator, file_stem, spec_file
from codegen.spec.schema import Argument


def _head(op: Operator) -> str:
    names = ", ".join(["shmt_keyset ks", *parameters(op.schema)])
    return f"shmt_status shmt__autograd_kernel_{op.ident}({names})"


def _wants(argument: Argument) -> str:
    test = "shmt__list_wants_grad" if argument.type.is_list else "shmt__wants_grad"
    return f"{test}({c_name(argument)})"


def _below(op: Operator) -> str:
    return f"{op.caller}_below({', '.join(['below', *call_arguments(op.schema)])})"


_BELOW = "  const shmt_keyset below = shmt__keys_below(ks, SHMT_KEY_Autograd);\n"


def _guarded(op: Operator) -> str:
    return (
        "  {\n"
        "    SHMT_KEYS_GUARD(guard); /* what the kernel calls inside is not recorded again */\n"
        "    shmt__tls_keys.excluded |= SHMT_KEYBIT_Autograd;\n"
        f"    SHMT_TRY({_below(op)});\n"
        "  }\n"
    )


def _save_inputs(node: Node, op: Operator) -> str:
    text = ""
    for saved in node.saved.values():
        if saved.kind.startswith("result"):
            continue
        name, path = c_name(saved.name), f"&node->{saved.field}"
        test = " || ".join(f"wants_{user}" for user in saved.users)
        if saved.kind == "plain":
            text += f"  node->{saved.field} = {name};\n"
        elif saved.kind == "copy":
            text += f"  SHMT_TRY({saved.copied[1]}({path}, {name}));\n"
        elif saved.kind == "shape":
            text += f"  SHMT_TRY(shmt__saved_shape_init({path}, {name}));\n"
        elif saved.kind == "list":
            text += f"  if ({test}) SHMT_TRY(shmt__saved_list_init({path}, {name}));\n"
        elif op.form == "inplace" and saved.name == op.schema.arguments[0].name:
            text += f"  if ({test}) SHMT_TRY(shmt__saved_init_copy({path}, {name}));\n"
        else:
            save = f"shmt__saved_init({path}, {name}, false)"
            if op.form == "inplace" and not saved.type.optional:
                save = (
                    f"shmt__saved_init_unaliased({path}, {name}, {c_name(op.schema.arguments[0])})"
                )
            text += f"  if ({test}) SHMT_TRY({save});\n"
    return text


def _has_gradient(op: Operator, result: int) -> bool:
    names = op.entry.differentiable
    return not names or op.schema.returns[result].name in names


def _save_results(node: Node, op: Operator, outs: list[str], release: str) -> str:
    text = ""
    for saved in node.saved.values():
        path = f"&node->{saved.field}"
        if saved.kind == "result_shape":
            text += f"  status = shmt__saved_shape_init({path}, {outs[saved.result]});\n{release}"
        elif saved.kind == "result":
            is_output = "true" if _has_gradient(op, saved.result) else "false"
            call = f"shmt__saved_init({path}, {outs[saved.result]}, {is_output})"
            test = ""
            if any(edge.name not in saved.users for edge in node.edges):
                test = f"if ({' || '.join(f'wants_{user}' for user in saved.users)}) "
            text += f"  {test}status = {call};\n{release}"
    return text


def _edges(node: Node) -> tuple[str, str]:
    """The C count of edges, and the statements that connect them."""
    plain = sum(not a.type.is_list for a in node.edges)
    lists = [f"(uint32_t){c_name(a)}.len" for a in node.edges if a.type.is_list]
    count = " + ".join([str(plain), *lists]) if plain or not lists else " + ".join(lists)
    text = ""
    for argument in node.edges:
        name = c_name(argument)
        if argument.type.is_list:
            text += f"  node->n_{argument.name} = {name}.len;\n"
    for argument in node.edges:
        name, index = c_name(argument), node.edge_index(argument.name)
        if argument.type.is_list:
            text += (
                f"  for (int64_t i = 0; i < {name}.len; i++)\n"
                f"    SHMT_TRY(shmt__node_connect(base, {index} + (uint32_t)i, {name}.data[i]));\n"
            )
        else:
            text += f"  SHMT_TRY(shmt__node_connect(base, {index}, {name}));\n"
    return count, text


def _create(node: Node, op: Operator) -> str:
    count, connect = _edges(node)
    outputs = sum(r.type.base == "Tensor" for r in op.schema.returns)
    saves = _save_inputs(node, op)
    body = connect + saves
    cast = ""
    if "node->" in body or any(s.kind.startswith("result") for s in node.saved.values()):
        cast = f"  node_{node.ident}* node = (node_{node.ident}*)base;\n"
    return (
        f"  SHMT_AUTO(shmt_node) base = shmt__node_create(&class_{node.ident},"
        f" {count}, {outputs});\n"
        "  if (!base) return SHMT_E_NOMEM; /* recorded */\n"
        f"{cast}{body}"
    )


def _record_results(op: Operator) -> tuple[str, list[str], str]:
    """The statements that give results their history, their C names, and the way out."""
    names = dict(zip(op.schema.new_returns, result_names(op.schema), strict=True))
    outs, drop, history = [], "", ""
    number = 0
    for i, result in enumerate(op.schema.returns):
        if i not in names:
            index = op.schema.returned_argument(i)
            assert index is not None
            outs.append(c_name(op.schema.arguments[index]))
            number += 1
            continue
        out = names[i]
        outs.append(f"*{out}")
        if result.type.is_tensor_list:
            drop += f"    shmt__tensor_vec_fini({out});\n"
            history += (
                f"  status = shmt__node_set_n_inputs(base, (uint32_t){out}->len);\n@FAIL@"
                f"  for (int64_t i = 0; i < {out}->len; i++) {{\n"
                f"    status = shmt__set_history({out}->data[i], base, (uint32_t)i);\n@FAIL2@  }}\n"
            )
        elif result.type.is_tensor:
            drop += f"    shmt__tensor_release(*{out});\n    *{out} = 0;\n"
            test = f"if (*{out}) " if len(op.schema.returns) > 1 else ""
            if _has_gradient(op, i):
                history += f"  {test}status = shmt__set_history(*{out}, base, {number});\n@FAIL@"
            number += 1
    fail = f"  if (SHMT_UNLIKELY(status != SHMT_OK)) {{\n{drop}    return status;\n  }}\n"
    nested = "".join(f"  {line}\n" for line in fail.splitlines())
    history = history.replace("@FAIL2@", nested).replace("@FAIL@", fail)
    return history, outs, fail


def _refusals(op: Operator) -> str:
    """The checks of arguments that must not require a gradient."""
    text = ""
    for name, function in op.entry.refused:
        argument = op.schema.argument(name)
        assert argument is not None
        text += (
            f"  if (SHMT_UNLIKELY(shmt__grad_enabled() && {_wants(argument)}))\n"
            f"    return shmt__fail_constant({c_string(function)}, {c_string(name)});\n"
        )
    return text


def _record_kernel(node: Node, op: Operator) -> str:
    text = f"{_head(op)} {{\n{_BELOW}{_refusals(op)}"
    for argument in node.edges:
        text += f"  const bool wants_{argument.name} = {_wants(argument)};\n"
    any_wanted = " || ".join(f"wants_{a.name}" for a in node.edges)
    if op.form == "inplace":
        self_name = c_name(op.schema.written[0])
        change = "geometry" if "geometry" in op.entry.tags else "history"
        text += (
            f"  const bool record = shmt__grad_enabled() && ({any_wanted});\n"
            f"  SHMT_TRY(shmt__check_inplace({self_name}, record));\n"
            f"  if (!record) return {_below(op)};\n"
            f"{_create(node, op)}{_guarded(op)}"
            f"  SHMT_TRY(shmt__rebase_{change}({self_name}, base));\n"
        )
        saves = _save_results(
            node, op, [self_name], "  if (SHMT_UNLIKELY(status != SHMT_OK)) return status;\n"
        )
        return (
            text + ("  shmt_status status;\n" + saves if saves else "") + "  return SHMT_OK;\n}\n"
        )
    history, outs, fail = _record_results(op)
    return (
        f"{text}  if (!shmt__grad_enabled() || !({any_wanted})) return {_below(op)};\n"
        f"{_create(node, op)}{_guarded(op)}"
        f"  shmt_status status = SHMT_OK;\n{history}{_save_results(node, op, outs, fail)}"
        "  return SHMT_OK;\n}\n"
    )


def _tensor_arguments(op: Operator) -> list[Argument]:
    return [a for a in op.schema.arguments if a.type.base == "Tensor"]


def _out_kernel(op: Operator) -> str:
    wanted = " || ".join(_wants(a) for a in _tensor_arguments(op))
    return (
        f"{_head(op)} {{\n{_BELOW}"
        f"  if (shmt__grad_enabled() && ({wanted}))\n"
        f"    return shmt__fail_out_requires_grad({c_string(op.schema.name)});\n"
        f"  return {_below(op)};\n}}\n"
    )


def _zeros_kernel(op: Operator) -> str:
    name = c_name(op.schema.written[0])
    stem = camel_case(op.schema.name.rstrip("_"))
    return (
        f"static const shmt__node_class class_{op.ident} = {{\n"
        f"  .name = {c_string(f'{stem}Backward0')},\n  .size = sizeof(shmt_node),\n"
        "  .apply = shmt__zeros_apply,\n  .release_saved = shmt__zeros_release,\n};\n\n"
        f"{_head(op)} {{\n{_BELOW}"
        f"  const bool record = shmt__grad_enabled() && {_wants(op.schema.written[0])};\n"
        f"  SHMT_TRY(shmt__check_inplace({name}, record));\n"
        f"  if (!record) return {_below(op)};\n"
        f"  SHMT_AUTO(shmt_node) base = shmt__node_create(&class_{op.ident}, 1, 1);\n"
        "  if (!base) return SHMT_E_NOMEM; /* recorded */\n"
        f"  SHMT_TRY(shmt__node_connect(base, 0, {name}));\n{_guarded(op)}"
        f"  return shmt__rebase_history({name}, base);\n}}\n"
    )


def _check_kernel(op: Operator) -> str:
    text = f"{_head(op)} {{\n{_BELOW}"
    for argument in op.schema.written:
        name = c_name(argument)
        if argument.type.is_list:
            text += (
                f"  for (int64_t i = 0; i < {name}.len; i++)\n"
                f"    SHMT_TRY(shmt__check_inplace({name}.data[i], shmt__grad_enabled() && "
                f"shmt__wants_grad({name}.data[i])));\n"
            )
        else:
            test = f"if ({name}) " if argument.type.optional else ""
            text += (
                f"  {test}SHMT_TRY(shmt__check_inplace({name}, "
                f"shmt__grad_enabled() && {_wants(argument)}));\n"
            )
    return text + f"{_guarded(op)}  return SHMT_OK;\n}}\n"


def _missing_kernel(op: Operator) -> str:
    arguments = _tensor_arguments(op)
    wanted = " || ".join(_wants(a) for a in arguments)
    plain = ", ".join(c_name(a) for a in arguments if not a.type.is_list) or "0"
    outputs = max(1, sum(r.type.base == "Tensor" for r in op.schema.returns))
    count = sum(not a.type.is_list for a in arguments)
    inputs = f"(shmt_tensors){{(shmt_tensor* const[]){{{plain}}}, {count}}}"
    create = (
        "  SHMT_AUTO(shmt_node) base = 0;\n"
        f"  SHMT_TRY(shmt__not_implemented_create({c_string(f'aten::{op.schema.name}')}, {inputs},"
        f" {outputs}, &base));\n"
    )
    text = f"{_head(op)} {{\n{_BELOW}"
    if op.form != "functional":
        written = [c_name(a) for a in op.schema.written]
        text += f"  const bool record = shmt__grad_enabled() && ({wanted});\n"
        for name in written:
            text += f"  SHMT_TRY(shmt__check_inplace({name}, record));\n"
        text += f"  if (!record) return {_below(op)};\n{create}{_guarded(op)}"
        listed = f"(shmt_tensor* const[]){{{', '.join(written)}}}"
        changed = f"(shmt_tensors){{{listed}, {len(written)}}}"
        return f"{text}  return shmt__rebase_histories({changed}, base);\n}}\n"
    history, _, _ = _record_results(op)
    return (
        f"{text}  if (!shmt__grad_enabled() || !({wanted})) return {_below(op)};\n"
        f"{create}{_guarded(op)}  shmt_status status = SHMT_OK;\n{history}  return SHMT_OK;\n}}\n"
    )


# --- files --------------------------------------------------------------------------------------


def plan_autograd(model: Model) -> dict[str, Node]:
    """Lower all derivatives; one node per entry that has some.

    An entry whose derivatives do not fit is noted in ``model.problems`` and counts as having none.
    """
    names = node_names(model)
    nodes = {}
    for entry in model.entries:
        if not entry.derivatives:
            continue
        try:
            node = plan_node(model, entry, names[entry.name])
            node.apply = apply_body(model, node)
        except SpecError as error:
            model.problems.append(error)
            entry.derivatives = ()
            continue
        nodes[entry.name] = node
    return nodes


def emit_autograd(emitter: Emitter, model: Model, nodes: dict[str, Node]) -> None:
    """Write autograd/<section>.c."""
    for section in model.sections:
        text = ""
        for op in model.of_section(section):
            kind = autograd_kind(op)
            if "Autograd" in op.entry.dispatch:
                continue
            if kind == "record":
                node = nodes[op.entry.name]
                if op is op.entry.operators[0]:
                    text += f"\n/* --- {op.entry.name} --- */\n\n{node_struct(node)}\n"
                    text += f"{node_double_backward(node)}{node_apply(node)}\n"
                    text += f"{node_release(node)}"
                text += f"\n{_head(op)};\n{_record_kernel(node, op)}"
            elif kind == "out":
                text += f"\n{_head(op)};\n{_out_kernel(op)}"
            elif kind == "zeros":
                text += f"\n{_head(op)};\n{_zeros_kernel(op)}"
            elif kind == "check":
                text += f"\n{_head(op)};\n{_check_kernel(op)}"
            elif kind == "missing":
                text += f"\n{_head(op)};\n{_missing_kernel(op)}"
        if not text:
            continue
        head = (
            '#include "autograd/recording/recording.h"\n#include "dispatch/registry.h"\n'
            '#include "ops/scalar_expression.h"\n'
        )
        if "shmt__double_backward_" in text:
            head = f'#include "autograd/recording/double_backward.h"\n{head}'
        head += helper_includes(text) + declared(text, model)
        emitter.c_file(
            f"autograd/{file_stem(section)}.c",
            f"derivatives of {section}.yaml.",
            spec_file(section),
            head + text,
        )
