"""The backward half of a node in C: its struct, apply(), release and class."""

from __future__ import annotations

from collections.abc import Callable

from codegen.expressions.blocks import parse_block, run_block
from codegen.expressions.calls import shape_of
from codegen.expressions.conversions import as_type
from codegen.expressions.lowering import Lowering
from codegen.expressions.nodes import Node, Saved, is_grad
from codegen.expressions.values import MAYBE_TENSOR, TENSOR, TENSORS, TUPLE, Value
from codegen.spec.c_types import c_name, c_string, c_type
from codegen.spec.model import Derivative, Model
from codegen.spec.schema import Type


def _loader(node: Node) -> Callable[[Lowering, str], Value | None]:
    entry = node.entry

    def load(lowering: Lowering, name: str) -> Value | None:
        found = lowering.find_loaded(name)
        if found is not None:
            return found
        value = _load(lowering, name)
        if value is not None:
            lowering.loaded[name] = value
        return value

    def _load(lowering: Lowering, name: str) -> Value | None:
        if is_grad(entry, name):
            return _load_grad(node, lowering, name)
        saved = node.saved.get(name)
        if saved is None:
            return None
        if saved.kind in ("tensor", "result"):
            local = lowering.local(f"{c_name(name)}_")
            lowering.emit(f"SHMT_AUTO(shmt_tensor) {local} = 0;")
            lowering.emit(f"SHMT_TRY(shmt__saved_unpack(&node->{saved.field}, base, &{local}));")
            return Value(local, MAYBE_TENSOR if saved.type.optional else TENSOR)
        if saved.kind == "list":
            local = lowering.local(f"{c_name(name)}_")
            lowering.emit(f"SHMT_AUTO_LIST {local} = {{0, 0}};")
            lowering.emit(
                f"SHMT_TRY(shmt__saved_list_unpack(&node->{saved.field}, base, &{local}));"
            )
            code = f"((shmt_tensors){{{local}.data, {local}.len}})"
            return Value(code, Type("Tensor", is_list=True))
        tail = ".value" if saved.kind == "copy" and saved.type.base != "str" else ""
        kind = Type(
            saved.type.base,
            optional=saved.type.optional,
            is_list=saved.type.is_list,
            size=saved.type.size,
        )
        return Value(f"node->{saved.field}{tail}", kind)

    return load


def _load_grad(node: Node, lowering: Lowering, name: str) -> Value:
    returns = node.entry.schema.returns
    if name == "grads":
        local = lowering.local("grads_")
        lowering.emit(f"SHMT_AUTO_LIST {local} = {{0, 0}};")
        count = "base->n_inputs"
        lowering.emit(f"SHMT_TRY(shmt__materialize_grads(base, grads, {count}, &{local}));")
        return Value(f"((shmt_tensors){{{local}.data, {local}.len}})", TENSORS)
    index = int(name[4:] or 0)
    if len(returns) == 1 or node.grads_used == {index}:
        return Value(f"grads[{index}]", TENSOR)
    local = lowering.local("grad_")
    lowering.emit(f"SHMT_AUTO(shmt_tensor) {local} = 0;")
    lowering.emit(f"SHMT_TRY(shmt__materialize_grad(base, {index}, grads[{index}], &{local}));")
    return Value(local, TENSOR)


def _needs(node: Node, name: str) -> str | None:
    if is_grad(node.entry, name) and name != "grads":
        return f"(grads[{int(name[4:] or 0)}] != 0)"
    argument = next((a for a in node.edges if a.name == name), None)
    if argument is None:
        return None
    index = node.edge_index(name)
    if argument.type.is_list:
        return f"shmt__node_needs_any(base, {index}, (uint32_t)node->n_{name})"
    return f"shmt__node_needs(base, {index})"


def _shape_loader(node: Node) -> Callable[[str, str], Value | None]:
    def shape(function: str, name: str) -> Value | None:
        saved = node.saved.get(f"{name}:shape")
        if saved is None:
            return None
        plain = shape_of(function, "x")
        path = f"node->{saved.field}"
        code = {
            "sizes": f"shmt__saved_shape_sizes(&{path})",
            "strides": f"shmt__saved_shape_strides(&{path})",
            "dim": f"{path}.n_dims",
            "numel": f"{path}.numel",
            "dtype": f"{path}.dtype",
            "device": f"{path}.device",
        }[function]
        return Value(code, plain.type)

    return shape


