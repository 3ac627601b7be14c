"""Topics, in one direction or both: what is published on one machine is published on the other.

The bridge subscribes to what is published on its machine and publishes what comes as forwarded,
so that nothing comes back: Note [Forwarded messages] in csrc/ipc/topic/topic_layout.h. Its
subscription is where messages wait for the link: Note [Windows] in shmtensor/bridge/_streams.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from queue import Empty, Full
from typing import Any

from shmtensor.bridge import _format
from shmtensor.bridge._counters import NameStatus
from shmtensor.bridge._endpoints import SLICE_S, Endpoint, Place
from shmtensor.bridge._link import Frame
from shmtensor.bridge._streams import Incoming, Outbox
from shmtensor.errors import ManagerError
from shmtensor.multiprocessing.queues import is_of_message
from shmtensor.service import Subscription

__all__ = ["TopicEndpoint"]

_WINDOW = 16


class TopicEndpoint(Endpoint):
    """A topic.

    Args:
        place: As of the base.
        name: On the link.
        sends: Whether what is published here goes there.
        takes: Whether what is published there comes here.
    """

    def __init__(self, place: Place, name: str, *, sends: bool = True, takes: bool = True) -> None:
        super().__init__(place, name, "topic")
        self._sends, self._takes = sends, takes
        self._subscription: Subscription[Any] | None = None
        self._topic: Any = None
        self._settings: list[Any] = []  # that were said of it there
        self._out = Outbox(place.link, self.counted, _WINDOW)
        self._in = Incoming(place.link, self._acknowledgement, _WINDOW, place.most_bytes)

    def start(self) -> None:
        """Start a thread for each direction."""
        if self._sends:
            self.run(self._forward, "topic")
        self.run(self._publish, "topic-in")

    def _acknowledgement(self, seq: int, used: bool) -> bytes:
        return _format.write_header("ack", stream="topic", name=self.name, seq=seq, used=used)

    # --- from here ---

    def _forward(self) -> None:
        if not self.wait_for_name("topic"):
            return
        with self.place.service.Topic(self.here) as topic:
            self._subscription = topic._subscribe_to_local()
        with self._subscription as messages:
            # In this order: what waits is in the subscription, where newer messages may replace it.
            while self._is_there(messages) and self._out.wait_for_room():
                payload = self._take(messages)
                if payload is not None:
                    self._out.send(lambda seq: self._header(seq, topic._said()), payload)

    def _is_there(self, messages: Subscription[Any]) -> bool:
        """Wait for a message; False: the bridge is closed."""
        while not self.is_stopped:
            if messages.poll(SLICE_S):
                return True
        return False

    def _take(self, messages: Subscription[Any]) -> bytes | None:
        """Return the next message as a payload; None: there is none, or none that can be sent."""
        try:
            return self.encode(_opened(messages))
        except (Empty, ManagerError) as error:
            if is_of_message(error, Subscription.__module__):
                self.refuse(error)
            elif isinstance(error, ManagerError):
                raise
        except BaseException as error:  # whatever unpickling raises
            self.refuse(error)
        return None

    def _header(self, seq: int, settings: list[Any]) -> bytes:
        return _format.write_header("topic", name=self.name, seq=seq, settings=settings)

    # --- from there ---

    def frames(self) -> dict[str, Callable[[Frame], None]]:
        """Return what takes messages."""
        return {"topic": self._accept}

    def _accept(self, frame: Frame) -> None:
        self._in.put(frame)

    def _publish(self) -> None:
        while (frame := self._in.get()) is not None:
            settings = frame.header["settings"]

            def publish(value: Any, settings: list[Any] = settings) -> None:
                self._publish_here(self._open(settings), value)

            if self._takes:
                used = self.used(frame, publish)
            else:  # the partner is to know, and not to wait for room
                self.refuse(ValueError("messages of this topic do not come to this machine"))
                used = False
            if self.is_stopped:
                return
            self._in.worked_off(frame, used)

    def _open(self, settings: list[Any]) -> Any:
        """Return the topic, and say here what was said of it there."""
        if self._topic is None or settings != self._settings:
            depth, history, overflow = settings
            service = self.place.service
            try:
                made = service.Topic(self.here, depth=depth, history=history, overflow=overflow)
            except ValueError:
                made = service.Topic(self.here)  # other things were said here, if it is one at all
            self._topic, self._settings = made, settings
        return self._topic

    def _publish_here(self, topic: Any, value: Any) -> None:
        while not self.is_stopped:  # a topic whose overflow is "block" waits for its subscribers
            with contextlib.suppress(Full):
                topic._publish_forwarded(value, SLICE_S)
                return

    # --- the link ---

    def up(self, to: str, accepted: int, worked_off: int) -> None:
        """Send what waits."""
        self._in.up(to)
        self._out.up(to, accepted, worked_off)

    def is_stalled(self) -> bool:
        """Whether nothing was heard of what is under way."""
        return self._out.is_stalled()

    def repair(self, accepted: int, worked_off: int) -> None:
        """Send again what was lost."""
        self._out.repair(accepted, worked_off)

    def down(self) -> None:
        """Send nothing."""
        self._out.down()

    def begin_anew(self, pairing: str) -> None:
        """Number frames from the first one on, and expect them so."""
        self._in.begin_anew(pairing)
        self._out.begin_anew()

    def acknowledged(self, seq: int, used: bool) -> None:
        """There is room for more."""
        self._out.acknowledged(seq, used)

    def position(self) -> tuple[str, int, int]:
        """Return how far the partner's messages are here."""
        return ("topic", *self._in.position)

    def stop(self) -> None:
        """End the waits of both threads."""
        super().stop()
        self._out.stop()
        self._in.stop()

    def close(self) -> None:
        """Let go of the topic."""
        if self._topic is not None:
            self._topic.close()
            self._topic = None

    def status(self) -> NameStatus:
        """Return the counters, with what the subscription has lost."""
        subscription, shown = self._subscription, NameStatus(**vars(self.counted))
        if subscription is not None:
            with contextlib.suppress(ValueError):
                shown.n_lost += subscription.lost
        return shown


def _opened(messages: Subscription[Any]) -> Any:
    try:
        return messages.get(0.0)
    except MemoryError:  # the message is kept, and opened once more
        return messages.get(0.0)
