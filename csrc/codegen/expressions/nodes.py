"""Nodes of the graph: which arguments have edges, and what the derivatives make a node keep."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from codegen.expressions.blocks import parse_block
from codegen.expressions.calls import SHAPE_FUNCTIONS
from codegen.expressions.lowering import Lowering
from codegen.spec.c_types import c_name
from codegen.spec.errors import SpecError
from codegen.spec.model import Derivative, Model, OperatorEntry
from codegen.spec.schema import Argument, Type

_COPIED = {
    "int[]": ("shmt__saved_ints", "shmt__saved_ints_init", "shmt__saved_ints_fini"),
    "float[]": ("shmt__saved_floats", "shmt__saved_floats_init", "shmt__saved_floats_fini"),
    "str": ("char*", "shmt__saved_text_init", "shmt__saved_text_fini"),
}


@dataclass
class Saved:
    """One field of a node's struct.

    Attributes:
        name: The argument or result.
        kind: ``tensor``, ``shape``, ``list``, ``result``, ``result_shape``, ``copy`` or ``plain``.
        type: The argument's type.
        result: Which result it is, for results.
        users: The arguments whose gradients use it.
    """

    name: str
    kind: str
    type: Type
    result: int = 0
    users: list[str] = field(default_factory=list)

    @property
    def field(self) -> str:
        """The C field."""
        return f"{c_name(self.name)}_shape" if self.kind.endswith("shape") else c_name(self.name)

    @property
    def copied(self) -> tuple[str, str, str]:
        """C type, init and fini of a copied list or text."""
        return _COPIED[f"{self.type.base}[]" if self.type.is_list else self.type.base]


@dataclass
class Node:
    """The derivative of one entry."""

    entry: OperatorEntry
    name: str
    edges: list[Argument]
    saved: dict[str, Saved]
    grads_used: set[int]
    uses_all_grads: bool
    apply: str = ""

    @property
    def ident(self) -> str:
        """Part of C names."""
        return self.entry.schema.ident

    @property
    def has_list_edges(self) -> bool:
        """Some edge argument is a Tensor[]."""
        return any(a.type.is_list for a in self.edges)

    def edge_index(self, name: str) -> str:
        """The C expression of an argument's first edge."""
        index = 0
        lists: list[str] = []
        for argument in self.edges:
            if argument.name == name:
                return " + ".join([str(index), *lists])
            if argument.type.is_list:
                lists.append(f"(uint32_t)node->n_{argument.name}")
            else:
                index += 1
        raise KeyError(name)


def camel_case(name: str) -> str:
    """``max_pool2d`` as in node names: ``MaxPool2D``."""
    return "".join(part.title() for part in name.split("_"))


def node_names(model: Model) -> dict[str, str]:
    """Node name per entry: overloads with derivatives are numbered as they stand in the spec.

    ``fill_.Scalar`` shares the number of ``fill.Scalar``.
    """
    groups: dict[str, list[OperatorEntry]] = {}
    for entry in model.entries:
        if entry.derivatives:
            base = entry.schema.name
            groups.setdefault(base.rstrip("_") or base, []).append(entry)
    names = {}
    for base, entries in groups.items():
        stem = f"{camel_case(base)}Backward".replace("ForwardBackward", "Backward")
        overloads = list(dict.fromkeys(e.schema.overload for e in entries))
        for entry in entries:
            names[entry.name] = entry.node or f"{stem}{overloads.index(entry.schema.overload)}"
    return names


# --- what a derivative uses ----------------------------------------------------------------------


class _Uses(ast.NodeVisitor):
    """Names of an expression, apart those of which only the shape is asked."""

    def __init__(self, builtins: set[str]) -> None:
        self.builtins = builtins
        self.bound: set[str] = set()
        self.whole: list[str] = []
        self.shapes: list[str] = []

    def visit_Call(self, node: ast.Call) -> None:
        function = node.func.id if isinstance(node.func, ast.Name) else ""
        if function in ("needs", "given"):
            return
        first = node.args[0] if node.args else None
        if function in self.builtins and isinstance(first, ast.Name) and first.id not in self.bound:
            self.shapes.append(first.id)
            for rest in node.args[1:]:
                self.visit(rest)
            return
        for child in [*node.args, *(k.value for k in node.keywords)]:
            self.visit(child)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        for target in node.targets:
            self.bound |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}

    def visit_Name(self, node: ast.Name) -> None:
        if node.id not in self.bound:
            self.whole.append(node.id)


