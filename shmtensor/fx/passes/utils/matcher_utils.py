"""The places of a graph that look like a pattern.

A pattern is a graph too. Its arguments match any value, the rest of it only nodes that do the same
with the same arguments, and whose results nobody else uses, except for what the pattern returns.

Source:
    torch.fx.passes.utils.matcher_utils.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import shmtensor

from ...graph import Graph
from ...graph_module import _get_attr
from ...node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A place that looks like the pattern.

    Args:
        anchors: The nodes of the pattern that the search began at: what it returns.
        nodes_map: The nodes of the pattern, with those of the graph.
        placeholder_nodes: What the pattern's arguments are, in their order.
        returning_nodes: What the pattern returns, in that order.
        name_node_map: Nodes of the graph by names that the pattern gives them.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors,
            dict(self.nodes_map),
            [*self.placeholder_nodes],
            [*self.returning_nodes],
            dict(self.name_node_map),
        )


class SubgraphMatcher:
    """Searches graphs for a pattern.

    Args:
        pattern: The pattern.
        match_output: Let the pattern's output be the graph's.
        match_placeholder: Let the pattern's arguments match arguments only.
        remove_overlapping_matches: Leave out places that share nodes with one before.
        ignore_literals: Let numbers and strings match any others.

    Raises:
        ValueError: The pattern is empty.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        output = pattern.output_node()
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        self.pattern_returning_nodes = output.all_input_nodes
        if match_output:
            self.pattern_anchors = [output]
        else:
            # What another returned value is made of is found with that.
            self.pattern_anchors = [n for n in output.all_input_nodes if len(n.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the places of a graph that look like the pattern, in their order.

        Args:
            graph: The graph.
            node_name_match: Begin only at nodes with this in their names.
        """
        candidates = [
            [
                node
                for node in graph.nodes
                if node_name_match in node.name and self._does_the_same(anchor, node)
            ]
            for anchor in self.pattern_anchors
        ]
        found: list[InternalMatch] = []
        taken: set[Node] = set()
        for nodes in itertools.product(*candidates):
            match = InternalMatch(anchors=self.pattern_anchors)
            pairs = zip(self.pattern_anchors, nodes, strict=True)
            if not all(self._match_nodes(p, n, match) for p, n in pairs):
                continue
            if not self._is_contained(match.nodes_map):
                continue
            self._complete(match)
            inner = {n for p, n in self._inner(match)}
            if self.remove_overlapping_matches:
                if inner & taken:
                    continue
                taken |= inner
            found.append(match)
        return found

    def _inner(self, match: InternalMatch) -> Iterator[tuple[Node, Node]]:
        """The pairs that are not arguments of the pattern, which stay when it is replaced."""
        for p, n in match.nodes_map.items():
            if p.op not in ("placeholder", "output") and isinstance(n, Node):
                yield p, n

    def _complete(self, match: InternalMatch) -> None:
        """Add what the pattern takes and returns, in its order."""
        match.placeholder_nodes = [
            match.nodes_map[p] for p in self.pattern_placeholder_nodes if p in match.nodes_map
        ]
        match.returning_nodes = [match.nodes_map[p] for p in self.pattern_returning_nodes]

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Whether nobody outside uses what is inside."""
        inside = {n: p for p, n in nodes_map.items() if isinstance(n, Node)}
        for n, p in inside.items():
            if p.op == "placeholder" or p in self.pattern_returning_nodes:
                continue
            if any(user not in inside for user in n.users):
                return False
        return True

    # --- one node -----------------------------------------------------------------------------

    def _does_the_same(self, p: Node, n: Node) -> bool:
        """Whether a node does what the pattern's does, arguments apart."""
        if p.op == "placeholder" and not self.match_placeholder:
            return True
        if p.op != n.op:
            return False
        if p.op in ("placeholder", "output"):
            return True
        if p.op == "get_attr":
            return self._are_equal_attributes(p, n)
        return bool(p.target == n.target)

    def _are_equal_attributes(self, p: Node, n: Node) -> bool:
        if p.graph.owning_module is None or n.graph.owning_module is None:
            return bool(p.target == n.target)
        left = _get_attr(p.graph.owning_module, p.target)
        right = _get_attr(n.graph.owning_module, n.target)
        if type(left) is not type(right):
            return False
        return isinstance(left, shmtensor.Tensor | shmtensor.nn.Module) or bool(left == right)

    def _match_literals(self, p: Any, n: Any, match: InternalMatch) -> bool:
        if isinstance(p, Node) and p.op == "placeholder":
            if p in match.nodes_map:
                return bool(match.nodes_map[p] == n)
            match.nodes_map[p] = n
            return True
        if isinstance(p, Node) or isinstance(n, Node):
            return False
        return self.ignore_literals or (type(p) is type(n) and bool(p == n))

    def _match_values(self, p: Any, n: Any, match: InternalMatch) -> bool:
        if isinstance(p, Node) and isinstance(n, Node):
            return self._match_nodes(p, n, match)
        if isinstance(p, list | tuple):
            return (
                isinstance(n, list | tuple)
                and len(p) == len(n)
                and all(self._match_values(a, b, match) for a, b in zip(p, n, strict=True))
            )
        if isinstance(p, dict):
            return (
                isinstance(n, dict)
                and p.keys() == n.keys()
                and all(self._match_values(p[key], n[key], match) for key in p)
            )
        if isinstance(p, slice) and isinstance(n, slice):
            return self._match_values((p.start, p.stop, p.step), (n.start, n.stop, n.step), match)
        return self._match_literals(p, n, match)

    def _match_nodes(self, p: Node, n: Node, match: InternalMatch) -> bool:
        """Whether a node, and what it is made of, looks like the pattern's; notes it in *match*."""
        if p in match.nodes_map:
            return match.nodes_map[p] is n
        if n in match.nodes_map.values():  # one node is not two of the pattern
            return False
        if not self._does_the_same(p, n):
            return False
        before = copy.copy(match)
        match.nodes_map[p] = n
        if p.op == "placeholder":
            return True
        if self._match_values(p.args, n.args, match) and self._match_values(
            dict(p.kwargs), dict(n.kwargs), match
        ):
            return True
        match.nodes_map = before.nodes_map
        return False
