"""The namespace of Apple's Metal devices; there are none here.

``is_available()`` is False and ``device_count()`` 0; a seed does nothing; what needs a device
raises RuntimeError, as torch does where it was built without MPS.

Source:
    torch.mps.
"""

from __future__ import annotations

from shmtensor._core._absent_devices import absent_class, refusals
from shmtensor._core._absent_devices import no as _no

# The name that the error gives, where it is not the function's own.
_REFUSED = {
    "compile_shader": "compileShader",
    "current_allocated_memory": "getCurrentAllocatedMemory",
    "driver_allocated_memory": "getDriverAllocatedMemory",
    "empty_cache": "emptyCache",
    "get_rng_state": "getDefaultGenerator",
    "load_metallib": "loadMetallib",
    "recommended_max_memory": "getRecommendedMaxMemory",
    "seed": "getDefaultGenerator",
    "set_rng_state": "getDefaultGenerator",
    "synchronize": "deviceSynchronize",
}

__all__ = [
    "Event",
    "device_count",
    "is_available",
    "manual_seed",
    "set_per_process_memory_fraction",
    *_REFUSED,
]


def _refusal(name: str) -> RuntimeError:
    return RuntimeError(f"Cannot execute {_REFUSED.get(name, name)}() without MPS backend.")


__getattr__, __dir__ = refusals(__name__, _REFUSED, _refusal)

Event = absent_class("Event", "torch.mps", lambda _: _refusal("acquireEvent"))


is_available = _no(__name__, "is_available", "there is a Metal device")


def device_count() -> int:
    """Return how many Metal devices there are: 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed the device's generator: there is none, and nothing happens."""


def set_per_process_memory_fraction(fraction: float) -> None:
    """Limit the memory of the device that this process may take.

    Raises:
        TypeError: *fraction* is not a float.
        ValueError: It is not between 0 and 2.
        RuntimeError: There is no device.
    """
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if fraction < 0 or fraction > 2:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~2")
    raise _refusal("setMemoryFraction")


def _is_in_bad_fork() -> bool:
    return False
