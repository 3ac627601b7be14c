"""What one name of a bridge has in common: threads, counters, and its frames.

A name has one endpoint on each machine, which knows it by its name here and by its name on the
link: the former begins with the bridge's prefix. Each direction of it has a thread, so that a
name that waits, for a slow subscriber or a large message, holds up no other.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.bridge import _format
from shmtensor.bridge._counters import NameStatus
from shmtensor.bridge._format import Damaged
from shmtensor.bridge._link import Frame, Link
from shmtensor.errors import ManagerError
from shmtensor.multiprocessing._user_errors import text_of
from shmtensor.service import Service

__all__ = ["SLICE_S", "Endpoint", "Place"]

#: How long a wait goes on that nothing but the end of its time can end, when the bridge is closed.
SLICE_S = 0.25


class Place:
    """Where names are, and what all endpoints of a bridge need.

    Args:
        id: Of the bridge.
        service: Of this machine.
        prefix: Of the names here.
        most_bytes: Of a payload.
        link: To the other machine.
        failed: Is called with an error that ends the bridge.
    """

    def __init__(
        self,
        id: str,
        service: Service,
        prefix: str,
        most_bytes: int,
        link: Link,
        failed: Callable[[BaseException], None],
    ) -> None:
        self.id, self.service, self.prefix = id, service, prefix
        self.most_bytes, self.link, self.failed = most_bytes, link, failed

    def memory(self, nbytes: int) -> Tensor:
        """Make so many ``uint8`` in the service's memory."""
        return self.service.empty(nbytes, dtype=shmtensor.uint8)


class Endpoint:
    """One name of a bridge.

    Args:
        place: What all have in common.
        name: On the link.
        kind: What `NameStatus` calls it.
    """

    def __init__(self, place: Place, name: str, kind: str) -> None:
        self.place, self.name = place, name
        self.here = place.prefix + name
        place.service._check_name(self.here)
        self.counted = NameStatus(kind, self.here)
        self.is_stopped = False
        self._threads: list[threading.Thread] = []

    # --- what subclasses say ---

    def frames(self) -> dict[str, Callable[[Frame], None]]:
        """Return the kinds of frames that this endpoint takes, and what takes them."""
        return {}

    def start(self) -> None:
        """Start the threads."""

    def up(self, to: str, accepted: int, worked_off: int) -> None:
        """The link is up; frames go *to* there, and the partner got so far with those of here."""

    def is_stalled(self) -> bool:
        """Whether something is under way of which nothing was heard since the last call."""
        return False

    def repair(self, accepted: int, worked_off: int) -> None:
        """Send again what the partner has not accepted."""

    def down(self) -> None:
        """The link is down."""

    def begin_anew(self, pairing: str) -> None:
        """There is another pairing: both ends of the stream begin with frame 1."""

    def acknowledged(self, seq: int, used: bool) -> None:
        """The partner has worked off the frames up to *seq*."""
        raise Damaged(f"{self.counted.kind} {self.name!r} is not sent from here")

    def position(self) -> tuple[str, int, int] | None:
        """Return the kind of stream that comes, and how far it got; None: none comes."""
        return None

    def stop(self) -> None:
        """End all waits. Perhaps `start` was not called, or has failed or was interrupted."""
        self.is_stopped = True

    def close(self) -> None:
        """Leave nothing in the service; the threads have ended."""

    def status(self) -> NameStatus:
        """Return the counters."""
        return self.counted

    # --- what they have in common ---

    def run(self, work: Callable[[], None], what: str) -> None:
        """Run *work* in a thread. An error that ends it ends the bridge."""
        name = f"shmtensor-{what}-{self.name}"
        thread = threading.Thread(target=self._guarded, args=(work,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            if not self.is_stopped:
                self.place.failed(error)

    def join(self, timeout: Callable[[], float]) -> None:
        """Wait for the end of the threads, for as long as *timeout* gives."""
        for thread in self._threads:
            # It could not be started; or it is this one, and its callback closes the bridge.
            with contextlib.suppress(RuntimeError):
                thread.join(timeout())

    def wait_for_name(self, kind: str) -> bool:
        """Wait until the service has the name; False: the bridge is closed before.

        Who makes a topic decides its depth: not the bridge, whatever starts first.

        Raises:
            ValueError: The name stands for something else.
        """
        service = self.place.service
        while not self.is_stopped:
            if service._handle.wait_newer(self.here, 0, int(SLICE_S * 1000)):
                entry = service.list().get(self.here)
                if entry is not None and entry.kind != kind:
                    raise ValueError(f"{self.here!r} is a {entry.kind}, not a {kind}")
                if entry is not None:
                    return True
        return False

    def encode(self, value: object) -> bytes | None:
        """Return a value as a payload; None: it cannot be sent, which is counted."""
        try:
            return _format.encode(value, self.place.most_bytes)
        except BaseException as error:  # of whatever the value is made of
            self.refuse(error)
            return None

    def decode(self, frame: Frame) -> Any:
        """Return the value of a frame, in the service's memory.

        Raises:
            Damaged: It is none.
            MemoryError: There is not enough room.
        """
        return _format.decode(frame.payload(), self.place.memory)

    def used(self, frame: Frame, use: Callable[[Any], object]) -> bool:
        """Give the value of a frame to *use*; False: that was not possible, which is counted."""
        try:
            use(self.decode(frame))
        except Damaged as error:
            self.damage(error)
            return False
        except (ManagerError, OSError):
            raise
        except Exception as error:  # no room, or a name that is another user's
            self.refuse(error)
            return False
        self.counted.n_received += 1
        self.counted.received_bytes += frame.nbytes
        return True

    def damage(self, error: Damaged) -> None:
        """Count what is no frame, or not to be expected."""
        self.counted.n_damaged += 1
        self.counted.last_error = str(error)

    def refuse(self, error: BaseException) -> None:
        """Count what cannot be sent, or not be used."""
        self.counted.n_refused += 1
        self.counted.last_error = text_of(error)
