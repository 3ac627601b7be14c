"""The namespace of MTIA devices, of which there are none.

``is_available()`` is False and ``device_count()`` 0; seeds do nothing; what needs a device raises,
as torch does where it was built without MTIA.

Source:
    torch.mtia.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from shmtensor import _C
from shmtensor._absent_devices import (
    Device,
    DeviceGuard,
    absent_class,
    device_number,
    refusals,
)
from shmtensor._absent_devices import StreamContext as StreamContext

# What the error calls what was asked for.
_REFUSED = {
    "attach_out_of_memory_observer": "attachOutOfMemoryObserver",
    "current_device": "getCurrentDevice",
    "current_stream": "getCurrentDevice",
    "default_stream": "getCurrentDevice",
    "empty_cache": "emptyCache",
    "get_device_capability": "getCurrentDevice",
    "get_device_properties": "getCurrentDevice",
    "graph": "getCurrentDevice",
    "graph_pool_handle": "graphPoolHandle",
    "record_memory_history": "recordMemoryHistory",
    "set_stream": "setCurrentStream",
    "snapshot": "memorySnapshot",
    "stream": "getCurrentDevice",
    "synchronize": "getCurrentDevice",
}

default_generators: tuple[_C.Generator, ...] = ()


def _refusal(name: str) -> RuntimeError:
    return RuntimeError(f"Cannot execute {_REFUSED.get(name, name)}() without MTIA backend.")


def _not_compiled() -> AssertionError:
    return AssertionError("Torch not compiled with MTIA enabled")


__getattr__, __dir__ = refusals(__name__, _REFUSED, _refusal)

MTIAGraph = absent_class("MTIAGraph", "torch.mtia", lambda _: _refusal("mtiagraphCreate"))
Event = absent_class("Event", "torch.mtia", lambda _: _refusal("createEvent"))
Stream = absent_class("Stream", "torch.mtia", lambda _: _refusal("createStream"))


class DeferredMtiaCallError(Exception):
    """A call that waited for the first use of MTIA has failed. Nothing raises it here."""


# --- questions -----------------------------------------------------------------------------------


def is_available() -> bool:
    """Return whether there is an MTIA device: False."""
    return False


def device_count() -> int:
    """Return how many MTIA devices there are: 0."""
    return 0


def is_initialized() -> bool:
    """Return whether MTIA was initialized: False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether MTIA devices compute in bfloat16: True, all do."""
    return True


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Return the allocator's counts: none."""
    return {}


def memory_allocated(device: Device = None) -> int:
    """Return the bytes that tensors on the device take: 0."""
    return 0


def max_memory_allocated(device: Device = None) -> int:
    """Return the most bytes that tensors on the device have taken: 0."""
    return 0


def reset_peak_memory_stats(device: Device = None) -> None:
    """Forget the most bytes that were taken: nothing happens."""


def _is_compiled() -> bool:
    return False


def _is_in_bad_fork() -> bool:
    return False


# --- what waits for the first use ----------------------------------------------------------------


def init() -> NoReturn:
    """Raise AssertionError: there is no device."""
    raise _not_compiled()


def _lazy_init() -> NoReturn:
    raise _not_compiled()


def _lazy_call(callable: Callable[[], Any], **kwargs: Any) -> None:
    """Call a function as soon as MTIA is initialized, which never happens."""


# --- seeds and states ----------------------------------------------------------------------------


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device: there is none, and nothing happens.

    Raises:
        ValueError: *seed* is no number.
    """
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices: there are none, and nothing happens.

    Raises:
        ValueError: *seed* is no number.
    """
    int(seed)


def seed() -> None:
    """Seed the generator of the current device with a random number: there is none."""


def seed_all() -> None:
    """Seed the generators of all devices with random numbers: there are none."""


def initial_seed() -> NoReturn:
    """Raise AssertionError: there is no device that has a seed."""
    raise _not_compiled()


def get_rng_state(device: Device = "mtia") -> NoReturn:
    """Raise AssertionError: there is no device that has a state."""
    raise _not_compiled()


def set_rng_state(new_state: Any, device: Device = "mtia") -> NoReturn:
    """Raise AssertionError: there is no device to set the state of."""
    raise _not_compiled()


def get_rng_state_all() -> list[Any]:
    """Return the states of all devices' generators: none."""
    return []


def set_rng_state_all(new_states: list[Any]) -> None:
    """Set the states of all devices' generators.

    Raises:
        AssertionError: There is a state, but no device.
    """
    if new_states:
        raise _not_compiled()


# --- contexts that change the current device -----------------------------------------------------


class device(DeviceGuard):
    """A context in which another device is the current one.

    Args:
        device: A number, or a device or its name. A negative number, a device without one and None
            change nothing.

    Raises:
        ValueError: A device of another type.
        RuntimeError: On entering with a number from 0 on; there is no such device.
    """

    def __init__(self, device: Any) -> None:
        number = device_number(device, "mtia", optional=True)
        super().__init__(number, lambda: _refusal("exchangeDevice"))


def set_device(device: Device) -> None:
    """Make another device the current one; a negative number changes nothing.

    Raises:
        ValueError: A device of another type, or one without a number.
        RuntimeError: There is no such device.
    """
    if device_number(device, "mtia") >= 0:
        raise _refusal("setCurrentDevice")
