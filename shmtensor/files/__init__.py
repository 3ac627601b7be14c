"""Arrays in files, mapped or read straight into shared memory, and Arrow arrays.

`load_npy`, `load_npz` and `load_safetensors` take the same two arguments: *mode* says how to map a
file; *shared* reads it into shared memory instead, so other processes get the tensors by handle.
Headers are checked before use, and nothing in a file is executed.
"""

# ruff: noqa: I001 - one statement for each module, though names are exported by "as"

from __future__ import annotations

from shmtensor.files._arrow import from_arrow as from_arrow
from shmtensor.files._npy import load_npy as load_npy, save_npy as save_npy
from shmtensor.files._npz import load_npz as load_npz, save_npz as save_npz
from shmtensor.utils.safetensors import (
    SafetensorsError as SafetensorsError,
    load_file as load_safetensors,
    open_file as open_safetensors,
    save_file as save_safetensors,
)

__all__ = [
    "SafetensorsError",
    "from_arrow",
    "load_npy",
    "load_npz",
    "load_safetensors",
    "open_safetensors",
    "save_npy",
    "save_npz",
    "save_safetensors",
]
