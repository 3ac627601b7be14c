"""Older names of `shmtensor.hub`."""

from __future__ import annotations

from shmtensor.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
