"""Waiting for any of several things: queues, subscriptions, events, sockets, files.

Queues, subscriptions and events need no descriptors: C looks at their memory and sleeps on it
(Note [Waiting for any] in csrc/ipc/ring/wait_any.h). Everything else is waited for by its
descriptor, with poll(2) or by the event loop. Where both are given, threads of C sleep on the
memory during the call and raise one descriptor for all of them.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from shmtensor import _C
from shmtensor._boundary.descriptors import Descriptor
from shmtensor._core._deadlines import deadline_of, left_until
from shmtensor.multiprocessing.queues import Queue, SimpleQueue, _Reader
from shmtensor.service._topics import Subscription

if TYPE_CHECKING:
    import asyncio

__all__ = ["await_any", "await_until", "wait_any"]

_T = TypeVar("_T")

#: So many queues and the like the calling thread can sleep on itself; one thread of C takes one
#: less, which is its own, or one.
_AT_ONCE: int = _C._MOST_FUTEXES
_SLICE_S = 1.0  # waits look as often whether a thing was closed, or the manager killed


def wait_any(things: Iterable[_T], timeout: float | None = None) -> list[_T]:
    """Wait until at least one of the things is ready, and return those that are.

    Ready are: a queue or subscription with a message; an event that is set, or that was set or
    pulsed during the call; and everything else with a descriptor that can be read without waiting
    or that is broken. Readers may share a thing: what was ready when this looked can be empty by
    the time another process has taken the message.

    Args:
        things: Queues, also those of `shmtensor.multiprocessing`, subscriptions, events, sockets,
            connections, files, descriptors, and other objects with ``fileno()``.
        timeout: Seconds to wait; None waits forever, 0 does not wait.

    Returns:
        The things that are ready, in the order given; none if the time has passed.

    Raises:
        ValueError: A thing is closed, also meanwhile, or there are none and *timeout* is None.
        TypeError: A thing has no ``fileno()``, or *things* is one thing itself.
        OSError: No descriptor, or no thread, is left for the wait.
    """
    given = _several(things)
    deadline = deadline_of(timeout)
    wait = _Wait(given)
    ready = wait.look()
    if not ready and timeout != 0:
        with contextlib.closing(wait):
            ready = wait.until(deadline)
    return [given[i] for i in ready]


async def await_any(things: Iterable[_T], timeout: float | None = None) -> list[_T]:
    """Wait as `wait_any` does, while other asyncio tasks run."""
    given = _several(things)
    deadline = deadline_of(timeout)
    wait = _Wait(given)
    ready = wait.look()
    if not ready and timeout != 0:
        ready = await _changed(wait, lambda: wait.look() or None, deadline) or []
    return [given[i] for i in ready]


async def await_until(
    thing: Any, look: Callable[[list[int]], _T | None], timeout: float | None
) -> _T | None:
    """Wait until *look* returns something else than None; None after the timeout.

    Args:
        thing: A `_Ring` or `_Event`.
        look: Is called with a list that is empty while the thing is not ready.
        timeout: Seconds to wait; None waits forever.
    """
    deadline = deadline_of(timeout)
    wait = _Wait([thing])
    return await _changed(wait, lambda: look(wait.look()), deadline)


class _Wait:
    """One wait. What happens to events counts from when it is made."""

    def __init__(self, things: list[Any]) -> None:
        self._is_empty = not things
        self._positions: list[int] = []
        self._of_rings: list[Any] = []  # the things there
        self._fds: list[tuple[int, int]] = []  # position, descriptor
        rings: list[Any] = []
        for i, thing in enumerate(things):
            ring = _ring_of(thing)
            if ring is None:
                self._fds.append((i, _descriptor_of(thing)))
            else:
                self._positions.append(i)
                self._of_rings.append(thing)
                rings.append(ring)
        self._rings = _C._RingWait(rings)
        self._poll: Any = None

    # --- looking ---

    def look(self) -> list[int]:
        """Return the positions of the things that are ready."""
        ready = [self._positions[i] for i in self._rings.ready()]
        if not self._fds:
            return ready
        readable = self._readable(0)
        return sorted(ready + [i for i, fd in self._fds if fd in readable])

    def look_again(self) -> None:
        """Prepare for another look after a change.

        Raises:
            ValueError: Another thread, or task, has closed a thing.
        """
        for thing in self._of_rings:
            _ring_of(thing)
        self._rings.lower()

    def _readable(self, timeout_ms: int | None) -> set[int]:
        if self._poll is None:
            self._poll = select.poll()
            for _, fd in self._fds:
                self._poll.register(fd, select.POLLIN)
        found = self._poll.poll(timeout_ms)
        for fd, events in found:
            if events & select.POLLNVAL:
                raise ValueError(f"wait_any(): descriptor {fd} is not open")
        return {fd for fd, _ in found}

    # --- waiting ---

    def until(self, deadline: float | None) -> list[int]:
        """Wait and look until something is ready or the deadline has passed."""
        if self._is_empty and deadline is None:
            raise ValueError("wait_any(): nothing to wait for, and no timeout")
        while self._is_empty:
            if left_until(deadline) == 0:
                return []
            time.sleep(_slice_of(left_until(deadline)))
        watches = not self._sleeps_here()
        if watches and self._positions:
            self._readable(0)  # which makes the poll object
            self._poll.register(self._watch(), select.POLLIN)
        while True:
            left = left_until(deadline)
            if watches:
                self._readable(math.ceil(_slice_of(left) * 1000))
            else:
                self._rings.wait(_slice_of(left))
            self.look_again()
            ready = self.look()
            if ready or left == 0:
                return ready

    def _sleeps_here(self) -> bool:
        """Whether the calling thread can sleep on everything itself."""
        return not self._fds and len(self._positions) <= _AT_ONCE

    def _watch(self) -> int:
        return int(self._rings.watch(max(_AT_ONCE - 1, 1)))

    def descriptors(self) -> list[int]:
        """Return descriptors that are readable after a change, for an event loop."""
        fds = [fd for _, fd in self._fds]
        return [*fds, self._watch()] if self._positions else fds

    def close(self) -> None:
        """End the threads."""
        self._rings.close()


async def _changed(wait: _Wait, look: Callable[[], _T | None], deadline: float | None) -> _T | None:
    """Look after each change until something is there, or the deadline has passed."""
    import asyncio  # programs that await have imported it; others need not load it

    if wait._is_empty and deadline is None:
        raise ValueError("await_any(): nothing to wait for, and no timeout")
    loop = asyncio.get_running_loop()
    change = asyncio.Event()
    with contextlib.closing(wait), contextlib.ExitStack() as stack:
        for fd in set(wait.descriptors()):
            stack.enter_context(_read(loop, fd, change))
        while True:
            change.clear()
            wait.look_again()
            found = look()
            if found is not None:
                return found
            if deadline is not None and time.monotonic() >= deadline:
                return None
            timer = loop.call_later(_slice_of(left_until(deadline)), change.set)
            try:
                await change.wait()
            finally:
                timer.cancel()


@contextlib.contextmanager
def _read(loop: asyncio.AbstractEventLoop, fd: int, change: asyncio.Event) -> Iterator[None]:
    """Set *change* while *fd* is readable."""
    # A loop has one reader for each descriptor, and several tasks may wait for this one.
    own = Descriptor(os.dup(fd), high=False)
    try:
        number = own.fileno()
        loop.add_reader(number, change.set)
        try:
            yield
        finally:
            loop.remove_reader(number)
    finally:
        own.close()


def _slice_of(left: float | None) -> float:
    return _SLICE_S if left is None else min(left, _SLICE_S)


# --- what there is to wait for ---


def _several(things: Iterable[_T]) -> list[_T]:
    """Return the things in a list, and refuse one alone: servers and files can be iterated over."""
    if hasattr(things, "fileno"):
        raise TypeError(f"wait_any(): expected several things, got {things!r}; give [it]")
    return list(things)


def _ring_of(thing: Any) -> Any:
    """Return the `_Ring` or `_Event` that *thing* waits for; None: it has none."""
    if isinstance(thing, (_C._Ring, _C._Event)):
        return thing
    waited_for = getattr(type(thing), "_waited_for", None)
    if waited_for is not None:
        return waited_for(thing)
    if isinstance(thing, Subscription):
        thing._check_open()
    elif isinstance(thing, Queue):
        thing._check()
    elif isinstance(thing, (SimpleQueue, _Reader)):
        reader = thing if isinstance(thing, _Reader) else thing._reader
        if reader.closed:
            raise ValueError(f"wait_any(): {thing!r} is closed")
    else:
        return None
    return thing._ring


def _descriptor_of(thing: Any) -> int:
    if isinstance(thing, int):
        fd = thing
    else:
        fileno = getattr(thing, "fileno", None)
        if fileno is None:
            raise TypeError(
                f"wait_any(): a {type(thing).__name__} has no fileno(); give queues, "
                "subscriptions, events, sockets, connections, files or descriptors"
            )
        try:
            fd = fileno()
        except OSError as error:
            raise ValueError(f"wait_any(): {thing!r} is closed") from error
    if fd < 0:
        raise ValueError(f"wait_any(): {thing!r} is closed")
    return int(fd)
