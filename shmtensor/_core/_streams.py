"""Streams and events of any device; on the CPU, work is done when a call returns.

Source:
    torch.Stream, torch.Event.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from shmtensor import _C

__all__ = ["Event", "Stream"]


class Stream:
    """A queue of work of a device.

    Args:
        device: The CPU, when left out.
        priority: Accepted.
    """

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device = _C.device("cpu" if device is None else device)
        if self.device.type != "cpu":
            raise RuntimeError("Cannot access accelerator device when none is available.")
        self.device_index = -1
        self.stream_id = 0

    def query(self) -> bool:
        """Return True: all work is done."""
        return True

    def synchronize(self) -> None:
        """Wait for the work: it is done."""

    def wait_event(self, event: Event) -> None:
        """Wait for an event: it has happened."""

    def wait_stream(self, stream: Stream) -> None:
        """Wait for another stream: its work is done."""

    def record_event(self, event: Event | None = None) -> Event:
        """Mark this place in the queue."""
        return Event() if event is None else event

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def __repr__(self) -> str:
        return (
            f"torch.Stream device_type={self.device.type}, device_index={self.device_index}, "
            f"stream_id={self.stream_id}"
        )


class Event:
    """A place in a stream; it has always been passed.

    Args:
        device: The CPU, when left out.
        enable_timing: Accepted.
        blocking: Accepted.
        interprocess: Accepted.
    """

    def __init__(
        self,
        device: Any = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _C.device("cpu" if device is None else device)
        if self.device.type != "cpu":
            raise RuntimeError("Cannot access accelerator device when none is available.")
        self.event_id = 0

    def query(self) -> bool:
        """Return True: the work before it is done."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Mark the present place: nothing happens."""

    def synchronize(self) -> None:
        """Wait for the work before it: that is done."""

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream wait for the work before it: that is done."""

    def __repr__(self) -> str:
        return (
            f"torch.Event device_type={self.device.type}, device_index=-1, event_flag=0, "
            f"event_id={self.event_id}"
        )
