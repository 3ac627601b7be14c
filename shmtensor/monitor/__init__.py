"""Events and figures that a program reports to handlers of its own.

Source:
    torch.monitor.
"""

from __future__ import annotations

import dataclasses
import enum
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from shmtensor._core._fork_locks import free_in_child

__all__ = [
    "Aggregation",
    "Event",
    "EventHandlerHandle",
    "Stat",
    "data_value_t",
    "log_event",
    "register_event_handler",
    "unregister_event_handler",
]

data_value_t = str | float | int | bool
STAT_EVENT = "torch.monitor.Stat"


@dataclasses.dataclass
class Event:
    """Something that happened.

    Args:
        name: What, with dots between its parts.
        timestamp: When.
        data: Figures and texts by name.
    """

    name: str
    timestamp: datetime
    data: dict[str, data_value_t]


class EventHandlerHandle:
    """A handler that was registered; `unregister_event_handler` takes it back."""

    def __init__(self, callback: Callable[[Event], None]) -> None:
        self._callback = callback


_handlers: list[EventHandlerHandle] = []


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """Let *callback* be called with every event from now on."""
    handle = EventHandlerHandle(callback)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """Let a handler not be called any more."""
    if handler in _handlers:
        _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Call all handlers with an event.

    Raises:
        TypeError: It is no `Event`.
    """
    if not isinstance(event, Event):
        raise TypeError(f"log_event(): the argument must be an Event, not {type(event).__name__}")
    for handler in list(_handlers):
        handler._callback(event)


class Aggregation(enum.Enum):
    """What is kept of the values that are added to a `Stat`."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT = Aggregation.VALUE, Aggregation.MEAN, Aggregation.COUNT
SUM, MAX, MIN = Aggregation.SUM, Aggregation.MAX, Aggregation.MIN


class Stat:
    """Aggregates values over windows of time, and reports each window as an event.

    Args:
        name: What the values are, with dots between its parts.
        aggregations: What is kept of them.
        window_size: How long a window is.
        max_samples: Values after which a window ends early; none when left out.

    Source:
        torch.monitor.Stat.
    """

    def __init__(
        self,
        name: str,
        aggregations: list[Aggregation],
        window_size: timedelta,
        max_samples: int | None = None,
    ) -> None:
        self._name = name
        self._aggregations = list(aggregations)
        self._window = window_size
        self._max_samples = max_samples
        self._lock = free_in_child(threading.Lock())
        self._values: list[float] = []
        self._start = datetime.now()

    @property
    def name(self) -> str:
        """What the values are."""
        return self._name

    @property
    def count(self) -> int:
        """How many values the present window has."""
        with self._lock:
            return len(self._values)

    def add(self, v: float) -> None:
        """Add a value; a window that is over is reported first."""
        with self._lock:
            now = datetime.now()
            is_full = self._max_samples is not None and len(self._values) >= self._max_samples
            ended = self._end(now) if is_full or now - self._start >= self._window else None
            self._values.append(v)
        if ended is not None:
            log_event(ended)

    def _end(self, now: datetime) -> Event | None:
        data: dict[str, data_value_t] = {
            f"{self._name}.{kind.name.lower()}": value for kind, value in self._kept().items()
        }
        had_values, start = bool(self._values), self._start
        self._values, self._start = [], now
        return Event(STAT_EVENT, start, data) if had_values else None

    def _kept(self) -> dict[Aggregation, float]:
        values = self._values
        if not values:
            return dict.fromkeys(self._aggregations, 0.0)
        all_kinds = {
            Aggregation.VALUE: values[-1],
            Aggregation.MEAN: sum(values) / len(values),
            Aggregation.COUNT: len(values),
            Aggregation.SUM: sum(values),
            Aggregation.MAX: max(values),
            Aggregation.MIN: min(values),
        }
        return {kind: all_kinds[kind] for kind in self._aggregations}

    def get(self) -> dict[Aggregation, float]:
        """Return what is kept of the present window."""
        with self._lock:
            return self._kept()
