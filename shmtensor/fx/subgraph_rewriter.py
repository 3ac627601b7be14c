"""Places of a graph that look like a pattern, replaced by another graph.

Source:
    torch.fx.subgraph_rewriter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule, _assign_attr, _get_attr, _has_attr
from .node import Node
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

Pattern = Callable[..., Any] | Graph | GraphModule
Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """A place that was replaced.

    Args:
        anchor: The node of the pattern that the search began at.
        nodes_map: The nodes of the pattern, with those of the graph that was.
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A place that was replaced, with what stands there now.

    Args:
        anchor: The node of the pattern that the search began at.
        nodes_map: The nodes of the pattern, with those of the graph that was.
        replacements: The nodes that were added.
    """

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Replace all places of a graph that look like a pattern; those that overlap once.

    Args:
        gm: The module of the graph, which is compiled again.
        pattern: A function or module that does what is searched for. Its arguments match any value.
        replacement: One that takes the same arguments and returns as many values.

    Returns:
        The places.
    """
    return [
        Match(done.anchor, done.nodes_map) for done in _replace(gm, pattern, replacement, (), False)
    ]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None = None,
    match_filters: list[Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """Replace the places of a graph that look like a pattern and pass some functions.

    Args:
        gm: The module of the graph, which is compiled again.
        pattern: What is searched for; a graph will do.
        replacement: What comes instead.
        match_filters: Take a match, the graph and the pattern's, and say whether it is replaced.
        ignore_literals: Let numbers and strings match any others.
        replacement_callback: Makes the replacement of a match, instead of *replacement*.
        node_name_match: Begin only at nodes with this in their names.

    Returns:
        The places.
    """
    return _replace(
        gm,
        pattern,
        replacement,
        match_filters or (),
        ignore_literals,
        replacement_callback,
        node_name_match,
    )


def _graph_of(pattern: Pattern) -> Graph:
    if isinstance(pattern, GraphModule):
        return pattern.graph
    return pattern if isinstance(pattern, Graph) else symbolic_trace(pattern).graph


def _replace(
    gm: GraphModule,
    pattern: Pattern,
    replacement: Pattern | None,
    filters: Any,
    ignore_literals: bool,
    make_replacement: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(
        pattern_graph, remove_overlapping_matches=True, ignore_literals=ignore_literals
    )
    matches = [
        match
        for match in matcher.match(graph, node_name_match)
        if all(passes(match, graph, pattern_graph) for passes in filters)
    ]
    given = _graph_of(replacement) if replacement is not None else None
    if given is None and make_replacement is None:
        raise AssertionError(
            "Must provide either a replacement GraphModule or a replacement callback"
        )
    done: list[ReplacedPatterns] = []
    #: What stands for nodes that were replaced, in matches that come later.
    became: dict[Node, Node] = {}
    for match in matches:
        made = given if make_replacement is None else make_replacement(match, graph, pattern_graph)
        if made is None:
            raise AssertionError("the replacement callback returned no graph")
        _follow(match, became)
        added = _put(graph, match, made, became)
        done.append(ReplacedPatterns(match.anchors[0], match.nodes_map, added))
        if made.owning_module is not None:
            _take_attributes(gm, made)
    for made in [given] if given is not None else []:
        if made.owning_module is not None:
            _take_attributes(gm, made)
    gm.recompile()
    if done:
        gm.delete_all_unused_submodules()
    return done


def _follow(match: InternalMatch, became: dict[Node, Node]) -> None:
    """Let a match name the nodes that stand for replaced ones."""

    def now(node: Any) -> Any:
        while isinstance(node, Node) and node in became:
            node = became[node]
        return node

    match.placeholder_nodes = [now(node) for node in match.placeholder_nodes]
    match.nodes_map = {p: now(n) for p, n in match.nodes_map.items()}


def _put(graph: Graph, match: InternalMatch, made: Graph, became: dict[Node, Node]) -> list[Node]:
    """Put a graph in the place of a match, and return the nodes that were added."""
    arguments = [node for node in made.nodes if node.op == "placeholder"]
    if len(arguments) != len(match.placeholder_nodes):
        raise AssertionError(
            f"the pattern has {len(match.placeholder_nodes)} arguments and its replacement "
            f"{len(arguments)}"
        )
    env: dict[Node, Any] = dict(zip(arguments, match.placeholder_nodes, strict=True))
    with graph.inserting_before(_place(graph, match)):
        returned = graph.graph_copy(made, env)
    added = [n for p, n in env.items() if p.op != "placeholder"]
    if not isinstance(returned, list | tuple):
        returned = (returned,)
    if len(returned) != len(match.returning_nodes):
        raise AssertionError(
            f"the pattern returns {len(match.returning_nodes)} values and its replacement "
            f"{len(returned)}"
        )
    for old, new in zip(match.returning_nodes, returned, strict=True):
        old.replace_all_uses_with(new)
        became[old] = new
    inner = {n for p, n in match.nodes_map.items() if p.op not in ("placeholder", "output")}
    for node in reversed(graph.nodes):
        if node in inner and not node.users:
            graph.erase_node(node)
    return added


def _place(graph: Graph, match: InternalMatch) -> Node:
    """The node before which the replacement goes: the first that uses a returned value."""
    inner = {n for n in match.nodes_map.values() if isinstance(n, Node)}
    users = [u for node in match.returning_nodes for u in node.users if u not in inner]
    if users:
        first = min(users)
        needed = [n for n in match.placeholder_nodes if isinstance(n, Node)]
        # All arguments stand before the first use of what they are made into.
        if all(n < first for n in needed):
            return first
    return max(match.returning_nodes).next


def _take_attributes(gm: GraphModule, made: Graph) -> None:
    """Give a module what a replacement reads and calls."""
    for node in gm.graph.nodes:
        if node.op not in ("get_attr", "call_module") or _has_attr(gm, node.target):
            continue
        if made.owning_module is None or not _has_attr(made.owning_module, node.target):
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target '
                f"{node.target}, but the referenced attribute does not exist in the replacement "
                "GraphModule"
            )
        value = _get_attr(made.owning_module, node.target)
        if node.op == "call_module":
            gm.add_submodule(node.target, value)
        else:
            _assign_attr(value, gm, node.target)
