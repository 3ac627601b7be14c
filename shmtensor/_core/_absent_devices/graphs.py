"""Graphs of the work of absent devices: nothing can be captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import absent_class, dummy_refusal, refusals

__all__ = ["REFUSED", "graphs_of"]

REFUSED = "graph_pool_handle is_current_stream_capturing make_graphed_callables".split()


class Graphs(NamedTuple):
    """The parts of a namespace: what finds and lists its functions, and its classes."""

    find: Callable[[str], Any]
    listed: Callable[[], list[str]]
    graph_class: Any
    graph: Any


def graphs_of(module: str, kind: str, graph_class: str, native: dict[str, str]) -> Graphs:
    """Return the parts of the namespace of a device's graphs.

    Args:
        module: Where they are found.
        kind: The type of the device.
        graph_class: Name of the class of graphs.
        native: What errors call the functions, where it is not their name.
    """

    def refusal(name: str) -> RuntimeError:
        return dummy_refusal(native.get(name, name))

    package = f"torch.{kind}"
    return Graphs(
        *refusals(module, REFUSED, refusal),
        absent_class(graph_class, package, refusal),
        absent_class("graph", package, refusal),
    )