def apply_body(model: Model, node: Node) -> str:
    text = ""
    for argument in node.edges:
        if not argument.type.is_list:
            text += f"  SHMT_AUTO(shmt_tensor) grad_{argument.name} = 0;\n"
    if not node.uses_all_grads and len(node.grads_used) == 1:
        (index,) = node.grads_used
        text += f"  if (!grads[{index}]) return SHMT_OK;\n"
    for derivative in node.entry.derivatives:
        tests = [_needs(node, name) or "" for name in derivative.arguments]
        lowering = Lowering(
            model,
            derivative.expression.where,
            _loader(node),
            _shape_loader(node),
            lambda name: _needs(node, name),
            indent="    ",
        )
        statements, node_ast = parse_block(lowering, derivative.expression)
        run_block(lowering, statements)
        value = lowering.lower(node_ast)
        _give_gradients(node, derivative, lowering, value)
        text += f"  if ({' || '.join(tests)}) {{\n{lowering.text()}  }}\n"
    text += _double_backward(model, node)
    for argument in node.edges:
        if not argument.type.is_list:
            index_code = node.edge_index(argument.name)
            text += f"  out[{index_code}] = SHMT_TAKE(grad_{argument.name});\n"
    return text + "  return SHMT_OK;\n"


def _double_backward(model: Model, node: Node) -> str:
    """``double_backward:``: see autograd/recording/double_backward.h."""
    second = node.entry.double_backward
    if not second:
        return ""
    is_zero = second == "zero"
    how, what = (
        ("zero", f"&double_backward_{node.ident}") if is_zero else ("missing", c_string(second))
    )
    calls = [
        f"SHMT_TRY(shmt__double_backward_{how}(base, {what}, &grad_{a.name}));\n"
        for a in node.edges
        if not a.type.is_list
    ]
    condition = node.entry.double_backward_if
    if condition is None:
        return "".join(f"  {call}" for call in calls)
    lowering = Lowering(
        model, condition.expression.where, _loader(node), _shape_loader(node), indent="    "
    )
    _, expression = parse_block(lowering, condition.expression)
    test = lowering.condition(expression)
    inside = "".join(f"      {call}" for call in calls)
    return f"  {{\n{lowering.text()}    if ({test}) {{\n{inside}    }}\n  }}\n"


def _give_gradients(node: Node, derivative: Derivative, lowering: Lowering, value: Value) -> None:
    values = value.items if value.type == TUPLE else [value]
    if len(values) != len(derivative.arguments):
        raise lowering.fail(
            f"the expression gives {len(values)} gradients "
            f"for {len(derivative.arguments)} arguments"
        )
    for name, item in zip(derivative.arguments, values, strict=True):
        argument = next(a for a in node.edges if a.name == name)
        if argument.type.is_list:
            if not item.type.is_tensor_list:
                raise lowering.fail(f"the gradient of '{name}' must be a Tensor[], not {item.type}")
            lowering.emit(
                f"SHMT_TRY(shmt__return_list({c_string(node.name)}, {item.code}, "
                f"out + {node.edge_index(name)}, node->n_{name}));"
            )
            continue
        if not item.type.is_tensor and item.type.base != "None":
            item = Value(as_type(lowering, item, TENSOR), TENSOR)
        # A result that the operator did not calculate is NULL, like a borrowed optional.
        if not item.owned and not item.code.startswith("grads["):
            item = Value(item.code, MAYBE_TENSOR if item.type.base != "None" else item.type)
        lowering.give(item, f"grad_{name}")


# --- struct, release, class ---------------------------------------------------------------------


def node_struct(node: Node) -> str:
    text = f"typedef struct node_{node.ident} {{\n  shmt_node base;\n"
    for argument in node.edges:
        if argument.type.is_list:
            text += f"  int64_t n_{argument.name};\n"
    for saved in node.saved.values():
        kind = {
            "tensor": "shmt__saved",
            "result": "shmt__saved",
            "list": "shmt__saved_list",
            "shape": "shmt__saved_shape",
            "result_shape": "shmt__saved_shape",
        }.get(saved.kind)
        if saved.kind == "copy":
            kind = saved.copied[0]
        elif saved.kind == "plain":
            kind = c_type(saved.type).name
        text += f"  {kind} {saved.field};\n"
    return text + f"}} node_{node.ident};\n"


