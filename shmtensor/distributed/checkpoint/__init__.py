"""Checkpoints that the ranks of a group write together, which are not here.

A group has whole tensors on every rank: one of them writes `shmtensor.save`'s file.

Source:
    torch.distributed.checkpoint.
"""

from __future__ import annotations

from shmtensor._core._not_offered import unavailable_class, unavailable_names

_WHAT = "every rank has whole tensors here; save and load write and read their files"
_REFUSED = "async_save load load_state_dict save save_state_dict".split()
_CLASSES = """
    DefaultLoadPlanner DefaultSavePlanner FileSystemReader FileSystemWriter LoadPlanner SavePlanner
    StorageReader StorageWriter
""".split()

__all__ = [*_CLASSES, *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

globals().update({name: unavailable_class(name, __name__, _WHAT) for name in _CLASSES})
