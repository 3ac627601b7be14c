"""The first name of `distributed.tensor.experimental`.

Source:
    torch.distributed._tensor.experimental.
"""

from __future__ import annotations

from shmtensor.distributed.tensor.experimental import *  # noqa: F403
