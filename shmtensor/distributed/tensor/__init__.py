"""Tensors that a group of processes holds in parts, which are not here.

No tensor is a `DTensor`, so that programs which ask go on with plain ones.

Source:
    torch.distributed.tensor.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class, unavailable_names
from shmtensor.distributed.tensor import parallel as parallel
from shmtensor.distributed.tensor.placement_types import (
    Partial as Partial,
)
from shmtensor.distributed.tensor.placement_types import (
    Placement as Placement,
)
from shmtensor.distributed.tensor.placement_types import (
    Replicate as Replicate,
)
from shmtensor.distributed.tensor.placement_types import (
    Shard as Shard,
)

_WHAT = "process groups do not shard tensors here"
_REFUSED = "distribute_module distribute_tensor empty full ones rand randn zeros".split()

__all__ = ["DTensor", "Partial", "Placement", "Replicate", "Shard", *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

DTensor: Any = unavailable_class("DTensor", __name__, _WHAT)
