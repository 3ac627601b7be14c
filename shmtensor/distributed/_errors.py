"""Errors of group calls when a peer, a network or a store fails.

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
    """A group's work has failed."""


class DistBackendError(DistError):
    """A group's backend has failed: a rank has ended, or a call took too long."""


class DistNetworkError(DistError):
    """A connection has failed: a port is in use, or a store does not answer."""


class DistStoreError(DistError):
    """A store did not get the expected keys in time."""


class QueueEmptyError(DistStoreError):
    """A queue of a store is empty."""


_class: type[DistError]
for _class in (DistError, DistBackendError, DistNetworkError, DistStoreError, QueueEmptyError):
    _class.__module__ = "shmtensor.distributed"
