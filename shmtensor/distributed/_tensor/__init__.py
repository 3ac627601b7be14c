"""The first name of `distributed.tensor`.

Source:
    torch.distributed._tensor.
"""

from __future__ import annotations

from shmtensor.distributed.tensor import *  # noqa: F403
