"""A graph cut into modules.

Source:
    torch.fx.passes.split_module.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from shmtensor.nn import Module

from ..graph import Graph
from ..graph_module import GraphModule, _get_attr
from ..node import Node, map_arg

__all__ = ["Partition", "split_module"]


class Partition:
    """What becomes one module.

    Args:
        name: What `split_module` was told for its nodes.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.nodes: list[Node] = []
        #: Values from elsewhere that its nodes use, and values that are used elsewhere.
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.dependencies: dict[str, None] = {}
        self.graph = Graph()
        self.targets: dict[str, Any] = {}


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Return a module that calls modules with the parts of a graph.

    Args:
        m: The module of the graph.
        root_m: The module that it was traced from.
        split_callback: Says for each node which part it goes to.
        qualname_map: Takes the new qualified names of modules, with the old ones.
        keep_original_order: Let the parts be in the order in which they begin, which must do.
        keep_original_node_name: Give copied nodes the names of the old ones.
        keep_original_input_name: Call the inputs of parts like the nodes they come from.
        partition_affix: Goes into the names of the modules: ``submod_<affix>_0``.
        tuple_return: Let each part return a tuple, also of one value.

    Raises:
        RuntimeError: Parts would need each other's results.
    """
    parts: dict[str, Partition] = {}
    home: dict[Node, Partition] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr", "output"):
            continue
        name = str(split_callback(node))
        part = parts.setdefault(name, Partition(name))
        if partition_affix is not None:
            part.submod_name = f"submod_{partition_affix}_{name}"
        part.nodes.append(node)
        part.node_names.append(node.name)
        home[node] = part
    _find_borders(m.graph, home)
    order = [*parts.values()] if keep_original_order else _in_order(parts)
    names = bool(keep_original_node_name)
    for part in parts.values():
        _fill(part, m, names, keep_original_input_name, tuple_return, qualname_map)
    return _base_module(m, order, tuple_return)


def _find_borders(graph: Graph, home: dict[Node, Partition]) -> None:
    """Find out which values go from part to part, and from parts to the output."""
    for node in graph.nodes:
        for used in node.all_input_nodes:
            source, user = home.get(used), home.get(node)
            if source is user:
                continue
            if source is not None:
                source.outputs.setdefault(used)
            if user is not None:
                user.inputs.setdefault(used)
                if source is not None:
                    user.dependencies.setdefault(source.name)


def _in_order(parts: dict[str, Partition]) -> list[Partition]:
    """The parts, each after those whose values it uses."""
    waiting = {name: set(part.dependencies) for name, part in parts.items()}
    order: list[Partition] = []
    while waiting:
        ready = [name for name, needs in waiting.items() if not needs & waiting.keys()]
        if not ready:
            raise RuntimeError("cycle exists between partitions!")
        for name in ready:
            order.append(parts[name])
            del waiting[name]
    return order


def _fill(
    part: Partition,
    m: GraphModule,
    keep_names: bool,
    keep_input_names: bool,
    tuple_return: bool,
    qualname_map: dict[str, str] | None,
) -> None:
    """Make the graph of a part."""
    env: dict[Node, Node] = {}
    for i, used in enumerate(part.inputs):
        name = used.name if keep_input_names else f"arg_{i}"
        env[used] = part.graph.placeholder(name, type_expr=used.type)
        env[used].meta = dict(used.meta)
    for node in part.nodes:
        target = node.target
        if node.op == "call_module":
            target = node.target.replace(".", "_")
            part.targets[target] = _get_attr(m, node.target)
            if qualname_map is not None:
                qualname_map[f"{part.submod_name}.{target}"] = node.target
        made = part.graph.create_node(
            node.op,
            target,
            map_arg(node.args, lambda n: env[n]),
            map_arg(node.kwargs, lambda n: env[n]),
            node.name if keep_names else None,
            node.type,
        )
        made.meta = dict(node.meta)
        env[node] = made
    values = tuple(env[node] for node in part.outputs)
    is_single = len(values) == 1 and not tuple_return
    part.graph.output(values[0] if is_single else values)


def _base_module(m: GraphModule, order: list[Partition], tuple_return: bool) -> GraphModule:
    """The module that calls the parts."""
    graph = Graph()
    env: dict[Node, Node] = {}
    targets: dict[str, Any] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            env[node] = graph.node_copy(node)
            if node.op == "get_attr":
                targets[node.target] = _get_attr(m, node.target)
    for part in order:
        targets[part.submod_name] = GraphModule(part.targets, part.graph)
        targets[part.submod_name].train(m.training)
        call = graph.call_module(part.submod_name, tuple(env[used] for used in part.inputs))
        if len(part.outputs) == 1 and not tuple_return:
            env[next(iter(part.outputs))] = call
        else:
            for i, node in enumerate(part.outputs):
                env[node] = graph.call_function(operator.getitem, (call, i))
    for node in m.graph.nodes:
        if node.op == "output":
            graph.output(map_arg(node.args[0], lambda n: env[n]), node.type)
    made = GraphModule(targets, graph)
    made.train(m.training)
    return made
