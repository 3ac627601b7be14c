"""The loop of a pool's worker process.

It receives pickled tasks ``(job, index, function, args, kwargs)``; an empty message tells it to
end. It sends an empty message when it is ready, then a pickled ``(is_success, value)`` for each
task. When a value cannot be pickled, it sends ``(False, error)`` with the standard pool's
`MaybeEncodingError`.
"""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterable
from multiprocessing import pool as _standard
from multiprocessing import util
from multiprocessing.connection import Connection
from typing import Any

from shmtensor.multiprocessing._lifeline import end_with_parent
from shmtensor.multiprocessing._stdlib import raising_task, require
from shmtensor.multiprocessing._user_errors import as_error, shown
from shmtensor.multiprocessing.adoption import dumps_with

__all__ = ["read_result", "work"]


def work(
    connection: Connection,
    initializer: Callable[..., object] | None,
    initargs: tuple[Any, ...],
    max_tasks: int | None,
    wrap_exception: bool,
    adopts: int,
) -> None:
    """Run tasks until there are no more, or *max_tasks* are done."""
    end_with_parent()
    dumps = dumps_with(adopts)
    if initializer is not None:
        initializer(*initargs)
    n_done = 0
    try:
        connection.send_bytes(b"")
        while max_tasks is None or n_done < max_tasks:
            message = connection.recv_bytes()
            if not message:
                util.debug("worker was told to end")
                break
            connection.send_bytes(_run(message, wrap_exception, dumps))
            n_done += 1
    except (EOFError, BrokenPipeError, ConnectionResetError):
        util.debug("the pool of this worker is gone")
    gc.collect()  # frees the memory of tensors that the tasks left in reference cycles
    util.debug("worker exiting after %d tasks", n_done)


def _run(message: bytes, wrap_exception: bool, dumps: Callable[[Any], Any]) -> Any:
    """Run one task, and return the message with its result."""
    function: Any = None
    try:
        _job, _index, function, args, kwargs = pickle.loads(message)
        result = (True, _OF_CHUNKS.get(function, function)(*args, **kwargs))
    except Exception as error:
        if wrap_exception and function is not _reraise:
            error = _WithTraceback(error, error.__traceback__)
        result = (False, error)
    try:
        return dumps(result)
    except Exception as error:
        wrapped = _EncodingError(_Shown(error), _Shown(result[1]))
        util.debug("Possible encoding error while sending result: %s", wrapped)
        return dumps((False, wrapped))


class _Shown:
    """Stands for an object in an error, which takes its ``repr``."""

    def __init__(self, value: object) -> None:
        self._text = shown(value)

    def __repr__(self) -> str:
        return self._text


def _call_each(call: Callable[[Any], object], chunk: Iterable[Any]) -> list[object]:
    # The standard functions stop at a StopIteration, and what is behind it is missing.
    try:
        return [call(arguments) for arguments in chunk]
    except StopIteration as error:
        raise RuntimeError("a task of the pool raised StopIteration") from error


def _map_chunk(args: Any) -> list[object]:
    function, chunk = args
    return _call_each(function, chunk)


def _starmap_chunk(args: Any) -> list[object]:
    function, chunk = args
    return _call_each(lambda arguments: function(*arguments), chunk)


def read_result(message: bytes | bytearray) -> tuple[bool, Any]:
    """Unpickle a worker's result, on a thread of the pool. An error in that becomes the result."""
    try:
        result: tuple[bool, Any] = pickle.loads(message)
        return result
    except BaseException as error:  # also the exit of a module that the pickle imports
        return False, as_error(error, "unpickling the result of a task of the pool")


require(_standard.__name__)  # every module of the pool needs this one

#: What is called in place of the standard functions for chunks of a ``map``.
_OF_CHUNKS: Any = {
    _standard.mapstar: _map_chunk,  # type: ignore[attr-defined]
    _standard.starmapstar: _starmap_chunk,  # type: ignore[attr-defined]
}
_reraise: Any = raising_task()
_EncodingError: Any = _standard.MaybeEncodingError  # type: ignore[attr-defined]
_WithTraceback: Any = _standard.ExceptionWithTraceback  # type: ignore[attr-defined]
