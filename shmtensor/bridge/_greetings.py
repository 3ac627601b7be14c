"""What waits for the thread of a link, with bounds: who is there, and what others have said.

Whoever reaches the network may send any number of greetings, and come and go as often. Of who is
there, only the present state is kept, and of what is said no more than an honest partner ever has
waiting; the rest is dropped and counted. An honest bridge says again what has had no effect.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._interrupts import Condition
from shmtensor.bridge._waits import wait_until

__all__ = ["Greeting", "Greetings"]

_MOST_OTHERS = 1000  # bridges that are seen
_MOST_WAITING = 64
_MOST_BYTES = 4 << 20


class Greeting(NamedTuple):
    """A hello, or an "ask", whose header is empty."""

    what: str
    sender: str
    header: dict[str, Any]
    nbytes: int


class Greetings:
    """The bridges that are there, and their greetings. Any thread may call."""

    def __init__(self) -> None:
        self._changed = free_in_child(Condition())  # guards all that follows
        self._alive: set[str] = set()
        self._waiting: deque[Greeting] = deque()
        self._nbytes = 0
        self._chosen = ""
        self._is_chosen_gone = self._is_new = self._is_ended = False
        #: Greetings that came while too many waited.
        self.n_dropped = 0

    # --- what happens ---

    def comes(self, other: str) -> None:
        """Another bridge is there."""
        with self._changed:
            if len(self._alive) < _MOST_OTHERS:
                self._alive.add(other)
                self._tell()

    def goes(self, other: str) -> None:
        """It is not there any more."""
        with self._changed:
            self._alive.discard(other)
            if other == self._chosen:
                self._chosen, self._is_chosen_gone = "", True
                self._waiting.clear()  # what it says next, it says anew
                self._nbytes = 0
            self._tell()

    def put(self, greeting: Greeting) -> None:
        """Another bridge has said something. While there is a partner, others are not heard."""
        with self._changed:
            if self._chosen and greeting.sender != self._chosen:
                return
            nbytes = self._nbytes + greeting.nbytes
            if len(self._waiting) >= _MOST_WAITING or nbytes > _MOST_BYTES:
                self.n_dropped += 1
                return
            self._waiting.append(greeting)
            self._nbytes = nbytes
            self._tell()

    def end(self) -> None:
        """Let `wait` return False from now on."""
        with self._changed:
            self._is_ended = True
            self._tell()

    def _tell(self) -> None:
        self._is_new = True
        self._changed.notify_all()

    # --- working it off ---

    def wait(self, timeout: float | None) -> bool:
        """Wait until something has happened since the last call, for so long at most.

        Returns:
            False: this has ended.
        """
        with self._changed:
            wait_until(self._changed, lambda: self._is_new or self._is_ended, timeout)
            return not self._is_ended

    def take_change(self) -> bool:
        """Whether something has happened since the last call."""
        with self._changed:
            is_new, self._is_new = self._is_new, False
            return is_new

    def take_gone(self) -> bool:
        """Whether the chosen one has gone since the last call, perhaps to come again."""
        with self._changed:
            is_gone, self._is_chosen_gone = self._is_chosen_gone, False
            return is_gone

    def choose(self, last: str) -> str:
        """Choose *last* if it is there, else the smallest id; "": nobody is there."""
        with self._changed:
            if self._alive:
                self._chosen = last if last in self._alive else min(self._alive)
            return self._chosen

    def take(self) -> Greeting | None:
        """Return the next greeting; None: there is none."""
        with self._changed:
            if not self._waiting:
                return None
            greeting = self._waiting.popleft()
            self._nbytes -= greeting.nbytes
            return greeting

    def others(self) -> list[str]:
        """Return those that are there and not chosen."""
        with self._changed:
            return sorted(self._alive - {self._chosen})
