"""The calls of a client that are under way without a thread that waits for each.

Note [The reader never waits]
One thread reads the replies of all calls, and the callbacks of their futures run on it. A callback
may begin a call. If it waited there for a place among the calls, or for room at the servers, nobody
would read the replies that make some. So calls that begin on this thread wait in a list. Whatever
a callback raises, also SystemExit, ends neither the thread nor other calls.
"""

from __future__ import annotations

import collections
import contextlib
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures._base import CANCELLED_AND_NOTIFIED
from functools import partial
from queue import Empty, Full
from typing import TYPE_CHECKING, Any, NamedTuple

from shmtensor import _C
from shmtensor._core._deadlines import deadline_of, left_until
from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._interrupts import Condition

if TYPE_CHECKING:
    from shmtensor.service._calls import Client

__all__ = ["Submitted"]

_AT_ONCE = 504  # words of a line: SHMT_CALL_WORDS in csrc/ipc/call/call_layout.h
_SERIALS = (1 << 24) - 1
_SLICE_S = 0.1  # how long the thread waits without a look at deadlines and at lost servers
_IDLE_S = 10.0  # how long it stays without a call


class _Reply(Future[Any]):
    """The future of a call; it keeps the client, which the program may have dropped."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        # The thread that reads needs its lock: Note [Interrupted waits].
        self._condition: Any = Condition()
        self._client = client

    def begin(self) -> bool:
        """Whether a result may be set now. False: it is cancelled, and those who wait are told."""
        with self._condition:
            was_told = self._state == CANCELLED_AND_NOTIFIED
            return not was_told and self.set_running_or_notify_cancel()

    def tell_cancelled(self) -> None:
        """Tell those who wait by `concurrent.futures.wait` if it is cancelled."""
        with self._condition:
            if self.cancelled():
                self.begin()


class _Call(NamedTuple):
    future: _Reply
    packed: Any
    deadline: float | None
    timeout: float | None
    retry: int
    is_sent: bool = True  # False: it is to be sent again, when there is room


class Submitted:
    """One line for many calls, and the thread that reads their replies.

    The thread ends when there was no call for a while; the next call starts another.
    """

    def __init__(self, client: Client) -> None:
        self._client = weakref.ref(client)
        self._ring = client._ring
        self._line = _C._new_line(client._ring, _AT_ONCE)
        self._serial = 0
        self._calls: dict[int, _Call] = {}
        self._last = [0] * _AT_ONCE  # number of the last call that had this word
        self._later: collections.deque[_Call] = collections.deque()  # of callbacks: without a place
        self._changed = free_in_child(Condition())  # guards the four above and the thread
        self._looked_s = 0.0  # when the thread looked after those that have no reply
        self._thread: threading.Thread | None = None
        self._reader = 0  # the thread's ident, once it runs
        self._is_stopped = False

    def new_call(self, packed: Any, timeout: float | None, retry: int) -> _Call:
        """Return a call that is not begun."""
        return _Call(_Reply(self._named()), packed, deadline_of(timeout), timeout, retry)

    def begin(self, call: _Call) -> None:
        """Begin a call; whoever began it and cannot return its future calls `take_back`."""
        if threading.get_ident() == self._reader:
            self._put_later(call)
        else:
            self._put(call)

    def _put(self, call: _Call) -> None:
        with self._changed:
            self._check_open()
            while len(self._calls) >= _AT_ONCE:
                if not self._changed.wait(left_until(call.deadline)):
                    raise self._named()._late(call.timeout)
                self._check_open()
            serial = self._add(call)
        try:
            self._start_thread()
            self._send(call, serial)
        except BaseException:
            self._end(serial)
            raise

    def take_back(self, call: _Call) -> None:
        """End a call, if it has begun, whatever its number. It can be interrupted and repeated."""
        with self._changed:
            for serial, other in list(self._calls.items()):
                if other.future is call.future:
                    self._line.give_up(serial)
                    self._end(serial)
            self._changed.notify()

    def _send(self, call: _Call, serial: int) -> None:
        """Send a request; wait for room, unless the call is ended meanwhile."""
        while serial in self._calls:
            left = left_until(call.deadline)
            is_last = left is not None and left <= _SLICE_S
            try:
                self._line.begin(self._ring, call.packed, serial, left if is_last else _SLICE_S)
            except Full:
                self._check_open()
                if is_last:
                    raise self._named()._late(call.timeout) from None
            else:
                if serial not in self._calls:  # ended, perhaps before it was sent
                    self._line.give_up(serial)
                return
        self._check_open()

    def _put_later(self, call: _Call) -> None:
        """Begin a call on the thread that reads: Note [The reader never waits]."""
        with self._changed:
            self._check_open()
            self._later.append(call._replace(is_sent=False))

    def _place_later(self) -> None:
        """Give their places to calls of callbacks, and send them if there is room."""
        if not self._later:
            return
        placed: list[tuple[int, _Call]] = []
        with self._changed:
            while self._later and len(self._calls) < _AT_ONCE:
                call = self._later.popleft()
                placed.append((self._add(call), call))
        for serial, call in placed:
            self._again(serial, call)

    def _add(self, call: _Call) -> int:
        """Count a call among those under way; returns its number. The caller has the lock."""
        serial = self._free_serial()
        self._last[serial % _AT_ONCE] = serial
        self._calls[serial] = call
        return serial

    def _check_open(self) -> None:
        if self._is_stopped:
            self._named()._check_open()

    def _start_thread(self) -> None:
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(
                    target=_read, args=(weakref.ref(self),), name="shmtensor-calls", daemon=True
                )
                thread.start()  # which may fail: then the next call tries again
                self._thread = thread

    def _free_serial(self) -> int:
        """Return a number whose word no call has; there is one."""
        while True:
            self._serial = self._serial % _SERIALS + 1
            if self._last[self._serial % _AT_ONCE] not in self._calls:
                return self._serial

    def _end(self, serial: int) -> _Call | None:
        """Forget a call; None: it is forgotten already."""
        with self._changed:
            call = self._calls.pop(serial, None)
            if call is not None:
                self._line.give_up(serial)
                self._changed.notify()
        return call

    def _named(self) -> Any:
        client = self._client()
        if client is None:
            raise ReferenceError("the client is gone")
        return client

    def read_once(self) -> bool:
        """Wait a moment for a reply, and look after the others. False: the thread may end."""
        try:
            answer = self._line.wait(0, _SLICE_S, 0)
        except Empty:
            answer = None
        if answer is not None:
            self._finish(*answer)
            self._place_later()
        # A server may send without end what nobody waits for.
        if answer is None or time.monotonic() - self._looked_s >= _SLICE_S:
            return self._look()
        return True

    def _finish(self, serial: int, is_error: bool, value: Any) -> None:
        call, client = self._end(serial), self._client()
        if call is None or client is None or not call.future.begin():
            return
        try:
            result = client._result(is_error, value)
        except BaseException as error:  # it is the result
            with _callbacks():
                call.future.set_exception(error)
        else:
            with _callbacks():
                call.future.set_result(result)

    def _look(self) -> bool:
        now = self._looked_s = time.monotonic()
        for serial, call in list(self._calls.items()):
            if call.future.cancelled():
                call.future.tell_cancelled()
                self._end(serial)
            elif call.deadline is not None and now >= call.deadline:
                self._fail(serial, self._named()._late(call.timeout))
            elif not call.is_sent or self._line.is_lost(serial):
                self._again(serial, call)
        self._look_after_later(now)
        return bool(self._calls or self._later) and not self._is_stopped

    def _look_after_later(self, now: float) -> None:
        with self._changed:
            cancelled = [call for call in self._later if call.future.cancelled()]
            waiting = [call for call in self._later if call not in cancelled]
            late = [c for c in waiting if c.deadline is not None and now >= c.deadline]
            self._later.clear()
            self._later.extend(call for call in waiting if call not in late)
        for call in cancelled:
            call.future.tell_cancelled()
        for call in late:
            _fail(call, self._named()._late(call.timeout))
        self._place_later()

    def _again(self, serial: int, call: _Call) -> None:
        """Send a lost request again, with its number. This thread must not wait for room."""
        if call.is_sent and call.retry <= 0:
            self._fail(serial, self._named()._lost())
            return
        if call.is_sent:
            call = call._replace(retry=call.retry - 1, is_sent=False)
        try:
            with self._changed:
                if serial not in self._calls:
                    return
                self._calls[serial] = call
                self._line.begin(self._ring, call.packed, serial, 0.0)
                self._calls[serial] = call._replace(is_sent=True)
        except Full:
            return
        except Exception as error:
            self._fail(serial, error)

    def _fail(self, serial: int, error: BaseException) -> None:
        call = self._end(serial)
        if call is not None:
            _fail(call, error)

    def fail_all(self, error: BaseException) -> None:
        """No reply can be read: let the calls fail that are under way."""
        for serial in list(self._calls):
            self._fail(serial, error)
        with self._changed:
            later = list(self._later)
            self._later.clear()
        for call in later:
            _fail(call, error)

    def may_leave(self, idle_s: float) -> bool:
        """Whether the thread is to end, which has read no reply for so long."""
        with self._changed:
            if not self._is_stopped and (self._calls or self._later or idle_s < _IDLE_S):
                return False
            self._thread, self._reader = None, 0
            return True

    def stop(self) -> None:
        """Cancel what waits, and begin no more. It can be interrupted and repeated."""
        self._is_stopped = True
        while ends := self._ends():
            with contextlib.ExitStack() as all_of_them:  # whatever a callback raises
                for call, end in ends:
                    all_of_them.callback(_cancel, call, end)
        with self._changed:
            self._changed.notify_all()  # those that wait for a place

    def _ends(self) -> list[tuple[_Call, Callable[[], object]]]:
        """Return all calls, and what forgets each."""
        with self._changed:
            return [
                *((call, partial(self._end, serial)) for serial, call in self._calls.items()),
                *((call, partial(self._end_later, call)) for call in self._later),
            ]

    def _end_later(self, call: _Call) -> None:
        with self._changed, contextlib.suppress(ValueError):
            self._later.remove(call)

    def run_on_this_thread(self) -> bool:
        """Let the calling thread read the replies from now on; False: another one does.

        A start that a signal handler interrupts may have started a thread of which nobody knows.
        """
        with self._changed:
            if self._reader != 0:
                return False
            self._reader = threading.get_ident()
            return True


def _cancel(call: _Call, end: Callable[[], object]) -> None:
    try:
        call.future.cancel()
    finally:  # whatever a callback raises
        if call.future.done() or call.future.running():
            call.future.tell_cancelled()
            end()


def _fail(call: _Call, error: BaseException) -> None:
    with _callbacks():
        if call.future.begin():
            call.future.set_exception(error)


@contextlib.contextmanager
def _callbacks() -> Iterator[None]:
    """Report what is no Exception; the others are reported by the future itself."""
    try:
        yield
    except BaseException:
        logging.getLogger("concurrent.futures").exception("a callback has ended its thread's work")


def _read(of: weakref.ref[Submitted]) -> None:
    """Read replies for as long as there are calls, or somebody who may begin one."""
    idle_since = time.monotonic()
    submitted = of()
    if submitted is None or not submitted.run_on_this_thread():
        return
    del submitted
    while True:
        submitted = of()
        if submitted is None:
            return
        try:
            is_busy = submitted.read_once()
        except BaseException as error:  # a member has written over the line, the manager is gone
            submitted.fail_all(error)
            is_busy, idle_since = False, -_IDLE_S
        if is_busy:
            idle_since = time.monotonic()
        elif submitted.may_leave(time.monotonic() - idle_since):
            return
        del submitted
