"""Calls with an answer: servers and clients that find each other by name."""

from __future__ import annotations

import math
import os
import pickle
import threading
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from operator import index
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, NoReturn

from shmtensor import _C
from shmtensor._boundary.service import MODES
from shmtensor._core._deadlines import deadline_of, left_until
from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor.errors import RemoteError, ServerLostError, WaitTimeoutError
from shmtensor.multiprocessing.queues import _readable
from shmtensor.service import _libraries
from shmtensor.service._libraries import Library
from shmtensor.service._messages import AS_OURS, received

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType

    from typing_extensions import Self

    from shmtensor.service._service import Service
    from shmtensor.service._submitted import Submitted

__all__ = ["Client", "Request", "Server"]

_SLICE_S = 0.25  # how long a wait goes on without a look at what else may have happened
_MOMENT_S = 0.01  # how long who does not wait looks for a request that can be read
_MOST_REQUESTS = (1 << 31) - 1
_AT_ONCE = 256  # MOST_AT_ONCE in csrc/python/ipc/named/call.c


def _ring_of(service: Service, name: str, maxsize: int, persist: bool) -> Any:
    service._check_name(name)
    if maxsize > _MOST_REQUESTS:
        raise ValueError(f"maxsize must be at most {_MOST_REQUESTS}, got {maxsize}")
    most = max(maxsize, 0)
    ring = _C._named_ring(service._handle.address, name, True, most, 0, persist)
    ring.adopts = AS_OURS
    return ring


# --- servers --------------------------------------------------------------------------------------


