"""Values: each newest version goes from the machine that owns the name to the other.

One version is under way at a time. While it is, or while the link is down, newer ones replace
each other in the service, so that the newest one goes next. The other bridge publishes it as a
version of its own service, and a version that it has already is not published again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from shmtensor._boundary.service import Snapshot
from shmtensor.bridge import _format
from shmtensor.bridge._endpoints import SLICE_S, Endpoint, Place
from shmtensor.bridge._link import Frame
from shmtensor.bridge._streams import Incoming, Outbox
from shmtensor.errors import HandleError, NotPublishedError
from shmtensor.service import _encoding
from shmtensor.storage import UntypedStorage

__all__ = ["RemoteValueEndpoint", "ValueEndpoint"]

_WINDOW = 1


class ValueEndpoint(Endpoint):
    """A value that programs of this machine publish."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, name, "value")
        self._out = Outbox(place.link, self.counted, _WINDOW)

    def start(self) -> None:
        """Start the thread that sends."""
        self.run(self._forward, "value")

    def _forward(self) -> None:
        if not self.wait_for_name("value"):
            return
        sent, generation = 0, 0
        while self._out.wait_for_room():
            if generation != self._out.generation:
                sent, generation = 0, self._out.generation  # another partner, which has none
            snapshot = self._newer_than(sent)
            if snapshot is None:
                continue
            if sent:
                self.counted.n_skipped += snapshot.entry.version - sent - 1
            sent = snapshot.entry.version
            self._send(snapshot)

    def _newer_than(self, version: int) -> Snapshot | None:
        """Wait for a moment; return the newest version, if it is newer."""
        service = self.place.service
        if not service._handle.wait_newer(self.here, version, int(SLICE_S * 1000)):
            return None
        try:
            snapshot = service._snapshot(self.here, "ro")
        except NotPublishedError:
            return None  # it was unpublished meanwhile
        return snapshot if snapshot.entry.version > version else None

    def _send(self, snapshot: Snapshot) -> None:
        storages = [UntypedStorage._own(ref) for ref in snapshot.storages]
        try:
            document = _encoding.read(snapshot.text, storages)
        except HandleError as error:
            self.refuse(error)
            return
        if document.kind == "file":
            # Whoever may publish here could read with the rights of the bridge, from far away.
            self.refuse(TypeError(f"{self.here!r} is a file of this machine"))
            return
        payload, version = self.encode(document.value), snapshot.entry.version
        if payload is not None:
            self._out.send(lambda seq: self._header(seq, version), payload)

    def _header(self, seq: int, version: int) -> bytes:
        of = self.place.id
        return _format.write_header("value", name=self.name, seq=seq, of=of, version=version)

    def up(self, to: str, accepted: int, worked_off: int) -> None:
        """Send the newest version."""
        self._out.up(to, accepted, worked_off)

    def begin_anew(self, pairing: str) -> None:
        """Number frames from the first one on; the partner has no version."""
        self._out.begin_anew()

    def is_stalled(self) -> bool:
        """Whether nothing was heard of what is under way."""
        return self._out.is_stalled()

    def repair(self, accepted: int, worked_off: int) -> None:
        """Send again what was lost."""
        self._out.repair(accepted, worked_off)

    def down(self) -> None:
        """Send nothing."""
        self._out.down()

    def acknowledged(self, seq: int, used: bool) -> None:
        """The next version may go."""
        self._out.acknowledged(seq, used)

    def stop(self) -> None:
        """End the waits."""
        super().stop()
        self._out.stop()


class RemoteValueEndpoint(Endpoint):
    """A value that programs of the other machine publish."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, name, "remote value")
        self._has: tuple[str, int] | None = None
        self._published = 0
        self._in = Incoming(place.link, self._acknowledgement, _WINDOW, place.most_bytes)

    def start(self) -> None:
        """Start the thread that publishes."""
        self.run(self._publish, "value-in")

    def _acknowledgement(self, seq: int, used: bool) -> bytes:
        return _format.write_header("ack", stream="value", name=self.name, seq=seq, used=used)

    def frames(self) -> dict[str, Callable[[Frame], None]]:
        """Return what takes versions."""
        return {"value": self._accept}

    def _accept(self, frame: Frame) -> None:
        self._in.put(frame)

    def _publish(self) -> None:
        while (frame := self._in.get()) is not None:
            has = frame.header["of"], frame.header["version"]
            used = has == self._has or self.used(frame, self._publish_here)
            if used:
                self._has = has
            self._in.worked_off(frame, used)

    def _publish_here(self, value: Any) -> None:
        self._published = self.place.service.publish(self.here, value)

    def up(self, to: str, accepted: int, worked_off: int) -> None:
        """Say how far this got."""
        self._in.up(to)

    def begin_anew(self, pairing: str) -> None:
        """Expect versions from the first frame on."""
        self._in.begin_anew(pairing)

    def position(self) -> tuple[str, int, int]:
        """Return how far the partner's versions are here."""
        return ("value", *self._in.position)

    def stop(self) -> None:
        """End the waits."""
        super().stop()
        self._in.stop()

    def close(self) -> None:
        """Remove the value, if nobody has published another one since."""
        service = self.place.service
        with contextlib.suppress(NotPublishedError, RuntimeError):
            if self._published and service.version(self.here) == self._published:
                service.unpublish(self.here)
