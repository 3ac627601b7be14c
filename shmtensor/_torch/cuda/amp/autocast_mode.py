"""The older name of `amp.autocast` for CUDA."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from shmtensor import _C, amp

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """``amp.autocast("cuda", ...)``, whose older name this is."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: _C.dtype = _C.float16,
        cache_enabled: bool = True,
    ) -> None:
        warnings.warn(
            "`torch.cuda.amp.autocast(args...)` is deprecated. Please use "
            "`torch.amp.autocast('cuda', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


def _is_old(name: str) -> None:
    warnings.warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use "
        f"`torch.amp.{name}(args..., device_type='cuda')` instead.",
        FutureWarning,
        stacklevel=3,
    )


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: _C.dtype | None = None
) -> Callable[..., Any]:
    """Call ``amp.custom_fwd`` for CUDA; this is an older name."""
    _is_old("custom_fwd")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """Call ``amp.custom_bwd`` for CUDA; this is an older name."""
    _is_old("custom_bwd")
    return amp.custom_bwd(bwd, device_type="cuda")
