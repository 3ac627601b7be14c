"""Whether an exception came out of a signal's handler: then it says nothing about what it ended."""

from __future__ import annotations

import functools
import signal
import sys
from collections.abc import Iterator
from types import CodeType, TracebackType
from typing import Any

__all__ = ["came_from_handler"]


def came_from_handler(error: BaseException) -> bool:
    """Return whether a signal's handler raised *error*, or what led to it.

    Handlers that are built in, or were replaced before this call, are not found.
    """
    handlers = (signal.getsignal(number) for number in signal.valid_signals())
    codes = {code for handler in handlers if (code := _code_of(handler)) is not None}
    return any(_runs_through(each.__traceback__, codes) for each in _led_to(error))


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


def _led_to(error: BaseException) -> Iterator[BaseException]:
    """Iterate over *error* and its reasons, without those that the caller is handling already."""
    handled = sys.exc_info()[1]
    seen: set[int] = set()
    following: BaseException | None = error
    while following is not None and following is not handled and id(following) not in seen:
        seen.add(id(following))
        yield following
        following = following.__cause__ or following.__context__


def _runs_through(step: TracebackType | None, codes: set[CodeType]) -> bool:
    while step is not None:
        if step.tb_frame.f_code in codes:
            return True
        step = step.tb_next
    return False
