"""Whatever accelerator the machine has: none.

Source:
    torch.accelerator.
"""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._absent_devices import Device, refusals
from shmtensor._core._absent_devices import Unchanging as _Unchanging
from shmtensor._core._absent_devices import no as _no

_REFUSED = """
    Graph current_device_idx current_device_index current_stream empty_cache empty_host_cache
    get_device_capability get_memory_info max_memory_allocated max_memory_reserved
    memory_allocated memory_reserved memory_stats reset_accumulated_memory_stats
    reset_peak_memory_stats set_stream synchronize
""".split()

__all__ = [
    "current_accelerator",
    "device_count",
    "device_index",
    "is_available",
    "set_device_idx",
    "set_device_index",
    *_REFUSED,
]


def _refusal(name: str = "") -> RuntimeError:
    return RuntimeError("Cannot access accelerator device when none is available.")


__getattr__, __dir__ = refusals(__name__, _REFUSED, _refusal)


is_available = _no(__name__, "is_available", "there is an accelerator")


def device_count() -> int:
    """Return how many accelerators there are: 0."""
    return 0


def current_accelerator(check_available: bool = False) -> _C.device | None:
    """Return the device type of the accelerator: None."""
    return None


def set_device_index(device: Device, /) -> None:
    """Make another accelerator the current one.

    Raises:
        RuntimeError: There is none.
    """
    if isinstance(device, int):
        raise _refusal()
    raise RuntimeError("Accelerator expected")


set_device_idx = set_device_index


class device_index(_Unchanging):
    """A context in which another accelerator is the current one; None changes nothing.

    Args:
        device: Its number.

    Raises:
        RuntimeError: On entering with a number; there is none.
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.prev_idx: Any = None

    def __enter__(self) -> None:
        if self.idx is not None:
            raise _refusal()