_FIELD_KINDS = {
    "int": "INT",
    "float": "FLOAT",
    "bool": "BOOL",
    "str": "STR",
    "Scalar": "SCALAR",
    "ScalarType": "DTYPE",
    "Layout": "LAYOUT",
    "Device": "DEVICE",
    "MemoryFormat": "MEMORY_FORMAT",
}


def _field_kind(saved: Saved) -> str:
    """``SHMT_SAVED_<kind>`` of what a node keeps."""
    if saved.kind in ("tensor", "result"):
        return "TENSOR"
    if saved.kind == "list":
        return "TENSORS"
    if saved.kind.endswith("shape"):
        return "SHAPE"
    kind = _FIELD_KINDS[saved.type.base]
    if saved.type.is_list:
        return f"{kind}S"
    optional = saved.type.optional and kind in ("INT", "FLOAT", "BOOL")
    return f"OPT_{kind}" if optional else kind


def node_fields(node: Node) -> str:
    """The table of what Python is shown as ``_saved_<name>``; results by their names."""
    if not node.saved:
        return ""
    rows = ""
    for saved in node.saved.values():
        name = saved.name
        if saved.kind.startswith("result"):
            returned = node.entry.schema.returns[saved.result].name
            name = returned or name
        place = f"offsetof(node_{node.ident}, {saved.field})"
        rows += f"  {{{c_string(name)}, SHMT_SAVED_{_field_kind(saved)}, {place}}},\n"
    return f"static const shmt__saved_field fields_{node.ident}[] = {{\n{rows}}};\n\n"


def node_release(node: Node) -> str:
    drop = fini = ""
    for saved in node.saved.values():
        path = f"&node->{saved.field}"
        if saved.kind in ("tensor", "result"):
            drop += f"  shmt__saved_fini({path});\n"
        elif saved.kind == "list":
            drop += f"  shmt__saved_list_release({path});\n"
            fini += f"  shmt__saved_list_fini({path});\n"
        elif saved.kind.endswith("shape"):
            fini += f"  shmt__saved_shape_fini({path});\n"
        elif saved.kind == "copy":
            fini += f"  {saved.copied[2]}({path});\n"
    cast = f"  node_{node.ident}* node = (node_{node.ident}*)base;\n"
    text = f"static void release_{node.ident}(shmt_node* base) {{\n"
    text += (cast + drop) if drop else "  (void)base;\n"
    text += "}\n\n"
    if fini:
        text += f"static void destroy_{node.ident}(shmt_node* base) {{\n{cast}"
        text += f"  release_{node.ident}(base);\n{fini}}}\n\n"
    destroy = f"  .destroy = destroy_{node.ident},\n" if fini else ""
    if node.saved:
        destroy += f"  .fields = fields_{node.ident},\n  .n_fields = {len(node.saved)},\n"
    text += node_fields(node)
    text += (
        f"static const shmt__node_class class_{node.ident} = {{\n"
        f"  .name = {c_string(node.name)},\n  .size = sizeof(node_{node.ident}),\n"
        f"  .apply = apply_{node.ident},\n  .release_saved = release_{node.ident},\n{destroy}}};\n"
    )
    return text


def node_double_backward(node: Node) -> str:
    """The class of the nodes that gradients get."""
    if node.entry.double_backward != "zero":
        return ""
    name = node.name.rstrip("0123456789") + "Backward0"
    return (
        f"static const shmt__node_class double_backward_{node.ident} = {{\n"
        f"  .name = {c_string(name)},\n  .size = sizeof(shmt_node),\n"
        "  .apply = shmt__double_backward_zero_apply,\n};\n\n"
    )


def node_apply(node: Node) -> str:
    uses_node = "node->" in node.apply
    unused = "" if "grads" in node.apply else "  (void)grads;\n"
    cast = f"  node_{node.ident}* node = (node_{node.ident}*)base;\n" if uses_node else ""
    return (
        f"static shmt_status apply_{node.ident}(shmt_node* base, shmt_tensor* const* grads,\n"
        f"    shmt_tensor** out) {{\n{cast}{unused}"
        f"  for (uint32_t i = 0; i < base->n_edges; i++) out[i] = 0;\n"
        f"{node.apply}}}\n"
    )
