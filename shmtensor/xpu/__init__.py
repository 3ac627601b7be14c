"""The namespace of Intel's XPU devices, of which there are none.

``is_available()`` is False and ``device_count()`` 0; seeds do nothing; what needs a device raises
AssertionError, as torch does where it was built without XPU.

Source:
    torch.xpu.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor._absent_devices import Device, DeviceGuard, device_number, refusals
from shmtensor._absent_devices import StreamContext as StreamContext
from shmtensor.xpu import graphs as graphs
from shmtensor.xpu import memory as memory
from shmtensor.xpu import random as random
from shmtensor.xpu import streams as streams
from shmtensor.xpu._refusal import refusal
from shmtensor.xpu.graphs import *  # noqa: F403
from shmtensor.xpu.memory import *  # noqa: F403
from shmtensor.xpu.random import *  # noqa: F403
from shmtensor.xpu.streams import *  # noqa: F403

_REFUSED = """
    can_device_access_peer clock_rate current_device current_stream device_memory_used
    get_device_capability get_device_name get_device_properties get_stream_from_external init
    memory_usage power_draw set_stream synchronize temperature utilization
""".split()

__getattr__, __dir__ = refusals(__name__, _REFUSED, refusal)

default_generators: tuple[_C.Generator, ...] = ()


def is_available() -> bool:
    """Return whether there is an XPU device: False."""
    return False


def device_count() -> int:
    """Return how many XPU devices there are: 0."""
    return 0


def is_initialized() -> bool:
    """Return whether XPU was initialized: False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether the current XPU device computes in bfloat16: False, there is none."""
    return False


def is_tf32_supported() -> bool:
    """Return whether the current XPU device has the format TF32: False, there is none."""
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


def _lazy_init() -> None:
    """Raise AssertionError, as everything that needs a device does."""
    raise refusal()


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Call a function as soon as XPU is initialized, which never happens."""


def _no_support() -> NotImplementedError:
    return NotImplementedError("PyTorch was compiled without XPU support")


class device(DeviceGuard):
    """A context in which another device is the current one.

    Args:
        device: A number, or a device or its name. A negative number, a device without one and None
            change nothing.

    Raises:
        ValueError: A device of another type.
        NotImplementedError: On entering with a number from 0 on; there is no such device.
    """

    def __init__(self, device: Any) -> None:
        super().__init__(device_number(device, "xpu", optional=True), _no_support)


class device_of(device):
    """A context in which a tensor's device is the current one; of a tensor elsewhere, no change.

    Args:
        obj: A tensor or a storage.
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_xpu else -1)


def set_device(device: Device) -> None:
    """Make another device the current one.

    Raises:
        AssertionError: There is no device.
    """
    raise refusal()


def stream(stream: Any) -> StreamContext:
    """Return a context for a stream; None changes nothing, and there are no others."""
    return StreamContext(stream)
