"""Results that come later: of calls in other threads, and of `jit.fork`.

Source:
    torch.futures.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from shmtensor import _C
from shmtensor._core._fork_locks import free_in_child
from shmtensor._core._interrupts import Condition

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A result that some thread sets, and that others wait for.

    Args:
        devices: Accelerators that its tensors are on; there are none, and only an empty list fits.

    Raises:
        RuntimeError: A device is given.

    Source:
        torch.futures.Future.
    """

    def __init__(self, *, devices: list[Any] | None = None) -> None:
        for device in devices or ():
            kind = _C.device(device).type
            raise RuntimeError(f"PyTorch is not linked with support for {kind} devices")
        self._changed = free_in_child(Condition())
        self._done = False
        self._result: Any = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Return whether the result is there, or an exception."""
        return self._done

    def wait(self) -> T:
        """Wait for the result and return it.

        Raises:
            Exception: What `set_exception` was told.
        """
        with self._changed:
            while not self._done:
                self._changed.wait()
        return self.value()

    def value(self) -> T:
        """Return the result.

        Raises:
            RuntimeError: It is not there yet.
            Exception: What `set_exception` was told.
        """
        if not self._done:
            raise RuntimeError("value() of a Future that is not complete; wait() waits for it")
        if self._error is not None:
            raise self._error
        result: T = self._result
        return result

    def _complete(self, result: Any, error: Exception | None) -> None:
        with self._changed:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future "
                    "can only be marked completed once."
                )
            self._result, self._error, self._done = result, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._changed.notify_all()
        for callback in callbacks:
            callback(self)

    def set_result(self, result: T) -> None:
        """Set the result: waiting threads continue, and the callbacks are called.

        Raises:
            RuntimeError: There is one already.
        """
        self._complete(result, None)

    def set_exception(self, result: Any) -> None:
        """Set an exception in place of the result.

        Raises:
            AssertionError: It is none.
            RuntimeError: There is a result already.
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _call_when_done(self, callback: Callable[[Future[T]], Any]) -> None:
        with self._changed:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """Call *callback* with this when it is done.

        Returns:
            A future of what the callback returns or raises.
        """
        chained: Future[S] = Future()

        def call(done: Future[T]) -> None:
            try:
                result = callback(done)
            except Exception as error:
                chained.set_exception(error)
            else:
                chained.set_result(result)

        self._call_when_done(call)
        return chained

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call *callback* with this when it is done; what it raises is reported and dropped."""
        self.then(callback)


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """Return a future of the list itself, which is done when all of them are."""
    collected: Future[list[Future[Any]]] = Future()
    lock, left = free_in_child(threading.Lock()), [len(futures)]

    def one_more(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            is_last = left[0] == 0
        if is_last:
            collected.set_result(futures)

    if not futures:
        collected.set_result(futures)
    for each in futures:
        each._call_when_done(one_more)
    return collected


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """Wait for all, and return their results.

    Raises:
        Exception: What the first of those that failed was given.
    """
    return [each.wait() for each in collect_all(futures).wait()]
