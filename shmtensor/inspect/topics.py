"""Topics and servers of a service, as an inspector sees them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["OVERFLOWS", "Event", "Server", "Topic"]

#: What happens when a subscriber has no room; the position is the C code.
OVERFLOWS = ("drop_oldest", "block", "drop_newest")


@dataclass(frozen=True)
class Topic:
    """A topic of a service.

    Attributes:
        n_subscribers: Subscriptions of processes that live.
        n_published: Messages ever published.
        lag: The largest number of messages that wait for one subscriber.
        n_lost: Messages that did not reach a subscriber that had no room, summed over all
            subscribers there ever were.
        depth: Messages that may wait for each subscriber.
        history: Messages that are kept for those who come late.
        overflow: What happens when a subscriber has no room: ``"drop_oldest"``, ``"block"`` or
            ``"drop_newest"``.
    """

    n_subscribers: int
    n_published: int
    lag: int
    n_lost: int
    depth: int
    history: int
    overflow: str


@dataclass(frozen=True)
class Event:
    """An event of a service.

    Attributes:
        is_set: Whether it is set.
    """

    is_set: bool


@dataclass(frozen=True)
class Server:
    """The servers of one name of a service, which share its requests.

    Attributes:
        n_waiting: Requests that no server has taken yet.
        n_requests: Requests ever made, modulo 2**32.
        max_waiting: How many may wait; 0: no bound.
    """

    n_waiting: int
    n_requests: int
    max_waiting: int
