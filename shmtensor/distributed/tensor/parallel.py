"""Models with layers that a group of processes computes together; they are missing here.

Source:
    torch.distributed.tensor.parallel.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_class, unavailable_names

_WHAT = "process groups do not shard tensors here"
_REFUSED = ["loss_parallel", "parallelize_module"]
_CLASSES = """
    ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput
    RowwiseParallel SequenceParallel
""".split()

__all__ = [*_CLASSES, *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

globals().update({name: unavailable_class(name, __name__, _WHAT) for name in _CLASSES})