class Server:
    """Takes the requests that clients of this name send, and answers them.

    ::

        server = service.Server("double")
        for request in server:
            with request:  # an exception in the block is answered
                request.reply(request.value * 2)

    Several servers of one name, also in several processes, share the requests. The name lives as
    long as any server or client has it open; with *persist* until it is unpublished. Requests wait
    while there is no server.

    Args:
        service: The service that has the name.
        name: 1 to 127 bytes.
        maxsize: Clients wait while so many requests are in the queue. 0 leaves it open: there is
            no bound until somebody says one, which settles it for everybody.
        persist: Keep the name, with its requests, when no process has it open.
        mode: How the tensors of requests may be used, as in `Service.attach`.
        as_: Whose tensors requests have: ``"shmtensor"``, ``"numpy"`` or ``"torch"``.

    Raises:
        ValueError: The name stands for something else, another *maxsize* was said before, or it is
            above 2**31 - 1.
        ManagerError: The service cannot be reached.
    """

    def __init__(
        self,
        service: Service,
        name: str,
        maxsize: int = 0,
        *,
        persist: bool = False,
        mode: str = "rw",
        as_: Library = "shmtensor",
    ) -> None:
        _libraries.check_library(as_)
        if mode not in MODES:
            raise ValueError(f"mode must be one of {MODES}, got {mode!r}")
        self._service, self._name, self._as = service, name, as_
        self._is_closed = False
        self._ring = _ring_of(service, name, maxsize, persist)
        self._ring.mode = MODES.index(mode)
        _C._serve(self._ring)

    def take(
        self, max_batch: int = 1, wait: float = 0.0, timeout: float | None = None
    ) -> list[Request]:
        """Wait for a request, and return it with others that come soon.

        A request whose value cannot be unpickled, or shown as *as_* says, is answered with the
        error and not returned.

        Args:
            max_batch: At most so many.
            wait: After the first request, wait so many seconds for more, until there are
                *max_batch*.
            timeout: Seconds to wait for the first request; None waits forever.

        Raises:
            queue.Empty: No request came in time.
            ValueError: *max_batch* is less than 1, *wait* is nan, or the server is closed.
        """
        if max_batch < 1:
            raise ValueError(f"max_batch must be at least 1, got {max_batch}")
        if math.isnan(wait):  # before a request is taken, which an error would give up
            raise ValueError("wait must be a number of seconds, got nan")
        deadline = None if timeout is None else deadline_of(timeout)
        taken: list[Request] = []
        while not taken:
            if self._is_closed:
                self._check_open()
            left = None if deadline is None else left_until(deadline)
            is_last = left is not None and left <= _SLICE_S
            try:
                self._take(max_batch, left if is_last else _SLICE_S, taken)
            except Empty:
                if is_last:
                    raise
            else:
                # Clients may send without end what cannot be read.
                is_late = deadline is not None and time.monotonic() >= deadline + _MOMENT_S
                if is_late and not taken:
                    raise Empty
        if wait > 0 or _AT_ONCE <= len(taken) < max_batch:
            self._take_more(max_batch, wait, taken)
        return taken

    def _take_more(self, max_batch: int, wait: float, taken: list[Request]) -> None:
        deadline = deadline_of(wait)
        while (n := len(taken)) < max_batch:
            left = left_until(deadline)
            try:
                self._take(max_batch - n, left, taken)
            except Empty:
                return
            if left == 0.0 and len(taken) == n:  # what came cannot be read
                return

    def _take(self, n: int, timeout: float | None, taken: list[Request]) -> None:
        """Append requests that can be read; the others are answered with the error."""
        if self._as == "shmtensor":
            _C._take_requests(self._ring, Request, self, n, timeout, taken)
            return
        came: list[Request] = []
        _C._take_requests(self._ring, Request, self, n, timeout, came)
        taken += [request for request in came if request._show()]

    async def atake(self, max_batch: int = 1) -> list[Request]:
        """Return requests as `take` does; other asyncio tasks run until there is one."""
        while True:
            try:
                return self.take(max_batch, timeout=0.0)
            except Empty:
                await _readable(self.fileno())

    def __iter__(self) -> Iterator[Request]:
        while not self._is_closed:
            try:
                taken = self.take()
            except ValueError:
                if self._is_closed:
                    return
                raise
            yield taken.pop()

    async def __aiter__(self) -> AsyncIterator[Request]:
        while not self._is_closed:
            try:
                taken = await self.atake()
            except ValueError:
                if self._is_closed:
                    return
                raise
            yield taken.pop()

    def _waited_for(self) -> Any:
        self._check_open()
        return self._ring

    def qsize(self) -> int:
        """Return how many requests wait for a server."""
        return int(self._ring.size())

    def fileno(self) -> int:
        """Return a descriptor that is readable while a request waits. The server closes it."""
        self._check_open()
        return int(self._ring.fileno(True))

    @property
    def name(self) -> str:
        """Its name in the service."""
        return self._name

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError(f"{self!r} is used after close()")

    def close(self) -> None:
        """Take no more requests through this object."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{self.qsize()} requests"
        return f"<Server {self._name!r} of {self._service!r}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Server is opened by its name, it cannot be pickled")


class Request(_C._Request):
    """A request that this process has taken. It is answered once.

    A ``with`` block answers with the exception that ends it, and with an error when it ends without
    an answer; where the client cannot be told, its call is lost. A request that nothing refers to
    any more is answered with an error as well.

    Attributes:
        value: What was asked.
    """

    __slots__ = ("__weakref__",)

    def _show(self) -> bool:
        """Show the value as the server asks for it. False: it cannot be, and the client is told."""
        try:
            self.value = received(self.value, self._server._as)
        except (Exception, SystemExit) as error:  # no client ends a server, whatever it sends
            raise_of_handler(error)
            self._fail_or_let_go(error)
            return False
        return True

    @property
    def is_wanted(self) -> bool:
        """Whether the client still waits: it neither gave up nor died, and has no answer yet."""
        return self._is_wanted

    def reply(self, value: object) -> bool:
        """Answer with a value; it may be anything that `Topic.publish` takes.

        Returns:
            Whether the client still waited for it.

        Raises:
            RuntimeError: The request was answered before.
            TypeError: The value cannot be sent; the request is not answered.
            BufferError: The client reads none of the replies that are there, and this one does not
                fit; the request is not answered.
            MemoryError: There is not enough room.
        """
        return self._answer(value, False)

    def fail(self, error: BaseException | str) -> bool:
        """Answer with an error, which the call raises.

        Args:
            error: An exception, or a text. Between processes of one user, the call raises the
                exception itself if it can be pickled, else a `RemoteError`.

        Returns:
            Whether the client still waited for it.

        Raises:
            RuntimeError: The request was answered before.
            BufferError: As for `reply`.
        """
        if isinstance(error, str):
            return self._answer(error, True)
        told = traceback.TracebackException.from_exception(error)  # also of one without a text
        facts = (_as_utf8(f"{type(error).__name__}: {told}"), _as_utf8("".join(told.format())))
        pickled = _pickled(error) if self._takes_pickles else None
        return self._answer((*facts, pickled), True)

    def _fail_or_let_go(self, error: BaseException | str) -> None:
        """Answer with an error; let the call be lost if its client cannot be told.

        No client ends a server: it may read none of its replies, or have written over their memory.
        """
        try:
            self.fail(error)
        except (Exception, SystemExit) as failure:
            raise_of_handler(failure)
            self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if self._is_open:
            self._fail_or_let_go(error if error is not None else "the server has not answered")
        return isinstance(error, Exception)

    def __repr__(self) -> str:
        state = "open" if self._is_open else "answered"
        return f"<Request to {self._server._name!r}, {state}>"


# Note [Errors in replies]
# An error is a text, or (text, traceback, pickle or None). Clients in C read the texts; the pickle
# lies in the message as bytes, so that nobody opens it but a Python client of the same user.


def _as_utf8(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _pickled(error: BaseException) -> bytes | None:
    try:
        return pickle.dumps(error)
    except (Exception, SystemExit) as failure:  # whatever pickling the exception raises
        raise_of_handler(failure)
        return None


def _unpickled(data: bytes) -> object:
    try:
        return pickle.loads(data)
    except (Exception, SystemExit) as failure:  # a class that this program has not, ...
        raise_of_handler(failure)
        return None


# --- clients --------------------------------------------------------------------------------------


class Client:
    """Calls the servers of a name, from any number of threads.

    Args:
        service: The service that has the name.
        name: 1 to 127 bytes.
        as_: Whose tensors replies have: ``"shmtensor"``, ``"numpy"`` or ``"torch"``.

    Raises:
        ValueError: The name stands for something else.
        ManagerError: The service cannot be reached.
    """

    def __init__(self, service: Service, name: str, *, as_: Library = "shmtensor") -> None:
        _libraries.check_library(as_)
        self._service, self._name, self._as = service, name, as_
        self._is_closed = False
        self._ring = _ring_of(service, name, 0, False)
        self._idle: list[Any] = []  # lines that no call uses
        self._submitted: Submitted | None = None
        self._lock = free_in_child(threading.Lock())
        self._pid = os.getpid()

    def call(self, value: object, timeout: float | None = None, retry: int = 0) -> Any:
        """Send a request, and return the server's reply.

        Args:
            value: Anything that `Topic.publish` takes.
            timeout: Seconds to wait for a server and its reply; None waits forever.
            retry: When the server that has the request dies, send it again, so many times. The
                first server may have done its work.

        Raises:
            WaitTimeoutError: No reply came in time; the server learns of it by
                `Request.is_wanted`. It is a TimeoutError.
            ServerLostError: The server that had the request was killed or let go of it.
            RemoteError: The server answered with an error that is no exception of this user.
            Exception: What the server answered with.
            TypeError: The value cannot be sent.
            MemoryError: There is not enough room.
            ValueError: The client is closed.
        """
        if self._is_closed:
            self._check_open()
        deadline = None if timeout is None else deadline_of(timeout)
        retry = index(retry)
        packed = self._ring.pack(value)
        while True:
            line = self._take_line()
            try:
                left = None if deadline is None else left_until(deadline)
                answer = line.call(self._ring, packed, left)
            except (Empty, Full):
                raise self._late(timeout) from None
            finally:
                self._idle.append(line)
            if answer is not None:
                is_error, value = answer
                if is_error:
                    raise self._error(value)
                return received(value, self._as)
            if retry <= 0:
                raise self._lost()
            retry -= 1

    async def acall(self, value: object, timeout: float | None = None, retry: int = 0) -> Any:
        """Call as `call` does; other asyncio tasks run until the reply comes."""
        self._check_open()
        deadline = deadline_of(timeout)
        packed = self._ring.pack(value)
        for _ in range(max(index(retry), 0) + 1):
            answer = await self._ask_async(packed, deadline, timeout)
            if answer is not None:
                return self._result(answer[1], answer[2])
        raise self._lost()

    async def _ask_async(self, packed: Any, deadline: float | None, timeout: float | None) -> Any:
        import asyncio  # programs that await have imported it; others need not load it

        line = self._take_line()
        serial, begun = line.next_serial(), False
        try:
            while True:
                left = left_until(deadline)
                try:
                    if not begun:
                        line.begin(self._ring, packed, serial, 0.0)
                        begun = True
                    answer = line.wait(serial, 0.0, 0)
                    if answer is None or answer[0] == serial:
                        return answer
                    await asyncio.sleep(0)  # a server may send without end what nobody asked for
                except Full:
                    await asyncio.sleep(0.001 if left is None else min(left, 0.001))
                except Empty:
                    # A server that is lost makes nothing readable: look now and then.
                    slice_s = _SLICE_S if left is None else min(left, _SLICE_S)
                    await _readable(line.fileno(), slice_s)
                if left == 0.0:
                    raise self._late(timeout)
        finally:
            line.give_up(serial)
            self._idle.append(line)

    def submit(self, value: object, timeout: float | None = None, retry: int = 0) -> Future[Any]:
        """Send a request, and return a future of its reply.

        At most 504 calls of a client are under way; `submit` waits while there are so many.
        A future that is cancelled tells the server so. Arguments and errors are those of `call`.
        """
        self._check_open()
        packed = self._ring.pack(value)
        with self._lock:
            if self._pid != os.getpid():
                self._forget_parent()
            if self._submitted is None:
                from shmtensor.service._submitted import Submitted  # with its thread

                self._submitted = Submitted(self)
            submitted = self._submitted
        call = submitted.new_call(packed, timeout, index(retry))
        try:
            submitted.begin(call)
            return call.future  # no call in between, after which an interrupt would lose it
        except BaseException:
            try:
                submitted.take_back(call)
            finally:  # an interrupt may have come in between
                submitted.take_back(call)
            raise

    def _take_line(self) -> Any:
        if self._pid != os.getpid():
            self._forget_parent()
        try:
            return self._idle.pop()
        except IndexError:
            return _C._new_line(self._ring, 2)

    def _forget_parent(self) -> None:
        """In a forked child: the lines and the thread are the parent's."""
        self._idle, self._submitted, self._pid = [], None, os.getpid()

    def _result(self, is_error: bool, value: Any) -> Any:
        if not is_error:
            return received(value, self._as)
        raise self._error(value)

    def _error(self, value: Any) -> BaseException:
        if isinstance(value, str):
            return RemoteError(f"{self._name!r}: {value}")
        if not isinstance(value, tuple) or len(value) != 3:
            return self._lost()
        text, trace, error = value
        told = RemoteError(f"{self._name!r}: {text}\n\n{trace}")
        if isinstance(error, bytes) and self._ring.takes_pickles:
            error = _unpickled(error)
        if not isinstance(error, Exception):  # its SystemExit is not to end this process
            return told
        error.__cause__ = told
        return error

    def _lost(self) -> ServerLostError:
        return ServerLostError(
            f"a server of {self._name!r} was killed, or let go of the request, before it answered"
        )

    def _late(self, timeout: float | None) -> WaitTimeoutError:
        return WaitTimeoutError(f"no reply of {self._name!r} within {timeout} seconds")

    @property
    def name(self) -> str:
        """Its name in the service."""
        return self._name

    def _check_open(self) -> None:
        if self._is_closed:
            raise ValueError(f"{self!r} is used after close()")

    def close(self) -> None:
        """Call no more through this object. Futures that wait are cancelled."""
        self._is_closed = True
        # Forgotten last: an interrupted call can be made again.
        if self._submitted is not None and self._pid == os.getpid():
            self._submitted.stop()
        self._submitted = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"<Client of {self._name!r} of {self._service!r}{closed}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Client is opened by its name, it cannot be pickled")
