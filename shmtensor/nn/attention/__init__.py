"""Which algorithms may compute attention.

On the CPU there are two: in one pass over the keys ("flash"), and composed of products and a
softmax ("math"). The kernel takes the faster one that fits; a context in which neither may be used
makes `nn.functional.scaled_dot_product_attention` raise.

Source:
    torch.nn.attention.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterable, Iterator
from typing import Any

from shmtensor._core._attention_choice import allowed
from shmtensor.nn.attention import bias as bias

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]

#: Whether to warn where no fused algorithm fits. Nothing reads it here.
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    """An algorithm that computes attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_FLAGS = {
    SDPBackend.CUDNN_ATTENTION: "cudnn",
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
    SDPBackend.MATH: "math",
    SDPBackend.OVERRIDEABLE: "overrideable",
}


def _cur_sdpa_kernel_backends(with_priority: bool = False) -> list[SDPBackend]:
    """Return the algorithms that may be used now."""
    return [backend for backend, flag in _FLAGS.items() if allowed[flag]]


@contextlib.contextmanager
def sdpa_kernel(
    backends: SDPBackend | Iterable[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Allow only these algorithms for attention in a block.

    Args:
        backends: One or several.
        set_priority: Ignored; it asks for the first backend that fits.

    Raises:
        AssertionError: Something else is given.
    """
    if isinstance(backends, SDPBackend):
        backends = [backends]
    if not isinstance(backends, Iterable):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances"
        )
    wanted = {_FLAGS.get(backend) for backend in backends}
    before = dict(allowed)
    allowed.update({flag: flag in wanted for flag in allowed})
    try:
        yield
    finally:
        allowed.update(before)


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """Return whether a CUDA device could compute this attention in one pass: False."""
    return False


def can_use_efficient_attention(params: Any, debug: bool = False) -> bool:
    """Return whether a CUDA device could compute this attention by xFormers: False."""
    return False
