"""Graphs of XPU work: nothing can be captured."""

from __future__ import annotations

from shmtensor._core._absent_devices.graphs import REFUSED as _REFUSED
from shmtensor._core._absent_devices.graphs import graphs_of as _graphs_of

__all__ = ["XPUGraph", "graph", *_REFUSED]

# What the error calls what was asked for.
_NAMES = {
    "graph_pool_handle": "_xpu_graph_pool_handle",
    "is_current_stream_capturing": "_xpu_isCurrentStreamCapturing",
}

__getattr__, __dir__, XPUGraph, graph = _graphs_of(__name__, "xpu", "XPUGraph", _NAMES)