def result_index(entry: OperatorEntry, name: str) -> int | None:
    """``result`` and ``result1``, or a named result, as a number."""
    results = entry.schema.returns
    if name == "result":
        return 0
    if name.startswith("result") and name[6:].isdigit() and int(name[6:]) < len(results):
        return int(name[6:])
    return None


def is_grad(entry: OperatorEntry, name: str) -> bool:
    if name in ("grad", "grads"):
        return True
    return name.startswith("grad") and name[4:].isdigit()


def _is_changed(entry: OperatorEntry, argument: Argument) -> bool:
    """Edge 0 of an in-place operator is what it changes, with or without a gradient."""
    if argument is not entry.schema.arguments[0]:
        return False
    return any(
        op.form == "inplace" or op.schema.written for op in entry.operators if op.form != "out"
    )


def plan_node(model: Model, entry: OperatorEntry, name: str) -> Node:
    edges = [
        a
        for a in entry.schema.arguments
        if any(a.name in f.arguments for f in entry.derivatives) or _is_changed(entry, a)
    ]
    node = Node(entry, name, edges, {}, set(), False)
    builtins = set(SHAPE_FUNCTIONS)
    for derivative in [*entry.derivatives, *filter(None, [entry.double_backward_if])]:
        lowering = Lowering(model, derivative.expression.where, lambda *_: None)
        uses = _Uses(builtins)
        statements, value = parse_block(lowering, derivative.expression)
        for part in [*statements, value]:
            uses.visit(part)
        names = [(n, False) for n in uses.whole] + [(n, True) for n in uses.shapes]
        for used, only_shape in names:
            _check_hidden(entry, derivative, used, only_shape)
            _plan_name(node, derivative, used, only_shape)
    return node


def _check_hidden(
    entry: OperatorEntry, derivative: Derivative, name: str, only_shape: bool
) -> None:
    """An argument called grad or result: ``grad`` is the gradient, anything else is unclear."""
    if entry.schema.argument(name) is None:
        return
    if result_index(entry, name) is not None or (is_grad(entry, name) and only_shape):
        raise SpecError(
            derivative.expression.where,
            f"'{name}' may be the argument or the {'gradient' if only_shape else 'result'}; "
            f"call the argument '{name}_output'",
        )


def _plan_name(node: Node, derivative: Derivative, name: str, only_shape: bool) -> None:
    entry = node.entry
    if is_grad(entry, name):
        if name == "grads":
            node.uses_all_grads = True
        else:
            index = int(name[4:] or 0)
            if index >= len(entry.schema.returns):
                raise SpecError(derivative.expression.where, f"there is no result for '{name}'")
            node.grads_used.add(index)
        return
    argument = entry.schema.argument(name)
    if argument is None:
        index_or_none = result_index(entry, name)
        if index_or_none is None:
            return  # the lowering says that the name is unknown
        kind, type_ = "result", entry.schema.returns[index_or_none].type
        if not type_.is_tensor:
            raise SpecError(
                derivative.expression.where, f"'{name}' is {type_}; only Tensors are kept"
            )
    else:
        index_or_none, type_ = 0, argument.type
        if type_.is_tensor_list:
            kind = "list"
        elif type_.is_tensor:
            kind = "tensor"
        elif type_.base in ("Generator", "Storage"):
            raise SpecError(
                derivative.expression.where, f"a {type_.base} cannot be kept for backward"
            )
        else:
            kind = "copy" if type_.is_list or type_.base == "str" else "plain"
    if only_shape and kind in ("tensor", "result"):
        kind = "result_shape" if kind == "result" else "shape"
    key = f"{name}:shape" if kind.endswith("shape") else name
    saved = node.saved.setdefault(key, Saved(name, kind, type_, index_or_none))
    saved.users += [a for a in derivative.arguments if a not in saved.users]
