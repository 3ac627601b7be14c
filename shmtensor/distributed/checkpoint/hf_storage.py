"""Checkpoints of groups as safetensors files, which are not here.

`utils.safetensors` writes and reads the files of one process.

Source:
    torch.distributed.checkpoint.hf_storage.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class

_WHAT = "every rank has whole tensors here; utils.safetensors writes and reads such files"

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

HuggingFaceStorageReader: Any = unavailable_class("HuggingFaceStorageReader", __name__, _WHAT)
HuggingFaceStorageWriter: Any = unavailable_class("HuggingFaceStorageWriter", __name__, _WHAT)
