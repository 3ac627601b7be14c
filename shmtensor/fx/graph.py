"""Graphs: lists of nodes that say what a function does.

Source:
    torch.fx.graph.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _names, _table
from ._codegen import CodeGen as CodeGen
from ._codegen import PythonCode as PythonCode
from ._codegen import TransformCodeFunc as TransformCodeFunc
from ._codegen import _PyTreeCodeGen as _PyTreeCodeGen
from ._codegen import _PyTreeInfo as _PyTreeInfo
from ._codegen import inplace_methods as inplace_methods
from ._codegen import magic_methods as magic_methods
from ._codegen import reflectable_magic_methods as reflectable_magic_methods
from ._namespace import Namespace
from .node import Argument, Node, Target, _legal_ops, map_arg, names_in_code

if TYPE_CHECKING:
    from ._symbolic_trace import Tracer
    from .graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_Namespace = Namespace
_get_qualified_name = _names.qualified_name
_type_repr = _names.type_name
_snake_case = _names.name_for_node


class _node_list:
    """The nodes of a graph in their order; nodes may be erased while they are gone through."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node: Node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> _node_list:
        return _node_list(self.graph, "_next" if self.direction == "_prev" else "_prev")


class _InsertPoint:
    """A context in which new nodes go to a place; without one, it stays the place."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.before = graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.graph._insert = self.before


class Graph:
    """A list of nodes: arguments, reads of attributes, calls, and what is returned.

    Args:
        owning_module: The module that it is the code of.
        tracer_cls: The class that made it, for copies of that module.
        tracer_extras: What that class was given.
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._order_is_known = True
        self._graph_namespace = Namespace()
        self._owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> GraphModule | None:
        """The module that this is the code of."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in their order; `len`, `reversed` and loops that erase nodes work."""
        return _node_list(self)

    def _number_nodes(self) -> None:
        """Let nodes know where they stand, for comparisons."""
        if not self._order_is_known:
            for i, node in enumerate(self.nodes):
                node._position = i
            self._root._position = self._len
            self._order_is_known = True

    def output_node(self) -> Node:
        """Return the node that is returned.

        Raises:
            AssertionError: The graph does not end in one.
        """
        node = self._root._prev
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op: {node.op}")
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes of one kind in their order.

        Args:
            op: What they do.
            target: What they call; left out, all of that *op*.
            sort: Accepted.

        Raises:
            AssertionError: *target* is left out for ``call_function``.
        """
        return [
            node
            for node in self.nodes
            if node.op == op and (target is None or node.target == target)
        ]

    # --- new nodes ----------------------------------------------------------------------------

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add a node at the place of insertion, which is the end at first.

        Args:
            op: See `Node`.
            target: See `Node`.
            args: Positional arguments.
            kwargs: Arguments by name.
            name: What it is to be called; otherwise after its target.
            type_expr: The type of its result.

        Raises:
            AssertionError: There is no such *op*, or the arguments are of wrong types.
        """
        args = () if args is None else args
        kwargs = {} if kwargs is None else kwargs
        if not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        candidate = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(candidate, None)
        node = Node(self, name, op, target, args, kwargs, type_expr)
        if (
            self.owning_module is not None
            and getattr(self.owning_module, "_create_node_hooks", None) is not None
        ):
            for hook in self.owning_module._create_node_hooks:
                hook(node)
        self._graph_namespace.associate(name, node)
        self._insert(node)
        self._len += 1
        self._order_is_known = False
        return node

    def _target_to_str(self, target: Target | None) -> str:
        return _names.name_for_node(target)

    def placeholder(
        self, name: str, type_expr: Any = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """Add an argument.

        Args:
            name: Its name; ``*`` or ``**`` before it take the rest of a call's arguments.
            type_expr: Its type.
            default_value: What it is when it is left out.
        """
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """Add the read of an attribute; a warning says if the owning module has none."""
        module = self.owning_module
        if module is not None and not _has_attribute(module, qualified_name):
            warnings.warn(
                f"Attempted to insert a get_attr Node with no underlying reference in the owning "
                f"GraphModule! Add {qualified_name} to it first, or call lint()",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add the call of a module; a warning says if the owning module has none of that name."""
        owner = self.owning_module
        if owner is not None and not _has_attribute(owner, module_name):
            warnings.warn(
                f"Attempted to insert a call_module Node with no underlying reference in the "
                f"owning GraphModule! Add {module_name} to it by add_submodule() first",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Add the call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any = None,
        name: str | None = None,
    ) -> Node:
        """Add the call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any = None) -> Node:
        """Add what is returned."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda node: node
    ) -> Node:
        """Add a copy of a node, of another graph mostly.

        Args:
            node: It.
            arg_transform: Gives the argument here for one of *node*.
        """
        args = map_arg(node.args, arg_transform)
        kwargs = map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, dict(kwargs), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Argument | None:
        """Add copies of all nodes of a graph but its output.

        Args:
            g: It.
            val_map: Nodes here that stand for some of *g* already; takes the others.
            return_output_node: Return the output's node too.

        Returns:
            What *g* returns, in nodes of this graph; None if it returns nothing.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    # --- places -------------------------------------------------------------------------------

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Let new nodes go before a node: in a ``with`` block, or until told otherwise.

        Args:
            n: It; without it, before all nodes.

        Raises:
            AssertionError: It is a node of another graph.
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Let new nodes go after a node: in a ``with`` block, or until told otherwise.

        Args:
            n: It; without it, after all nodes.

        Raises:
            AssertionError: It is a node of another graph.
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node.

        Raises:
            RuntimeError: A node uses it, or it is of another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        to_erase._unlink()
        to_erase._erased = True  # its links stay, so that a loop over the nodes goes on
        self._len -= 1
        self._order_is_known = False
        to_erase._set_arguments((), {})

    # --- calls --------------------------------------------------------------------------------

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders for arguments of a call."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Return the result of a call for what the output node takes."""
        return self._codegen.process_outputs(out)

    # --- text and code ------------------------------------------------------------------------

    def set_codegen(self, codegen: CodeGen) -> None:
        """Say by what the code is written."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Change the lines of code whenever they are written.

        Args:
            make_transformer: Takes what changes them until now, or None, and returns what does
                from now on: a function of the list of lines.

        Returns:
            A context whose end takes that back.
        """
        codegen = self._codegen
        before = codegen._body_transformer
        codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def restored() -> Iterator[None]:
            try:
                yield
            finally:
                codegen._body_transformer = before

        return restored()

    def python_code(self, root_module: str, *, verbose: bool = False, **options: Any) -> PythonCode:
        """Return the graph as Python code.

        Args:
            root_module: What the module is called in it: "self".
            verbose: Say where the traced program made the nodes.
            **options: Accepted.
        """
        namespace = Namespace()
        with names_in_code(self, lambda node: namespace.create_name(node.name, node)):
            return self._codegen._gen_python_code(
                self.nodes, root_module, namespace, verbose=verbose, **options
            )

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "graph():" + "".join(f"\n    {line}" for line in lines if line is not None)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [[n.op, n.name, str(n.target), str(n.args), str(n.kwargs)] for n in self.nodes]
        print(_table.text(["opcode", "name", "target", "args", "kwargs"], rows))

    # --- rules --------------------------------------------------------------------------------

    def lint(self) -> None:
        """Check the graph: order, names, and targets in the owning module.

        Raises:
            RuntimeError: Something is wrong; the text says what.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.op not in _legal_ops:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node.all_input_nodes:
                self._check_argument(used, node, seen)
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                if node.op in ("get_attr", "call_module"):
                    _check_target(self.owning_module, node)

    def _check_argument(self, used: Node, node: Node, seen: set[Node]) -> None:
        if used.graph is not self:
            raise RuntimeError(
                f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used "
                "as an argument! If you are copying nodes from another graph, make sure to use "
                f"``arg_transform`` on node_copy() to remap values\n{self}"
            )
        if used not in seen:
            raise RuntimeError(
                f"Argument '{used}' of Node '{node}' was used before it has been defined! Please "
                f"check that Nodes in the graph are topologically ordered\n{self}"
            )

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove the nodes whose results nobody uses.

        Args:
            is_impure_node: Says of a node, arguments and output among them, whether it stays for
                what else it does; otherwise `Node.is_impure` does.

        Returns:
            Whether there were such nodes.
        """
        self.lint()
        stays = is_impure_node or Node.is_impure
        before = self._len
        for node in reversed(self.nodes):
            if not node.users and not stays(node):
                self.erase_node(node)
        return self._len < before

    # --- copies -------------------------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        val_map: dict[Node, Node] = {}
        for node in self.nodes:
            copied = made.node_copy(node, lambda n: val_map[n])
            copied.name, copied.meta = node.name, copy.copy(node.meta)
            made._graph_namespace.associate(node.name, copied)
            val_map[node] = copied
            memo[id(node)] = copied
        made._codegen = copy.deepcopy(self._codegen)
        made._co_fields = dict(self._co_fields)
        return made


def _has_attribute(module: Any, target: str) -> bool:
    for name in target.split("."):
        if not hasattr(module, name):
            return False
        module = getattr(module, name)
    return True


def _check_target(root: Any, node: Node) -> None:
    """Raise RuntimeError if there is nothing under the target of a node."""
    from shmtensor.nn import Module

    found, path = root, ""
    parts = node.target.split(".")
    for part in parts:
        if not hasattr(found, part):
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of "
                f"{path}"
            )
        found = getattr(found, part)
        path = f"{path}.{part}" if path else part
    if node.op == "call_module" and not isinstance(found, Module):
        raise RuntimeError(
            f"Node {node} target {node.target} {parts[-1]} of {path} does not reference an "
            "nn.Module"
        )
