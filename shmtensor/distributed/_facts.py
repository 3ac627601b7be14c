"""Which backends exist.

Source:
    torch.distributed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from shmtensor.distributed._backend import Backend

__all__ = [
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]


def is_available() -> bool:
    """Return whether there are process groups: True."""
    return True


def is_backend_available(backend: str) -> bool:
    """Return whether a backend of this name can be used."""
    return Backend.is_registered(backend)


def is_gloo_available() -> bool:
    """Return whether ``"gloo"`` is a backend: True; it is another name of ``"shm"``."""
    return Backend.is_registered("gloo")


def is_mpi_available() -> bool:
    """Return whether ``"mpi"`` is a backend, which needs the package mpi4py."""
    creator: Callable[..., Any] | None = Backend._creators.get("mpi")
    return creator is not None and bool(getattr(creator, "is_available", lambda: True)())


def is_nccl_available() -> bool:
    """Return whether NCCL is here: False."""
    return False


def is_ucc_available() -> bool:
    """Return whether UCC is here: False."""
    return False


def is_xccl_available() -> bool:
    """Return whether XCCL is here: False."""
    return False


def is_torchelastic_launched() -> bool:
    """Return whether a launcher has started this process, as its variable says."""
    return os.getenv("TORCHELASTIC_RUN_ID") is not None
