"""Calls: programs of one machine call the servers of the other by the same name.

Where the programs are, the bridge is a server: it sends each request to the other bridge, which
is a client there and sends the reply back. Requests of a name are numbered, and at most `_MOST`
of them are under way; more wait in the service, as for any busy server. A client that no longer
waits is noticed here and its server told so. Nothing of an error is pickled: its class travels by
name, and a built-in exception is made anew.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty
from typing import Any

from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._interrupts import Condition
from shmtensor.bridge import _format
from shmtensor.bridge._endpoints import SLICE_S, Endpoint, Place
from shmtensor.bridge._format import Damaged
from shmtensor.bridge._link import Frame
from shmtensor.bridge._streams import Inbox
from shmtensor.bridge._waits import wait_until
from shmtensor.errors import ManagerError, RemoteError, ServerLostError
from shmtensor.multiprocessing._user_errors import as_error, text_of, told
from shmtensor.service import Request
from shmtensor.service._calls import Client, Server

__all__ = ["CallEndpoint", "RemoteCallEndpoint"]

_MOST = 128
_MOST_BYTES = 256 << 20
_LOST = "the link to the other machine is lost: its bridge has gone, or cannot be reached"
_NOBODY = "there is no link to the other machine yet"

#: Exceptions that are made anew from their text.
_KNOWN: dict[str, type[Exception]] = {
    cls.__name__: cls
    for cls in (
        ArithmeticError,
        AssertionError,
        AttributeError,
        BufferError,
        ConnectionError,
        EOFError,
        FileExistsError,
        FileNotFoundError,
        IndexError,
        KeyError,
        LookupError,
        MemoryError,
        NameError,
        NotImplementedError,
        OSError,
        OverflowError,
        PermissionError,
        RuntimeError,
        ServerLostError,
        TimeoutError,
        TypeError,
        ValueError,
        ZeroDivisionError,
    )
}


class RemoteCallEndpoint(Endpoint):
    """A name whose servers are on the other machine: this one has the clients."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, name, "remote call")
        self._is_up = self._was_up = False
        self._serial = 0
        self._changed = free_in_child(Condition())  # guards all above and those under way
        self._under_way: dict[int, tuple[Request, int]] = {}  # with the bytes that were sent
        self._nbytes = 0
        self._replies = Inbox(2 * _MOST, _MOST_BYTES + place.most_bytes)
        self._server: Server | None = None

    def start(self) -> None:
        """Start a thread for requests and one for replies."""
        self._server = server = self.place.service.Server(self.here, mode="ro")
        self.run(functools.partial(self._send_requests, server), "call")
        self.run(self._give_replies, "reply")

    # --- requests ---

    def _send_requests(self, server: Server) -> None:
        looked_s = time.monotonic()
        while not self.is_stopped:
            taken = self._take(server) if self._has_room() else None
            if taken is not None:
                self._send(taken)
            if time.monotonic() - looked_s >= SLICE_S:
                self._give_up_unwanted()
                looked_s = time.monotonic()

    def _has_room(self) -> bool:
        with self._changed:
            return wait_until(
                self._changed,
                lambda: (
                    self.is_stopped or (len(self._under_way) < _MOST and self._nbytes < _MOST_BYTES)
                ),
                SLICE_S,
            )

    def _take(self, server: Server) -> Request | None:
        try:
            return server.take(timeout=SLICE_S).pop()
        except Empty:
            return None
        except (ManagerError, OSError, ValueError):
            if self.is_stopped:
                return None
            raise

    def _send(self, request: Request) -> None:
        try:
            payload = _format.encode(request.value, self.place.most_bytes)
        except BaseException as error:  # of whatever the value is made of
            self.refuse(error)
            _fail(request, as_error(error, "sending the request"))
            return
        with self._changed:
            if not self._is_up:
                request._fail_or_let_go(ServerLostError(_LOST if self._was_up else _NOBODY))
                return
            self._serial += 1
            serial = self._serial
            self._under_way[serial] = request, len(payload)
            self._nbytes += len(payload)
            self.counted.n_under_way = len(self._under_way)
        self.counted.n_sent += 1
        self.counted.sent_bytes += len(payload)
        self.place.link.send(_format.write_header("call", name=self.name, serial=serial), payload)

    def _give_up_unwanted(self) -> None:
        with self._changed:
            unwanted = [n for n, (request, _) in self._under_way.items() if not request.is_wanted]
        for serial in unwanted:
            if self._taken(serial) is not None:
                header = _format.write_header("give_up", name=self.name, serial=serial)
                self.place.link.send(header)

    def _taken(self, serial: int) -> Request | None:
        """Return a request, which is then no longer under way; None: it is not."""
        with self._changed:
            request, nbytes = self._under_way.pop(serial, (None, 0))
            self._nbytes -= nbytes
            self.counted.n_under_way = len(self._under_way)
            self._changed.notify_all()
            return request

    # --- replies ---

    def frames(self) -> dict[str, Callable[[Frame], None]]:
        """Return what takes replies."""
        return {"reply": self._accept, "error": self._accept}

    def _accept(self, frame: Frame) -> None:
        try:
            self._replies.put(frame)
        except Damaged as error:
            request = self._taken(frame.header["serial"])
            if request is not None:
                request._fail_or_let_go(f"the reply cannot be taken: {error}")
            raise

    def _give_replies(self) -> None:
        while (frame := self._replies.get()) is not None:
            request = self._taken(frame.header["serial"])
            if request is None:
                continue  # its client has given up, or the link was down meanwhile
            if frame.header["kind"] == "error":
                request._fail_or_let_go(_error_of(frame.header))
            elif not self.used(frame, request.reply):
                request._fail_or_let_go(f"the reply cannot be used: {self.counted.last_error}")

    # --- the link ---

    def up(self, to: str, accepted: int, worked_off: int) -> None:
        """Send requests."""
        with self._changed:
            self._is_up = self._was_up = True

    def down(self) -> None:
        """Let the calls fail that are under way."""
        with self._changed:
            self._is_up = False
            lost = [request for request, _ in self._under_way.values()]
            self._under_way.clear()
            self._nbytes = 0
            self.counted.n_under_way = 0
            self._changed.notify_all()
        self.counted.n_lost += len(lost)
        for request in lost:
            request._fail_or_let_go(ServerLostError(_LOST))

    def stop(self) -> None:
        """End the waits of both threads, and the calls."""
        super().stop()
        self._replies.stop()
        self.down()
        if self._server is not None:
            self._server.close()


