"""NVIDIA's library of collective operations, which is not here."""

from __future__ import annotations

from typing import Any

from shmtensor._core._absent_devices import refusals

from ._refusal import refusal

_REFUSED = (
    "all_gather all_reduce broadcast init_rank reduce reduce_scatter unique_id version".split()
)

__all__ = ["is_available", *_REFUSED]

__getattr__, __dir__ = refusals(__name__, _REFUSED, refusal)


def is_available(tensors: Any) -> bool:
    """Return whether the library can work on these tensors: False."""
    return False
