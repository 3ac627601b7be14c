"""What groups take when nothing is said.

Source:
    torch.distributed.constants.
"""

from __future__ import annotations

from shmtensor.distributed._backend import default_pg_timeout

__all__ = ["default_pg_timeout"]
