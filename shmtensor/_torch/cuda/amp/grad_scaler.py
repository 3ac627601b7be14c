"""The older name of `amp.GradScaler` for CUDA."""

from __future__ import annotations

from shmtensor.amp._older_names import OlderGradScaler

__all__ = ["GradScaler"]


class GradScaler(OlderGradScaler):
    """``amp.GradScaler("cuda", ...)``, whose older name this is."""

    _kind = "cuda"
