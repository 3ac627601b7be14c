"""The names of `shmtensor.distributed`, where some libraries look for them.

Source:
    torch.distributed.distributed_c10d.
"""

from __future__ import annotations

from shmtensor import distributed as _distributed
from shmtensor.distributed import *  # noqa: F403
from shmtensor.distributed._group import (
    _default_group as _get_default_group,  # noqa: F401
)
from shmtensor.distributed._group import (
    _default_store as _get_default_store,  # noqa: F401
)
from shmtensor.distributed._group import (
    _pg_map as _pg_map,
)
from shmtensor.distributed._group import (
    _rank_not_in_group as _rank_not_in_group,
)

__all__ = list(_distributed.__all__)
