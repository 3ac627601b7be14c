"""The namespace of MTIA devices; there are none here.

``is_available()`` is False and ``device_count()`` 0; seeds do nothing; what needs a device raises,
as torch does where it was built without MTIA.

Source:
    torch.mtia.
"""

from __future__ import annotations

from typing import Any, NoReturn

from shmtensor import _C
from shmtensor._core._absent_devices import (
    Device,
    absent_class,
    device_number,
    refusals,
)
from shmtensor._core._absent_devices import StreamContext as StreamContext
from shmtensor._core._absent_devices.answers import (  # noqa: F401 - names of the namespace
    _is_compiled,
    _is_in_bad_fork,
    _lazy_call,
    device_count,
    is_available,
    is_initialized,
)
from shmtensor._core._absent_devices.guards import device_guard as _device_guard
from shmtensor._core._absent_devices.memory import max_memory_allocated, memory_allocated
from shmtensor._core._absent_devices.random import (
    get_rng_state_all,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state_all,
    states_of,
)
from shmtensor.errors import ShmTensorError

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

__all__ = [
    "MTIAGraph",
    "device",
    "device_count",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    *_REFUSED,
]

default_generators: tuple[_C.Generator, ...] = ()


def _refusal(name: str) -> RuntimeError:
    return RuntimeError(f"Cannot execute {_REFUSED.get(name, name)}() without MTIA backend.")


def _not_compiled() -> AssertionError:
    return AssertionError("Torch not compiled with MTIA enabled")


__getattr__, __dir__ = refusals(__name__, _REFUSED, _refusal)

initial_seed, get_rng_state, _ = states_of("mtia", _not_compiled)

MTIAGraph = absent_class("MTIAGraph", "torch.mtia", lambda _: _refusal("mtiagraphCreate"))
Event = absent_class("Event", "torch.mtia", lambda _: _refusal("createEvent"))
Stream = absent_class("Stream", "torch.mtia", lambda _: _refusal("createStream"))


class DeferredMtiaCallError(ShmTensorError):
    """A call that waited for the first use of MTIA has failed. Nothing raises it here."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether MTIA devices compute in bfloat16: True, all do."""
    return True


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Return the allocator's counts: none."""
    return {}


def reset_peak_memory_stats(device: Device = None) -> None:
    """Forget the most bytes that were taken: nothing happens."""


def init() -> NoReturn:
    """Raise AssertionError: there is no device."""
    raise _not_compiled()


def set_rng_state(new_state: Any, device: Device = "mtia") -> NoReturn:
    """Raise RuntimeError: there is no device to set the state of."""
    raise _refusal("getCurrentDevice")


def _lazy_init() -> NoReturn:
    raise _not_compiled()


device = _device_guard(__name__, "mtia", _refusal("exchangeDevice"))


def set_device(device: Device) -> None:
    """Make another device the current one; a negative number changes nothing.

    Raises:
        ValueError: A device of another type, or one without a number.
        RuntimeError: There is no such device.
    """
    if device_number(device, "mtia") >= 0:
        raise _refusal("setCurrentDevice")
