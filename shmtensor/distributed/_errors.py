"""What calls of a group raise when a peer, a network or a store fails.

Source:
    torch.distributed.
"""

from __future__ import annotations

from shmtensor.errors import ShmTensorError

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "QueueEmptyError",
]


class DistError(ShmTensorError, RuntimeError):
    """Work of a group has failed."""


class DistBackendError(DistError):
    """What carries a group's data has failed: a rank has ended, or a call took too long."""


class DistNetworkError(DistError):
    """A connection has failed: a port is in use, or a store does not answer."""


class DistStoreError(DistError):
    """A store does not have the keys that were waited for."""


class QueueEmptyError(DistStoreError):
    """A queue of a store is empty."""


for _class in (DistError, DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError):
    _class.__module__ = "shmtensor.distributed"
