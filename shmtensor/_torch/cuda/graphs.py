"""Graphs of CUDA work: nothing can be captured."""

from __future__ import annotations

from shmtensor._core._absent_devices import absent_class, refusals

_REFUSED = "graph_pool_handle is_current_stream_capturing make_graphed_callables".split()

__all__ = ["CUDAGraph", "graph", *_REFUSED]


# What the error calls what was asked for.
_NAMES = {
    "graph_pool_handle": "_graph_pool_handle",
    "is_current_stream_capturing": "_cuda_isCurrentStreamCapturing",
}


def _refusal(name: str) -> RuntimeError:
    return RuntimeError(f"Tried to instantiate dummy base class {_NAMES.get(name, name)}")


__getattr__, __dir__ = refusals(__name__, _REFUSED, _refusal)

CUDAGraph = absent_class("CUDAGraph", "torch.cuda", _refusal)
graph = absent_class("graph", "torch.cuda", _refusal)
