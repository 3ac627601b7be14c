"""Graphs run node by node, and graphs made of graphs node by node.

Source:
    torch.fx.interpreter.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from shmtensor.nn import Module

from . import traceback as fx_traceback
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, Target, map_aggregate, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph node by node. Subclasses override what one kind of node does, or all of them.

    Args:
        module: The module of the graph.
        garbage_collect_values: Forget values after their last use.
        graph: The graph, if it is not the module's own.
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph  # type: ignore[assignment]
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            self.user_to_last_uses = _last_uses(self.graph)

    def run(
        self,
        *args: Any,
        initial_env: dict[Node, Any] | None = None,
        enable_io_processing: bool = True,
    ) -> Any:
        """Run the graph.

        Args:
            *args: The arguments of the module, by position.
            initial_env: Values of nodes that are known, which are not computed.
            enable_io_processing: Take arguments and give the result as the module does, in
                collections; otherwise as the placeholders and the output node have them.

        Returns:
            What the graph returns.
        """
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _say_where(error, node)
                raise
            for used in self.user_to_last_uses.get(node, ()):
                del self.env[used]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph with the items of a list, which is emptied so that they can be freed."""
        args = [*args_list]
        args_list.clear()
        return self.run(*args, enable_io_processing=False)

    def run_node(self, n: Node) -> Any:
        """Compute a node."""
        with fx_traceback.set_current_meta(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    # --- kinds of nodes -----------------------------------------------------------------------

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the next argument.

        Args:
            target: The argument's name.
            args: Its default, if it has one.
            kwargs: Nothing.

        Raises:
            RuntimeError: There is none, and no default.
        """
        if isinstance(target, str) and target.startswith("*"):
            return [*self.args_iter]
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(
            f"Expected positional argument for parameter {target}, but one was not passed in!"
        )

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return an attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the result of a function."""
        if isinstance(target, str):
            raise AssertionError(f"Expected callable target, got {target!r}")
        return target(*args, **kwargs)

    def call_method(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the result of a method of the first argument."""
        self_obj, *rest = args
        return getattr(self_obj, str(target))(*rest, **kwargs)

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Return the result of a module."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the graph returns."""
        return args[0]

    # --- values -------------------------------------------------------------------------------

    def fetch_attr(self, target: str) -> Any:
        """Return what the module has under a qualified name.

        Raises:
            RuntimeError: There is no such attribute.
        """
        found: Any = self.module
        parts = target.split(".")
        for i, part in enumerate(parts):
            if not hasattr(found, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: i + 1])}")
            found = getattr(found, part)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a node with values for its nodes."""
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError(f"node {n} has arguments of the wrong types")
        return args, kwargs

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Return arguments with values for nodes.

        Raises:
            RuntimeError: A node has no value yet.
        """

        def value(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose "
                    "such issues"
                )
            return self.env[node]

        return map_arg(args, value)


def _last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """The nodes whose values nobody needs after a node."""
    found: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    for user in reversed(graph.nodes):
        for used in user.all_input_nodes:
            if used not in seen:
                seen.add(used)
                found.setdefault(user, []).append(used)
    return found


def _say_where(error: Exception, node: Node) -> None:
    """Add the node to the text of an error."""
    text = f"While executing {node.format_node()}"
    text = f"{error.args[0]}\n\n{text}" if error.args else text
    text += f"\nOriginal traceback:\n{node.stack_trace}"
    error.args = (text, *error.args[1:])


class _TransformerTracer(Tracer):
    """Adds to the graph of a `Transformer`."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph
        self.tensor_attrs = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Makes a graph of a graph: runs it with proxies. Subclasses override what a node becomes.

    Args:
        module: The module of the graph.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph)
        self.tracer.root = module

    def placeholder(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Add an argument."""
        default = next(iter(args)) if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Add the read of an attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Add the call of a module."""
        return self.tracer.call_module(self.fetch_attr(str(target)), self.forward, args, kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run a module that is not a single step: there is none."""
        raise AssertionError("modules are single steps here")

    def call_function(
        self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Add the call of a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Run the graph, and return a module of the new one."""
        with fx_traceback.preserve_node_meta():
            result = super().run(enable_io_processing=False)
        if result is not None:

            def node_of(a: Any) -> Any:
                return a.node if isinstance(a, Proxy) else a

            made = self.new_graph.output(map_aggregate(result, node_of))
            _keep_meta(self.graph, made)
        return GraphModule(self.module, self.new_graph)


def _keep_meta(graph: Graph, output: Node) -> None:
    """Give the output the notes of the one that it stands for."""
    for node in graph.nodes:
        if node.op == "output":
            output.meta.update(node.meta)
