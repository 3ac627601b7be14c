"""The link: a Zenoh session in which two bridges find each other and send each other frames.

Note [Partners]
Each bridge has an id, made when it starts, and a liveliness token, by which the others see it
come and go: also when the connection is cut, after `_LEASE_MS` at the latest. A bridge chooses
one of those that it sees as its partner and tells it so in a hello. When both have chosen each
other, the link is up. It stays so until the token is gone. While its last partner is there, a
bridge takes no other; else it takes the smallest id, so that of several that wait two always
agree. Frames go to the partner alone, and those of others are refused.

A hello says how far the sender got with the streams of the one whom it has chosen. So a partner
that comes back after a cut sends what did not arrive (`shmtensor/bridge/_streams.py`).

Note [Pairings]
The two may not agree on whether they were parted: one of them may have had another partner while
the other waited for it. So each counts how often it has chosen, and its hellos say at which count
it has `begun` with this partner. Two bridges and these two numbers are a pairing. Who hears
another number than before lets all streams begin anew, in both directions, before it answers; and
the link comes up with an answer to one's own number. All frames but hellos have both numbers in
their key, and those of another pairing are refused. So the first frame of a stream is number 1 at
both ends, and nothing that was on its way before can be taken for it.

Threads: Zenoh calls `_on_sample` for each frame, one after the other. It checks the header and
hands the frame to whoever waits for it, and never waits itself: the link's keep-alive messages
come by the same way. Who comes and goes, and what they say, is worked off by a thread of its own,
which may wait for the network (`shmtensor/bridge/_greetings.py`).
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from shmtensor._core._deadlines import left_until
from shmtensor.bridge import _format
from shmtensor.bridge._counters import BridgeStatus
from shmtensor.bridge._format import Damaged
from shmtensor.bridge._greetings import Greeting, Greetings

__all__ = ["Frame", "Link", "Listener", "new_id", "zenoh"]

_ROOT = f"shmtensor/bridge/{_format.FORMAT}"
_LEASE_MS = 3000  # a partner from whom nothing comes for so long is gone
_RETRY_S = 1.0  # how often a hello is repeated that nobody has answered
_RETRY_MS = {"period_init_ms": 250, "period_max_ms": 2000, "period_increase_factor": 2}
_HEADROOM = 1 << 20  # of a message of Zenoh, beside the payload


def zenoh() -> Any:
    """Return the module of Zenoh; it is loaded when it is first needed.

    Raises:
        ModuleNotFoundError: It is not installed.
    """
    try:
        import zenoh as module
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a bridge needs the package eclipse-zenoh: pip install 'shmtensor[bridge]'"
        ) from error
    return module


class Frame:
    """A frame that has come: its checked header, Zenoh's payload, and the pairing it is of."""

    def __init__(self, header: dict[str, Any], payload: Any, pairing: str) -> None:
        self.header = header
        self.pairing = pairing
        self._payload = payload
        self.nbytes = len(payload)

    def payload(self) -> bytes:
        """Return the payload, which may copy it."""
        return self._payload.to_bytes()  # type: ignore[no-any-return]


class Listener(Protocol):
    """What a link tells. None of these calls waits, except `up`, `repair` and `begin_anew`."""

    def begin_anew(self, pairing: str) -> None:
        """There is another pairing: nothing of the streams has gone or come. The link is down."""

    def up(self, to: str, received: list[list[str | int]]) -> None:
        """The link is up. Frames of streams go *to* there, and the partner has this of them."""

    def is_stalled(self) -> bool:
        """Whether something is under way of which nothing was heard since the last call."""

    def repair(self, received: list[list[str | int]]) -> None:
        """The partner has this of what was under way at that call: send the rest again."""

    def down(self) -> None:
        """The link is down."""

    def received(self) -> list[list[str | int]]:
        """Return how far this bridge got with the streams of its partner."""

    def frame(self, frame: Frame) -> None:
        """A frame of the partner has come."""


def _configuration(
    connect: Sequence[str], listen: Sequence[str], path: str | None, most_bytes: int
) -> Any:
    """Return Zenoh's configuration: the user's, or one that reaches these addresses only."""
    config = zenoh().Config() if path is None else zenoh().Config.from_file(path)

    def insert(key: str, value: object) -> None:
        config.insert_json5(key, json.dumps(value))

    if path is None:
        insert("mode", "peer")
        insert("scouting/multicast/enabled", False)
        insert("scouting/gossip/enabled", False)
        insert("listen/endpoints", [])
        insert("connect/timeout_ms", -1)
        insert("connect/exit_on_failure", False)
        insert("connect/retry", _RETRY_MS)
        insert("transport/link/tx/lease", _LEASE_MS)
    if connect:
        insert("connect/endpoints", list(connect))
    if listen:
        insert("listen/endpoints", list(listen))
    # Two machines share no memory; and Zenoh's own would stay behind a bridge that is killed.
    insert("transport/shared_memory/enabled", False)
    insert("transport/link/rx/max_message_size", most_bytes + _HEADROOM)
    return config