class CallEndpoint(Endpoint):
    """A name whose servers are on this machine."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, name, "call")
        self._requests = Inbox(2 * _MOST, _MOST_BYTES + place.most_bytes)
        self._lock = free_in_child(threading.Lock())
        self._under_way: dict[int, Future[Any]] = {}
        self._client: Client | None = None

    def start(self) -> None:
        """Start the thread that calls."""
        self._client = client = self.place.service.Client(self.here)
        self.run(functools.partial(self._call_servers, client), "call-in")

    def frames(self) -> dict[str, Callable[[Frame], None]]:
        """Return what takes requests."""
        return {"call": self._requests.put, "give_up": self._give_up}

    def _call_servers(self, client: Client) -> None:
        while (frame := self._requests.get()) is not None:
            serial = frame.header["serial"]
            if not self.used(frame, functools.partial(self._call, client, serial)):
                self._send_error(serial, RemoteError(self.counted.last_error))

    def _call(self, client: Client, serial: int, value: Any) -> None:
        future = client.submit(value)
        with self._lock:
            if len(self._under_way) >= 2 * _MOST or serial in self._under_way:
                future.cancel()
                raise Damaged(f"more than {len(self._under_way)} requests at once")
            self._under_way[serial] = future
            self.counted.n_under_way = len(self._under_way)
        future.add_done_callback(functools.partial(self._done, serial))

    def _give_up(self, frame: Frame) -> None:
        with self._lock:
            future = self._under_way.get(frame.header["serial"])
        if future is not None:
            future.cancel()

    def _done(self, serial: int, future: Future[Any]) -> None:
        with self._lock:
            self._under_way.pop(serial, None)
            self.counted.n_under_way = len(self._under_way)
        if not future.cancelled() and not self.is_stopped:
            # Nobody would hear of an error here, in a callback.
            self._guarded(functools.partial(self._answer, serial, future))

    def _answer(self, serial: int, future: Future[Any]) -> None:
        error = future.exception()
        if error is not None:
            self._send_error(serial, error)
            return
        try:
            payload = _format.encode(future.result(), self.place.most_bytes)
        except BaseException as unsendable:  # of whatever the reply is made of
            self.refuse(unsendable)
            self._send_error(serial, as_error(unsendable, "sending the reply"))
            return
        self.counted.n_sent += 1
        self.counted.sent_bytes += len(payload)
        self.place.link.send(_format.write_header("reply", name=self.name, serial=serial), payload)

    def _send_error(self, serial: int, error: BaseException) -> None:
        header = _format.write_header(
            "error",
            name=self.name,
            serial=serial,
            type=told(error, lambda: type(error).__name__),
            text=told(error, lambda: _message_of(error)).removeprefix(f"{self.here!r}: "),
            trace=told(error, lambda: _trace_of(error)),
        )
        self.place.link.send(header)

    # --- the link ---

    def down(self) -> None:
        """Nobody waits for these replies any more."""
        with self._lock:
            futures = list(self._under_way.values())
        for future in futures:
            future.cancel()

    def stop(self) -> None:
        """End the waits, and the calls."""
        super().stop()
        self._requests.stop()
        self.down()
        if self._client is not None:
            self._client.close()


def _fail(request: Request, error: Exception) -> None:
    """Answer with an error, whose class may be a user's."""
    try:
        request._fail_or_let_go(error)
    except BaseException:  # of its `__reduce__`
        request._fail_or_let_go(text_of(error))


def _message_of(error: BaseException) -> str:
    """Return the text of an error, from which its class makes one with the same text."""
    is_plain = len(error.args) == 1 and isinstance(error.args[0], str)
    return error.args[0] if is_plain else str(error)


def _trace_of(error: BaseException) -> str:
    """Return the traceback of the server, if it came with the error."""
    cause = error.__cause__
    return str(cause if isinstance(cause, RemoteError) else error)


def _error_of(header: dict[str, Any]) -> BaseException | str:
    """Return the exception that a server of the other machine has answered with."""
    kind, text = header["type"], header["text"]
    made = _KNOWN.get(kind)
    if made is None:
        return (
            text if kind == "RemoteError" else RemoteError(f"{kind}: {text}\n\n{header['trace']}")
        )
    error = made(text)
    error.__cause__ = RemoteError(header["trace"])
    return error
