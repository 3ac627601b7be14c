"""A bridge: this machine's end of the link between the services of two machines."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from shmtensor import service as _service
from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._interrupts import Condition
from shmtensor.bridge._calls import CallEndpoint, RemoteCallEndpoint
from shmtensor.bridge._counters import BridgeStatus
from shmtensor.bridge._endpoints import Endpoint, Place
from shmtensor.bridge._format import Damaged
from shmtensor.bridge._link import Frame, Link, new_id
from shmtensor.bridge._topics import TopicEndpoint
from shmtensor.bridge._values import RemoteValueEndpoint, ValueEndpoint
from shmtensor.bridge._waits import wait_until
from shmtensor.multiprocessing._user_errors import as_error, print_error
from shmtensor.service import Service
from shmtensor.service._calls import Server

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MOST_BYTES", "STATUS_PREFIX", "Bridge"]

#: Bridges of a service answer calls to this name and their id with their status.
STATUS_PREFIX = "bridge/"
MOST_BYTES = 256 << 20
_END_S = 0.8  # how long `close` waits for threads


class Bridge:
    """Forwards topics, values and calls between a service of this machine and one of another.

    A bridge runs on each of the two machines. Both name what they share, and nothing else crosses:
    a topic goes in both directions, or in one; a value or the servers of a name belong to one of
    the machines, whose bridge names it in *values* or *calls*, and the other one in
    *remote_values* or *remote_calls*. A message crosses once, however many subscribers there are,
    and no pickle ever.
    ``docs/bridge.md`` says what is promised.

    A ``with`` block starts the bridge and ends it. It works in threads of its own.

    Args:
        service: Of this machine; None: the default service.
        connect: Where the other bridge listens: addresses of Zenoh such as
            ``"tcp/192.168.1.7:7447"``.
        listen: Where to listen for the other bridge: ``"tcp/0.0.0.0:7447"``.
        topics: Topics, in both directions.
        topics_out: Topics whose messages go to the other machine, and not back: it names them in
            *topics_in*.
        topics_in: Topics whose messages come from the other machine, and do not go there.
        values: Values that programs of this machine publish.
        calls: Names whose servers are on this machine.
        remote_values: Values that programs of the other machine publish.
        remote_calls: Names whose servers are on the other machine.
        prefix: What names have in front on this machine, and not on the other.
        pair: What the two bridges have in common, where several pairs are in one Zenoh network.
        config: Path of a configuration file of Zenoh: TLS, access control, routers.
        max_bytes: A message of more bytes is not sent, and not accepted.
        on_change: Is called in a thread of the bridge, with whether the link is up, when it comes
            up or goes down, and when an error has ended the bridge. What it raises is printed on
            standard error, and changes nothing.

    Raises:
        ValueError: There is neither an address nor a configuration, a name is given twice, or
            *max_bytes* is less than 1.
        TypeError: One name is given where several may be.
    """

    def __init__(
        self,
        service: Service | None = None,
        *,
        connect: str | Sequence[str] = (),
        listen: str | Sequence[str] = (),
        topics: Iterable[str] = (),
        topics_out: Iterable[str] = (),
        topics_in: Iterable[str] = (),
        values: Iterable[str] = (),
        calls: Iterable[str] = (),
        remote_values: Iterable[str] = (),
        remote_calls: Iterable[str] = (),
        prefix: str = "",
        pair: str = "default",
        config: str | os.PathLike[str] | None = None,
        max_bytes: int = MOST_BYTES,
        on_change: Callable[[bool], object] = bool,
    ) -> None:
        addresses = [[a] if isinstance(a, str) else list(a) for a in (connect, listen)]
        if not any(addresses) and config is None:
            raise ValueError("a bridge needs an address to connect to or to listen at, or a config")
        if max_bytes < 1:
            raise ValueError(f"max_bytes must be at least 1, got {max_bytes}")
        self._service = _service._default if service is None else service
        self._status = BridgeStatus(new_id(), os.getpid())
        self._changed = free_in_child(Condition())  # guards the status of the link, and the error
        self._error: Exception | None = None
        self._on_change = on_change
        self._is_started = self._is_closed = False
        self._answers: Server | None = None
        path = None if config is None else os.fspath(config)
        self._link = link = Link(
            pair, addresses[0], addresses[1], path, max_bytes, self, self._status, self._fail
        )
        place = Place(self._status.id, self._service, prefix, max_bytes, link, self._fail)
        made: list[tuple[Callable[[Place, str], Endpoint], str, Iterable[str]]] = [
            (TopicEndpoint, "topics", topics),
            (functools.partial(TopicEndpoint, takes=False), "topics_out", topics_out),
            (functools.partial(TopicEndpoint, sends=False), "topics_in", topics_in),
            (ValueEndpoint, "values", values),
            (RemoteValueEndpoint, "remote_values", remote_values),
            (CallEndpoint, "calls", calls),
            (RemoteCallEndpoint, "remote_calls", remote_calls),
        ]
        self._endpoints: list[Endpoint] = [
            make(place, name) for make, what, names in made for name in _several(what, names)
        ]
        self._check_names()
        self._takers: dict[tuple[str, str], Callable[[Frame], None]] = {
            (kind, endpoint.name): take
            for endpoint in self._endpoints
            for kind, take in endpoint.frames().items()
        }
        #: By the kind of stream and name: who sends it.
        self._senders = {
            (e.counted.kind, e.name): e
            for e in self._endpoints
            if e.counted.kind in ("topic", "value")
        }

    def _check_names(self) -> None:
        seen: set[str] = set()
        for endpoint in self._endpoints:
            if endpoint.name in seen:
                raise ValueError(f"the name {endpoint.name!r} is given twice to the bridge")
            seen.add(endpoint.name)

    # --- life ---

    def start(self) -> None:
        """Start the bridge. The link comes up when the other one is there.

        Raises:
            OSError: Zenoh cannot listen at an address, or refuses the configuration.
            ModuleNotFoundError: Zenoh is not installed.
            ManagerError: The service cannot be reached.
            ValueError: A name stands for something else.
            RuntimeError: The bridge was started or closed before, or no thread can be started.
        """
        if self._is_started or self._is_closed:
            raise RuntimeError("a bridge is started once; make another one")
        self._is_started = True
        self._service._handle.join(True)
        try:
            for endpoint in self._endpoints:
                endpoint.start()
            self._answers = self._service.Server(STATUS_PREFIX + self._status.id)
            threading.Thread(
                target=self._answer,
                args=(self._answers,),
                name="shmtensor-bridge-status",
                daemon=True,
            ).start()
            self._link.open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the bridge, within a second. What it has published as remote values is removed."""
        if self._is_closed:
            return
        self._is_closed = True
        with self._changed:
            self._changed.notify_all()
        end_s = time.monotonic() + _END_S

        def left() -> float:
            return max(end_s - time.monotonic(), 0.0)

        for endpoint in self._endpoints:
            endpoint.stop()
        ending = self._end_link()
        if self._answers is not None:
            self._answers.close()
            self._answers = None  # with its name
        for endpoint in self._endpoints:
            endpoint.join(left)
        if ending is not None:
            ending.join(left())
        for endpoint in self._endpoints:
            endpoint.close()

    def _end_link(self) -> threading.Thread | None:
        """Close the link in a thread, as Zenoh may wait for a network that is gone."""
        ending = threading.Thread(target=self._link.close, name="shmtensor-link-end", daemon=True)
        try:
            ending.start()
        except RuntimeError:  # there are too many threads, which is perhaps why the start failed
            self._link.close()
            return None
        return ending

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "up" if self._status.is_up else "down"
        return f"<Bridge {self._status.id} of {self._service!r}, {state}>"

    # --- what happens ---

    def wait_up(self, timeout: float | None = None) -> bool:
        """Wait until the link is up; False: it is not after *timeout* seconds.

        Raises:
            Exception: What has ended the bridge.
        """
        return self._wait(lambda: self._status.is_up, timeout)

    def wait_down(self, timeout: float | None = None) -> bool:
        """Wait until the link is down; otherwise as `wait_up`."""
        return self._wait(lambda: not self._status.is_up, timeout)

    def _wait(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        with self._changed:
            wait_until(
                self._changed,
                lambda: condition() or self._error is not None or self._is_closed,
                timeout,
            )
            if self._error is not None:
                raise self._error
            return condition()

    def status(self) -> BridgeStatus:
        """Return the counters at this moment."""
        rows = {**vars(self._status), "names": [e.status() for e in self._endpoints]}
        return BridgeStatus(**rows)

    def _fail(self, error: BaseException) -> None:
        """An error ends the bridge: `wait_up` and `wait_down` raise it."""
        with self._changed:
            if self._error is None and not self._is_closed:
                self._error = as_error(error, "a thread of the bridge")
        self._tell(False)

    def _tell(self, is_up: bool) -> None:
        with self._changed:
            self._changed.notify_all()
        try:
            self._on_change(is_up)
        except BaseException as error:  # this is a thread of ours, which has more to do
            print_error(error)

    def _answer(self, server: Server) -> None:
        """Tell programs of this service the status, while the bridge runs."""
        while not self._is_closed:
            try:
                request = server.take().pop()
            except BaseException as error:  # also of the pickles that others send here
                if not self._is_closed:
                    self._fail(error)
                return
            with request:  # there may be no room for the answer, or nobody who reads it
                request.reply(self.status().as_dict())

    # --- what the link tells: shmtensor.bridge._link.Listener ---

    def begin_anew(self, pairing: str) -> None:
        """There is another pairing."""
        for endpoint in self._endpoints:
            endpoint.begin_anew(pairing)

    def up(self, to: str, received: list[list[str | int]]) -> None:
        """The link is up."""
        positions = _positions(received)
        for endpoint in self._endpoints:
            endpoint.up(to, *positions.get((endpoint.counted.kind, endpoint.name), (0, 0)))
        self._tell(True)

    def is_stalled(self) -> bool:
        """Whether something is under way of which nothing was heard since the last call."""
        n_stalled = sum(endpoint.is_stalled() for endpoint in self._endpoints)  # each one looks
        return n_stalled > 0

    def repair(self, received: list[list[str | int]]) -> None:
        """Send again what the partner has not accepted."""
        for (kind, name), position in _positions(received).items():
            if (kind, name) in self._senders:
                self._senders[kind, name].repair(*position)

    def down(self) -> None:
        """The link is down."""
        for endpoint in self._endpoints:
            endpoint.down()
        self._tell(False)

    def received(self) -> list[list[str | int]]:
        """Return how far this bridge got with the streams of its partner."""
        rows: list[list[str | int]] = []
        for endpoint in self._endpoints:
            position = endpoint.position()
            if position is not None:
                kind, accepted, worked_off = position
                rows.append([kind, endpoint.name, accepted, worked_off])
        return rows

    def frame(self, frame: Frame) -> None:
        """A frame of the partner has come."""
        header = frame.header
        if header["kind"] == "ack":
            sender = self._senders.get((header["stream"], header["name"]))
            if sender is None:
                raise Damaged(f"an acknowledgement for {header['name']!r}")
            sender.acknowledged(header["seq"], header["used"])
            return
        take = self._takers.get((header["kind"], header["name"]))
        if take is None:
            raise Damaged(f"a {header['kind']} for {header['name']!r}, which is not shared here")
        take(frame)


def _several(what: str, names: Iterable[str]) -> Iterable[str]:
    """Return the names, and refuse one alone, whose letters would be shared."""
    if isinstance(names, str):
        raise TypeError(f"{what}: expected several names, got {names!r}; give [{names!r}]")
    return names


def _positions(received: list[list[str | int]]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return how far a partner is, as a hello says it, by the kind and name of each stream."""
    # The header was checked: two texts and two numbers.
    return {
        (str(kind), str(name)): (int(accepted), int(done))
        for kind, name, accepted, done in received
    }
