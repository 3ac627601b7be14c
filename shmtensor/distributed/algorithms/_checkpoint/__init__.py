"""Modules that compute again instead of saving tensors.

Source:
    torch.distributed.algorithms._checkpoint.
"""

from __future__ import annotations

from shmtensor.distributed.algorithms._checkpoint import checkpoint_wrapper as checkpoint_wrapper
