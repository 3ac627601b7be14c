"""Streams of frames: one for each topic and value and direction, in order, with bounds.

Note [Windows]
A sender numbers the frames of a stream. It has at most `most` of them, and `_MOST_BYTES`, under
way: not acknowledged by the partner, who acknowledges a frame when the message is in its service,
and not earlier. So a slow machine makes the sender wait, and what waits there is the messages in
the ring of the bridge's own subscription, to which the topic's depth and overflow apply as to
every subscriber.

Frames under way are kept. When nothing is heard of them, the partner is asked how far it is.
After a cut, the partner's hello says which of them it has accepted; the others are sent again, in
order. A frame is accepted if it follows the last one: when the network has lost one between them,
both are sent again. A stream begins anew with each pairing (Note [Pairings] in
shmtensor/bridge/_link.py): what was under way then may have been used by the one that has ended or
not, and counts as lost.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._interrupts import Condition
from shmtensor.bridge._counters import NameStatus
from shmtensor.bridge._format import Damaged
from shmtensor.bridge._link import Frame, Link
from shmtensor.bridge._waits import wait_until

__all__ = ["Inbox", "Incoming", "Outbox"]

_MOST_BYTES = 64 << 20


class _Sent(NamedTuple):
    seq: int
    header: bytes
    payload: bytes


class Outbox:
    """The sending end of a stream. One thread sends; any may tell it what happens.

    Args:
        link: Where frames go.
        status: What is counted here.
        most: How many frames are under way at most.
    """

    def __init__(self, link: Link, status: NameStatus, most: int) -> None:
        self._link, self._status, self._most = link, status, most
        self._changed = free_in_child(Condition())
        # Held while frames are handed to the network, so that they go in their order.
        self._sending = free_in_child(threading.Lock())
        self._under_way: deque[_Sent] = deque()
        self._nbytes = 0
        self._seq = self._oldest = self._asked = 0
        self._to = ""
        self._is_up = self._is_stopped = False
        #: Grows with each pairing, in which the partner has nothing of the stream yet.
        self.generation = 0

    def wait_for_room(self) -> bool:
        """Wait until a frame may be sent now; False: the stream is stopped."""
        with self._changed:
            wait_until(
                self._changed, lambda: self._is_stopped or (self._is_up and self._has_room())
            )
            return not self._is_stopped

    def _has_room(self) -> bool:
        return len(self._under_way) < self._most and self._nbytes < _MOST_BYTES

    def send(self, header: Callable[[int], bytes], payload: bytes) -> None:
        """Send a frame; *header* makes its header, for its number. There is room."""
        with self._sending:
            with self._changed:
                self._seq += 1
                sent = _Sent(self._seq, header(self._seq), payload)
                self._under_way.append(sent)
                self._nbytes += len(payload)
                self._status.n_under_way = len(self._under_way)
                goes_now = self._is_up
            self._status.n_sent += 1
            self._status.sent_bytes += len(payload)
            if goes_now:  # else `up` sends it
                self._link.send(sent.header, sent.payload, to=self._to)

    def acknowledged(self, seq: int, used: bool) -> None:
        """The partner has worked off all frames up to *seq*."""
        with self._changed:
            if seq > self._seq:
                raise Damaged(f"frame {seq} of {self._status.name!r} is acknowledged, not sent")
            if not used:
                self._status.n_refused += 1
                self._status.last_error = "the other machine could not use a message"
            self._drop(seq)
            self._changed.notify_all()

    def _drop(self, seq: int) -> None:
        while self._under_way and self._under_way[0].seq <= seq:
            self._nbytes -= len(self._under_way.popleft().payload)
        self._status.n_under_way = len(self._under_way)

    def up(self, to: str, accepted: int, worked_off: int) -> None:
        """The link is up: send again what the partner has not accepted."""
        with self._sending:
            with self._changed:
                self._to = to
                self._drop(min(worked_off, self._seq))
                again = [sent for sent in self._under_way if sent.seq > accepted]
            for sent in again:
                self._link.send(sent.header, sent.payload, to=to)
            self._status.n_resent += len(again)
            with self._changed:
                self._is_up = True
                self._changed.notify_all()

    def is_stalled(self) -> bool:
        """Whether the oldest frame is the one of the last call; `repair` goes as far as this."""
        with self._changed:
            oldest = self._under_way[0].seq if self._under_way else 0
            is_same, self._oldest, self._asked = oldest == self._oldest, oldest, self._seq
            return bool(oldest) and is_same

    def repair(self, accepted: int, worked_off: int) -> None:
        """Send again what the partner had not accepted when it was asked.

        The network has lost it: that happens between Zenoh's connection and its knowledge of who
        is to get what.
        """
        with self._sending:
            with self._changed:
                self._drop(min(worked_off, self._seq))
                again = [s for s in self._under_way if accepted < s.seq <= self._asked]
                self._changed.notify_all()
            for sent in again:
                self._link.send(sent.header, sent.payload, to=self._to)
            self._status.n_resent += len(again)

    def begin_anew(self) -> None:
        """There is another pairing, and the link is down: frames are numbered from 1 again."""
        with self._sending, self._changed:  # after a frame that is being sent
            self._status.n_lost += len(self._under_way)
            self._drop(self._seq)
            self._seq = self._oldest = self._asked = 0
            self.generation += 1

    def down(self) -> None:
        """The link is down: send nothing until it is up."""
        with self._changed:
            self._is_up = False

    def stop(self) -> None:
        """End waits."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()


