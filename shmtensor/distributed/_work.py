"""Work that a group does beside the program, in order."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._interrupts import Condition, Event
from shmtensor.distributed._timeouts import seconds_of
from shmtensor.futures import Future

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

__all__ = ["Lane", "Work"]

_NO_TIMEOUT = timedelta(0)


class Work:
    """A call of a group that goes on in the background.

    Its tensors must not be used before `wait` has returned.

    Source:
        torch.distributed.Work.
    """

    def __init__(self, results: list[Tensor] | None = None) -> None:
        self._results = results or []
        self._done = free_in_child(Event())
        self._error: BaseException | None = None
        self._source = -1
        self._lock = free_in_child(threading.Lock())
        self._future: Future[list[Tensor]] | None = None

    def _finish(self, error: BaseException | None = None, source: int = -1) -> None:
        """Say that the work is done, or has failed."""
        self._error = error
        self._source = source
        with self._lock:
            self._done.set()
            future = self._future
        if future is not None:
            self._settle(future)

    def _settle(self, future: Future[list[Tensor]]) -> None:
        if self._error is None:
            future.set_result(self._results)
        else:
            future.set_exception(self._error)

    def is_completed(self) -> bool:
        """Whether the work is done, or has failed."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Whether the work is done and has not failed."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """Return what the work has failed with; None: it has not failed."""
        return self._error

    def wait(self, timeout: timedelta = _NO_TIMEOUT) -> bool:
        """Wait until the work is done; then its tensors may be used.

        Args:
            timeout: How long; zero means as long as the group's own timeout lets the work go on.

        Raises:
            RuntimeError: *timeout* is over; the work goes on.
            Exception: What the work has failed with.
        """
        seconds = seconds_of(timeout)
        if not self._done.wait(seconds if seconds > 0 else None):
            raise RuntimeError(f"wait(): the work is not done after {seconds:g} s")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """Wait, as `wait` does."""
        self.wait()

    def result(self) -> list[Tensor]:
        """Return the tensors that the work was given as outputs."""
        return self._results

    def source_rank(self) -> int:
        """Return the rank that a message came from; -1: there was none."""
        return self._source

    def get_future(self) -> Future[list[Tensor]]:
        """Return a future of the output tensors."""
        with self._lock:
            if self._future is not None:
                return self._future
            self._future = Future()
            done = self._done.is_set()
        if done:
            self._settle(self._future)
        return self._future


class Lane:
    """Runs calls one after the other: in the calling thread when nothing is queued, else in one
    separate thread, which ends when nothing has come for a while.
    """

    _IDLE_S = 5.0

    def __init__(self) -> None:
        self._condition = free_in_child(Condition())
        self._queue: deque[tuple[Callable[[], Any], Work]] = deque()
        self._has_thread = False
        self._is_busy = False  # a call runs, in whichever thread
        self._is_closing = False
        self._thread = -1

    def run(self, call: Callable[[], Any]) -> Any:
        """Run a call after those that are queued, and wait for it."""
        if threading.get_ident() == self._thread:  # a callback of work that has just ended
            return call()
        with self._condition:
            here = not self._is_busy and not self._queue
            if here:
                self._is_busy = True
        if not here:
            work = self.start(call, [])
            work.wait()
            return work.source_rank()
        try:
            return call()
        finally:
            with self._condition:
                self._is_busy = False
                self._condition.notify_all()

    def start(self, call: Callable[[], Any], results: list[Tensor]) -> Work:
        """Queue a call; its result, if it is a number, becomes the work's source."""
        work = Work(results)
        with self._condition:
            self._queue.append((call, work))
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._serve, name="shmtensor-group", daemon=True).start()
            self._condition.notify_all()
        return work

    def is_idle(self) -> bool:
        """Whether nothing is queued and nothing runs."""
        with self._condition:
            return not self._queue and not self._is_busy

    def join(self, seconds: float = math.inf) -> bool:
        """Wait until nothing is queued and nothing runs, and the thread has ended.

        Returns:
            False when that takes longer.
        """
        deadline = time.monotonic() + seconds
        with self._condition:
            self._is_closing = True
            while self._queue or self._is_busy or self._has_thread:
                if time.monotonic() > deadline:
                    return False
                self._condition.notify_all()
                self._condition.wait(0.1)
        return True

    def _serve(self) -> None:
        self._thread = threading.get_ident()
        while True:
            with self._condition:
                while not self._queue or self._is_busy:
                    idle = not self._queue and not self._is_busy
                    if idle and (self._is_closing or not self._condition.wait(self._IDLE_S)):
                        if not self._queue:
                            self._has_thread = False
                            self._thread = -1
                            self._condition.notify_all()
                            return
                    elif not idle:
                        self._condition.wait()
                call, work = self._queue.popleft()
                self._is_busy = True
            try:
                source = call()
                error: BaseException | None = None
            except BaseException as failure:
                source, error = None, failure
            with self._condition:
                self._is_busy = False
                self._condition.notify_all()
            del call
            work._finish(error, source if isinstance(source, int) else -1)
            del work
