"""The CPU with the names of a device namespace, for code that serves any device.

There is one CPU, it is always there, and its work is done when a call returns; so streams and
events are objects without effect.

Source:
    torch.cpu.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from types import MappingProxyType, TracebackType
from typing import Any

import shmtensor.cpu.amp as amp  # noqa: F401 - a name of the package
from shmtensor._core._absent_devices import Device

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "device_count",
    "get_capabilities",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Return True: there is a CPU."""
    return True


def is_initialized() -> bool:
    """Return True: it needs no preparation."""
    return True


def device_count() -> int:
    """Return 1, whatever number of cores the machine has."""
    return 1


def current_device() -> str:
    """Return ``"cpu"``."""
    return "cpu"


def set_device(device: Device) -> None:
    """Make a device the current one: nothing happens."""


def synchronize(device: Device = None) -> None:
    """Wait for work that was begun: all of it is done when a call returns."""


# The kernel's names for what torch calls something else.
_FLAGS = {
    "amx_bf16": "amx_bf16",
    "amx_fp16": "amx_fp16",
    "amx_int8": "amx_int8",
    "amx_tile": "amx_tile",
    "avx": "avx",
    "avx2": "avx2",
    "avx512_bf16": "avx512_bf16",
    "avx512_fp16": "avx512_fp16",
    "avx512_vnni": "avx512_vnni",
    "avx512bw": "avx512_bw",
    "avx512cd": "avx512_cd",
    "avx512dq": "avx512_dq",
    "avx512f": "avx512_f",
    "avx512vl": "avx512_vl",
    "avx_vnni": "avx_vnni",
    "bmi1": "bmi",
    "bmi2": "bmi2",
    "f16c": "f16c",
    "fma": "fma3",
    "sse4_1": "sse4_1",
    "sse4_2": "sse4_2",
}


@cache
def _flags() -> frozenset[str]:
    """What the kernel says of the processor."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        for line in file:
            name, _, value = line.partition(":")
            if name.strip() in ("flags", "Features"):
                return frozenset(value.split())
    return frozenset()


def get_capabilities() -> Mapping[str, Any]:
    """Return what instructions the processor has: names with True or False, and the architecture.

    Source:
        torch.cpu.get_capabilities; the kernel's list is where the answers come from.
    """
    found: dict[str, Any] = {"architecture": platform.machine()}
    if found["architecture"] == "x86_64":
        found.update({name: flag in _flags() for flag, name in _FLAGS.items()})
    return MappingProxyType(found)


def _is_avx2_supported() -> bool:
    return "avx2" in _flags()


def _is_avx512_supported() -> bool:
    return _flags() >= {"avx512f", "avx512vl", "avx512bw", "avx512dq"}


def _is_avx512_bf16_supported() -> bool:
    return "avx512_bf16" in _flags()


def _is_vnni_supported() -> bool:
    return "avx512_vnni" in _flags()


def _is_amx_tile_supported() -> bool:
    return "amx_tile" in _flags()


def _is_amx_fp16_supported() -> bool:
    return "amx_fp16" in _flags()


# --- streams -------------------------------------------------------------------------------------


class Stream:
    """A queue of work; on the CPU, calls do their work at once.

    Args:
        priority: Accepted.
    """

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Stream) -> None:
        """Wait for another stream: its work is done."""

    def record_event(self) -> None:
        """Mark this place in the queue: nothing happens."""

    def wait_event(self, event: Event) -> None:
        """Wait for an event: it has happened."""


class Event:
    """A place in a stream; it has always been passed."""

    def query(self) -> bool:
        """Return True: the work before it is done."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Mark the present place: nothing happens."""

    def synchronize(self) -> None:
        """Wait for the work before it: that is done."""

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for the work before it: that is done."""


_current = Stream()


def current_stream(device: Device = None) -> Stream:
    """Return the stream that is current in this process."""
    return _current


class StreamContext(AbstractContextManager[None]):
    """A context in which a stream is the current one.

    Args:
        stream: None changes nothing.
    """

    cur_stream: Stream | None

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self.prev_stream = _current

    def __enter__(self) -> None:
        global _current
        if self.stream is not None:
            self.prev_stream, _current = _current, self.stream

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        global _current
        if self.stream is not None:
            _current = self.prev_stream


def stream(stream: Stream | None) -> StreamContext:
    """Return a context in which a stream is the current one."""
    return StreamContext(stream)
