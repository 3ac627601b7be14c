"""Recording through cffi: what tests ask about graphs."""

from __future__ import annotations

from shmtensor._C import lib

__all__ = ["live_nodes"]


def live_nodes() -> int:
    """Return how many graph nodes are alive in this process."""
    return int(lib.shmt_live_nodes())
