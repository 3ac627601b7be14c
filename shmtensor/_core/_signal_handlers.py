"""Whether an exception came out of a signal's handler: then it says nothing about what it ended."""

from __future__ import annotations

import functools
import inspect
import signal
from collections.abc import Iterator
from types import CodeType, FrameType, TracebackType
from typing import Any

__all__ = ["came_from_handler", "raise_of_handler"]


def came_from_handler(error: BaseException) -> bool:
    """Return whether a signal's handler raised *error*, or what led to it.

    Handlers that are built in, or were replaced before this call, are not found.
    """
    return _of_handler(error) is not None


def raise_of_handler(error: BaseException) -> None:
    """Raise what a signal's handler raised, if that is *error* or led to it.

    Note [Errors of handlers]: whoever catches errors of other code to say something else about
    them, or nothing, calls this first. Otherwise the alarm of a program becomes a damaged message.
    """
    found = _of_handler(error)
    if found is not None:
        raise found


def _of_handler(error: BaseException) -> BaseException | None:
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {code for handler in handlers if (code := _code_of(handler)) is not None}
    if not codes:
        return None
    running = set(_frames_from(inspect.currentframe()))
    try:
        led_to = _led_to(error, running)
        return next((each for each in led_to if _runs_through(each.__traceback__, codes)), None)
    finally:
        running.clear()  # this frame is in it, and would keep its callers' values


def _frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, functools.partial):
        handler = handler.func
    if not callable(handler):
        return None
    function = getattr(handler, "__func__", handler)
    if not hasattr(function, "__code__"):
        function = type(handler).__call__
    code: object = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _led_to(error: BaseException, running: set[FrameType]) -> Iterator[BaseException]:
    """Iterate over *error* and its reasons, without those that were caught before.

    These were caught by a function that still runs; the reasons were caught by one that *error* has
    ended.
    """
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__
        caught = following.__traceback__ if following is not None else None
        if caught is not None and caught.tb_frame in running:
            return


def _runs_through(step: TracebackType | None, codes: set[CodeType]) -> bool:
    while step is not None:
        if step.tb_frame.f_code in codes:
            return True
        step = step.tb_next
    return False
