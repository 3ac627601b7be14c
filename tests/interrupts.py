"""Exceptions at every place where a signal handler may raise one.

CPython runs signal handlers after a call, at the start of a function and at a jump backwards. An
exception from a handler appears there. `everywhere` runs a call once for each such place in our
package and in what the package calls, and raises there: exhaustive, and the same in every run.
`at_random` does it with real signals, which also interrupt waits in C.
"""

from __future__ import annotations

import itertools
import opcode
import random
import signal
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import shmtensor

_PACKAGE = str(Path(shmtensor.__file__).parent) + "/"

_WEAKREF = weakref.__file__

# After these the interpreter looks for signals. "-1": the start of a function.
_CHECKS = frozenset(
    code
    for name, code in opcode.opmap.items()
    if (name.startswith("CALL") and name != "CALL_INTRINSIC_1")
    or name in ("RESUME", "JUMP_BACKWARD", "JUMP_ABSOLUTE")
)


class Interrupt(BaseException):
    """What the handlers here raise."""


class Point(NamedTuple):
    """Where an exception was raised."""

    place: str  # "file:line function +offset"
    came_out: bool  # of the call; False: somebody caught it


class _Tracer:
    """Raises at the n-th place."""

    def __init__(self, n: int) -> None:
        self.left = n
        self.place = ""
        self._last: dict[FrameType, int] = {}
        self._is_ours: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if not self._is_in_package(frame):
            return None
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        self._last[frame] = -1
        return self._step

    def forget(self) -> None:
        """Let go of the frames, and of what is in them."""
        self._last.clear()

    def _is_in_package(self, frame: FrameType | None) -> bool:
        while frame is not None:
            if frame.f_code.co_name == "__del__" or frame.f_code.co_filename == _WEAKREF:
                return False  # nobody is there whom the exception would reach
            if frame.f_code.co_filename.startswith(_PACKAGE):
                return True
            frame = frame.f_back
        return False

    def _step(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "return":
            self._last.pop(frame, None)
        if event != "opcode":
            return self._step
        code, at = frame.f_code, frame.f_lasti
        last = self._last.get(frame, -1)
        self._last[frame] = code.co_code[at]
        if last != -1 and last not in _CHECKS:
            return self._step
        if last == -1 and code.co_code[at] == opcode.opmap.get("RESUME", -1):
            return self._step  # the first check comes after it
        if self.left > 0:
            self.left -= 1
            return self._step
        self.place = f"{code.co_filename}:{frame.f_lineno} {code.co_name} +{at}"
        sys.settrace(None)
        raise Interrupt(self.place)


def everywhere(call: Callable[[], object], *, undo: Callable[[], object] = int) -> Iterator[Point]:
    """Run *call* once for each place in the package, and raise `Interrupt` there.

    Args:
        call: What to interrupt. Its own frame is not interrupted.
        undo: Runs after each call, before the place is yielded; not interrupted.

    Yields:
        The place, after the call has ended by the exception or in spite of it.
    """
    call()  # what happens only once, such as imports, is not of interest
    undo()
    for n in itertools.count():
        tracer = _Tracer(n)
        before = sys.gettrace()
        came_out = False
        sys.settrace(tracer)
        try:
            call()
        except Interrupt:
            came_out = True
        finally:
            sys.settrace(before)
            tracer.forget()
        undo()
        if not tracer.place:
            return
        yield Point(tracer.place, came_out)


def at_random(
    call: Callable[[], object],
    n: int,
    *,
    seed: int,
    longest_s: float = 200e-6,
    raises: type[BaseException] = Interrupt,
) -> Iterator[bool]:
    """Run *call* *n* times, and send a real signal after a random time. For the main thread.

    Yields:
        Whether *raises*, which the handler raises, came out of the call.
    """
    times = random.Random(seed)
    is_armed = False

    def handler(*_: object) -> None:
        if is_armed:
            raise raises

    def ignore(unraisable: sys.UnraisableHookArgs) -> None:
        if not isinstance(unraisable.exc_value, raises):
            hook(unraisable)

    # In a destructor the interpreter only reports an exception, and whoever keeps the report keeps
    # the frames and what is in them.
    hook = sys.unraisablehook
    sys.unraisablehook = ignore
    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(n):
            came_out = False
            try:
                is_armed = True
                signal.setitimer(signal.ITIMER_REAL, times.uniform(1e-6, longest_s))
                call()
                is_armed = False
            except raises:
                is_armed = False
                came_out = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            yield came_out
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook
