"""The namespace of Intel's XPU devices; there are none here.

``is_available()`` is False and ``device_count()`` 0; seeds do nothing; what needs a device raises
AssertionError, as torch does where it was built without XPU.

Source:
    torch.xpu.
"""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._absent_devices import Device, DeviceGuard, refusals
from shmtensor._core._absent_devices import StreamContext as StreamContext
from shmtensor._core._absent_devices.answers import *  # noqa: F403

from . import graphs as graphs
from . import memory as memory
from . import random as random
from . import streams as streams
from ._refusal import refusal
from .graphs import *  # noqa: F403
from .memory import *  # noqa: F403
from .random import *  # noqa: F403
from .streams import *  # noqa: F403

_REFUSED = """
    can_device_access_peer clock_rate current_device current_stream device_memory_used
    get_device_capability get_device_name get_device_properties get_stream_from_external init
    memory_usage power_draw set_stream synchronize temperature utilization
""".split()

__getattr__, __dir__ = refusals(__name__, _REFUSED, refusal)

default_generators: tuple[_C.Generator, ...] = ()


def _lazy_init() -> None:
    """Raise AssertionError, as everything that needs a device does."""
    raise refusal()


class device(DeviceGuard):
    """A context in which another XPU device is the current one.

    Raises:
        ValueError: A device of another type.
        NotImplementedError: On entering with a number from 0 on; there is no such device.
    """

    _kind = "xpu"
    _absence = NotImplementedError("PyTorch was compiled without XPU support")


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
