"""Calls of functions in other processes by their rank, which are not here.

Source:
    torch.distributed.rpc.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class, unavailable_names

_WHAT = "processes call each other by queues and collectives here"
_REFUSED = "get_worker_info init_rpc remote rpc_async rpc_sync shutdown".split()
_CLASSES = ["PyRRef", "RRef", "TensorPipeRpcBackendOptions", "WorkerInfo"]

__all__ = ["is_available", *_CLASSES, *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

globals().update({name: unavailable_class(name, __name__, _WHAT) for name in _CLASSES})
RRef: Any
PyRRef: Any


def is_available() -> bool:
    """Return whether such calls can be made: False."""
    return False
