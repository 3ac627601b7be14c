"""The namespace of Intel's XPU devices; there are none here.

``is_available()`` is False and ``device_count()`` 0; seeds do nothing; what needs a device raises
AssertionError, as torch does where it was built without XPU.

Source:
    torch.xpu.
"""

from __future__ import annotations

from shmtensor import _C
from shmtensor._core._absent_devices import Device, refusals
from shmtensor._core._absent_devices import StreamContext as StreamContext
from shmtensor._core._absent_devices.answers import *  # noqa: F403
from shmtensor._core._absent_devices.guards import guards_of as _guards_of

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


device, device_of, stream, _lazy_init = _guards_of(
    __name__, "xpu", NotImplementedError("PyTorch was compiled without XPU support"), refusal
)


def set_device(device: Device) -> None:
    """Make another device the current one.

    Raises:
        AssertionError: There is no device.
    """
    raise refusal()
