"""Processes of a group in rows and columns, which are not here.

Source:
    torch.distributed.device_mesh.
"""

from __future__ import annotations

from shmtensor.distributed import DeviceMesh as DeviceMesh  # type: ignore[attr-defined]
from shmtensor.distributed import init_device_mesh as init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