class Link:
    """A Zenoh session, and the partner in it.

    Args:
        pair: The name of the pair: bridges of other pairs are not seen.
        connect: Zenoh's addresses to connect to.
        listen: Zenoh's addresses to listen at.
        config: Path of a configuration file of Zenoh.
        most_bytes: Of a payload.
        listener: Is told what happens.
        status: What is counted here.
        failed: Is called with an error that ends the bridge.

    Raises:
        ValueError: *pair* cannot be a name.
        OSError: Zenoh cannot listen at an address, or refuses the configuration.
        ModuleNotFoundError: Zenoh is not installed.
    """

    def __init__(
        self,
        pair: str,
        connect: Sequence[str],
        listen: Sequence[str],
        config: str | None,
        most_bytes: int,
        listener: Listener,
        status: BridgeStatus,
        failed: Callable[[BaseException], None],
    ) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,127}", pair):
            raise ValueError(f"the name of a pair has letters, digits, '_', '.' and '-': {pair!r}")
        self._root = f"{_ROOT}/{pair}"
        self._config = (connect, listen, config, most_bytes)
        self._listener, self._status, self._failed = listener, status, failed
        self._me = status.id
        self._greetings = Greetings()
        self._chosen = ""
        self._last = ""
        # How often we chose; and which of its own attempts the partner was at, when last heard.
        self._attempt = self._heard = 0
        # Note [Pairings]: our number, and the partner's, or 0 while it is not known.
        self._begun = self._theirs = 0
        # Where frames go, and the end of the keys of those that come; "" while there is no pairing.
        self._to = self._from = ""
        self._thread = threading.Thread(target=self._work, name="shmtensor-link", daemon=True)
        self._is_closed = False

    def open(self) -> None:
        """Open the session, and be seen."""
        module = zenoh()
        try:
            self._session = module.open(_configuration(*self._config))
        except Exception as error:  # Zenoh has one class for all, which is no OSError
            raise OSError(f"Zenoh cannot start: {error}") from error
        try:
            self._thread.start()
            self._frames = self._session.declare_subscriber(
                f"{self._root}/{self._me}/*/*", self._on_sample
            )
            alive = f"{self._root}/alive"
            liveliness = self._session.liveliness()
            self._others = liveliness.declare_subscriber(f"{alive}/*", self._on_token, history=True)
            self._token = liveliness.declare_token(f"{alive}/{self._me}")
        except BaseException:
            self.close()
            raise

    # --- sending ---

    def send(
        self, header: bytes, payload: bytes = b"", urgent: bool = False, to: str | None = None
    ) -> None:
        """Send a frame to the partner; without one, to nobody.

        Waits while the network takes no more. *urgent* frames may overtake others. With *to*, the
        frame is of this pairing, whatever is there now.
        """
        if to is None:
            to = self._to
        if not to or self._is_closed:
            return
        module = zenoh()
        priority = module.Priority.INTERACTIVE_HIGH if urgent else module.Priority.DATA
        try:
            self._session.put(
                to,
                payload,
                attachment=header,
                congestion_control=module.CongestionControl.BLOCK,
                priority=priority,
                express=urgent,
            )
        except module.ZError:
            # The session is closed, or the connection was, while this waited: the token says so.
            return

    # --- receiving ---

    def _on_sample(self, sample: Any) -> None:
        try:
            sender, pairing = str(sample.key_expr).split("/")[-2:]
            header = _header_of(sample)
            if not _format.is_id(sender):
                raise Damaged(f"a frame of {sender!r:.80}")
            if header["kind"] == "hello":
                _check_hello(sender, header)
            elif sender != self._chosen:
                raise Damaged(f"a frame of {sender}, which is not the partner")
            elif f"{sender}/{pairing}" != self._from:
                raise Damaged(f"a frame of {sender} as it was before, or of nobody")
            if header["kind"] in ("hello", "ask"):
                nbytes = len(sample.attachment)
                self._greetings.put(Greeting(header["kind"], sender, header, nbytes))
                self._status.n_dropped = self._greetings.n_dropped
            else:
                self._listener.frame(Frame(header, sample.payload, pairing))
        except Damaged as error:
            self._count_damage(error)
        except BaseException as error:
            self._failed(error)

    def _count_damage(self, error: Damaged) -> None:
        self._status.n_damaged += 1
        self._status.last_error = str(error)

    def _on_token(self, sample: Any) -> None:
        other = str(sample.key_expr).rpartition("/")[2]
        if other == self._me or not _format.is_id(other):
            return
        is_there = sample.kind == zenoh().SampleKind.PUT
        (self._greetings.comes if is_there else self._greetings.goes)(other)

    # --- partners: Note [Partners] ---

    def _work(self) -> None:
        try:
            look_s = time.monotonic() + _RETRY_S
            while self._greetings.wait(left_until(look_s) if self._chosen else None):
                if self._greetings.take_change():
                    self._happened()
                if time.monotonic() >= look_s:  # also while others come and go all the time
                    self._look_after()
                    look_s = time.monotonic() + _RETRY_S
        except BaseException as error:
            self._failed(error)

    def _look_after(self) -> None:
        """Say again what has had no effect."""
        if not self._chosen:
            return
        if not self._status.is_up:
            self._say_hello(answers=False)
        elif self._listener.is_stalled():
            # Behind all that is under way, so that the answer covers that.
            self.send(_format.write_header("ask"))

    def _happened(self) -> None:
        if self._greetings.take_gone():
            self._chosen = self._to = self._from = ""
            self._set_down()
        if not self._chosen:
            self._choose()
        while (greeting := self._greetings.take()) is not None:
            if greeting.sender != self._chosen:
                continue
            if greeting.what == "hello":
                self._greeted(greeting.header)
            else:
                self._say_hello(answers=True)
        self._status.waiting = self._greetings.others()

    def _choose(self) -> None:
        chosen = self._greetings.choose(self._last)
        if not chosen:
            return
        self._attempt += 1
        if chosen != self._last:
            self._begun, self._theirs, self._heard = self._attempt, 0, 0
        self._last = self._chosen = chosen
        self._say_hello(answers=False)

    def _say_hello(self, answers: bool) -> None:
        header = _format.write_header(
            "hello",
            format=_format.FORMAT,
            byte_order=_format.BYTE_ORDER,
            chosen=self._chosen,
            answers=answers,
            attempt=self._attempt,
            begun=self._begun,
            knows=self._theirs,
            received=self._listener.received(),
        )
        self.send(header, urgent=True, to=f"{self._root}/{self._chosen}/{self._me}/hello")

    def _greeted(self, hello: dict[str, Any]) -> None:
        if hello["chosen"] != self._me:
            return
        self._pair(hello["begun"])
        is_new, self._heard = hello["attempt"] != self._heard, hello["attempt"]
        if not hello["answers"]:
            if is_new:  # it has lost the link, if there was one
                self._set_down()
            self._say_hello(answers=True)
            if is_new:  # what we said before may have come before it chose us
                self._say_hello(answers=False)
        elif hello["knows"] != self._begun:
            return  # to what we said before we began with it
        elif self._status.is_up:
            self._listener.repair(hello["received"])  # the answer to an "ask"
        else:
            # Our frames reach it, as it answers.
            self._set_up(hello)

    def _pair(self, theirs: int) -> None:
        """Note [Pairings]: the partner has begun with us at this number."""
        pairing = f"{self._begun}-{theirs}"
        if theirs != self._theirs:
            self._set_down()
            self._to = self._from = ""
            self._listener.begin_anew(pairing)
            self._theirs = theirs
        self._to = f"{self._root}/{self._chosen}/{self._me}/{theirs}-{self._begun}"
        self._from = f"{self._chosen}/{pairing}"

    def _set_up(self, hello: dict[str, Any]) -> None:
        self._status.partner = self._chosen
        self._status.n_ups += 1
        self._status.is_up = True
        self._listener.up(self._to, hello["received"])

    def _set_down(self) -> None:
        if not self._status.is_up:
            return
        self._status.is_up, self._status.partner = False, ""
        self._listener.down()

    # --- the end ---

    def close(self) -> None:
        """End the session. Waits until no more is received."""
        if self._is_closed:
            return
        self._is_closed = True
        self._greetings.end()
        session = getattr(self, "_session", None)
        if session is not None:
            with contextlib.suppress(zenoh().ZError):
                session.close()


def _header_of(sample: Any) -> dict[str, Any]:
    attachment = sample.attachment
    if attachment is None:
        raise Damaged("a frame without a header")
    if len(attachment) > _format.MOST_HEADER:
        raise Damaged(f"a header of {len(attachment)} bytes")
    return _format.read_header(attachment.to_bytes())


def _check_hello(sender: str, hello: dict[str, Any]) -> None:
    if (hello["format"], hello["byte_order"]) != (_format.FORMAT, _format.BYTE_ORDER):
        text = f"format {hello['format']} and byte order {hello['byte_order']!r:.20}"
        raise Damaged(f"the bridge {sender} has {text}")


def new_id() -> str:
    """Return the id of a new bridge."""
    return secrets.token_hex(8)
