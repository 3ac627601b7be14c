"""Graphs of XPU work: nothing can be captured."""

from __future__ import annotations

from shmtensor._core._absent_devices import absent_class, refusals

_REFUSED = "graph_pool_handle is_current_stream_capturing make_graphed_callables".split()

__all__ = ["XPUGraph", "graph", *_REFUSED]


# What the error calls what was asked for.
_NAMES = {
    "graph_pool_handle": "_xpu_graph_pool_handle",
    "is_current_stream_capturing": "_xpu_isCurrentStreamCapturing",
}


def _refusal(name: str) -> RuntimeError:
    return RuntimeError(f"Tried to instantiate dummy base class {_NAMES.get(name, name)}")


__getattr__, __dir__ = refusals(__name__, _REFUSED, _refusal)

XPUGraph = absent_class("XPUGraph", "torch.xpu", _refusal)
graph = absent_class("graph", "torch.xpu", _refusal)