class Inbox:
    """Frames that have come and wait to be worked off by one thread.

    Args:
        most: How many there are at most; a partner that keeps to its window never sends more.
        most_bytes: The same of their bytes.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._changed = free_in_child(Condition())
        self._frames: deque[Frame] = deque()
        self._nbytes = 0
        self._is_stopped = False

    def put(self, frame: Frame) -> None:
        """Add a frame.

        Raises:
            Damaged: There are too many.
        """
        with self._changed:
            nbytes = self._nbytes + frame.nbytes
            if len(self._frames) >= self._most or (self._frames and nbytes > self._most_bytes):
                raise Damaged(f"more than {len(self._frames)} frames wait here: the window is full")
            self._frames.append(frame)
            self._nbytes = nbytes
            self._changed.notify()

    def get(self) -> Frame | None:
        """Wait for the next frame; None: there will be none."""
        with self._changed:
            wait_until(self._changed, lambda: self._is_stopped or self._frames)
            if self._is_stopped:
                return None
            frame = self._frames.popleft()
            self._nbytes -= frame.nbytes
            return frame

    def stop(self) -> None:
        """Let `get` return None from now on."""
        with self._changed:
            self._is_stopped = True
            self._frames.clear()
            self._changed.notify_all()


class Incoming:
    """The receiving end of a stream: which frames were accepted, and what waits.

    Args:
        link: Where acknowledgements go.
        acknowledgement: Makes one, of a number and of whether the frame was used.
        most: As of the `Outbox`.
        most_bytes: Of a payload.
    """

    def __init__(
        self, link: Link, acknowledgement: Callable[[int, bool], bytes], most: int, most_bytes: int
    ) -> None:
        self._link, self._acknowledgement = link, acknowledgement
        # Twice: acknowledgements may have been lost with a link, and the window is then open again.
        self._inbox = Inbox(2 * most, 2 * (_MOST_BYTES + most_bytes))
        self._accepted = self._worked_off = 0
        self._generation = 0
        self._to = self._pairing = ""
        self._lock = free_in_child(threading.Lock())

    @property
    def position(self) -> tuple[int, int]:
        """The last frame that was accepted, and the last one that was worked off."""
        return self._accepted, self._worked_off

    def begin_anew(self, pairing: str) -> None:
        """There is another pairing; its frames begin with 1. What has come is still worked off."""
        with self._lock:
            self._accepted = self._worked_off = 0
            self._to, self._pairing = "", pairing
            self._generation += 1

    def put(self, frame: Frame) -> bool:
        """Accept a frame; False: it has come before, or one before it has not, or all begin anew.

        Raises:
            Damaged: Too many wait.
        """
        with self._lock:
            seq = frame.header["seq"]
            if seq != self._accepted + 1 or frame.pairing != self._pairing:
                return False
            frame.header["generation"] = self._generation
            self._inbox.put(frame)
            self._accepted = seq
            return True

    def get(self) -> Frame | None:
        """Wait for the next frame; None: the stream is stopped."""
        return self._inbox.get()

    def worked_off(self, frame: Frame, used: bool) -> None:
        """The frame is done; its sender may send another one."""
        with self._lock:
            if frame.header["generation"] != self._generation:
                return
            seq = self._worked_off = frame.header["seq"]
            to = self._to
        self._link.send(self._acknowledgement(seq, used), urgent=True, to=to)

    def up(self, to: str) -> None:
        """The link is up: say again how far this got, as that may have been lost with the link."""
        with self._lock:
            self._to = to
            seq = self._worked_off
        if seq:
            self._link.send(self._acknowledgement(seq, True), urgent=True, to=to)

    def stop(self) -> None:
        """End waits."""
        self._inbox.stop()
