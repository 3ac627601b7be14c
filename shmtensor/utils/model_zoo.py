"""Older names of `shmtensor.hub`."""

from __future__ import annotations

from typing import Any

from shmtensor import hub
from shmtensor.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    if name == "tqdm":
        return hub.tqdm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
