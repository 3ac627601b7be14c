"""What every namespace of an absent device answers when it is asked what is there: nothing.

``from shmtensor._absent_devices.answers import *`` gives a namespace all of these names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "_is_compiled",
    "_is_in_bad_fork",
    "_lazy_call",
    "device_count",
    "get_arch_list",
    "get_gencode_flags",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_tf32_supported",
]


def is_available() -> bool:
    """Return whether there is such a device: False."""
    return False


def device_count() -> int:
    """Return how many such devices there are: 0."""
    return 0


def is_initialized() -> bool:
    """Return whether the devices were initialized: False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the current device computes in bfloat16: False, there is none."""
    return False


def is_tf32_supported() -> bool:
    """Return whether the current device has the format TF32: False, there is none."""
    return False


def get_arch_list() -> list[str]:
    """Return the architectures that there is code for: none."""
    return []


def get_gencode_flags() -> str:
    """Return the compiler's options for these architectures: none."""
    return ""


def _is_compiled() -> bool:
    return False


def _is_in_bad_fork() -> bool:
    return False


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Call a function as soon as the devices are initialized, which never happens."""
