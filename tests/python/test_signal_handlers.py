"""Errors of signals' handlers reach the program as they are: Note [Errors of handlers].

Whatever code of ours catches errors of other code to say something else about them, or nothing,
is called here while a handler raises an error of just that class.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import alarms
import pytest
from alarms import Alarm, Interrupting, interrupt

import shmtensor.multiprocessing as mp
from shmtensor._core._signal_handlers import came_from_handler, raise_of_handler


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    with alarms.handled():
        yield


def caught(function: Callable[[], Any], kind: type[Exception]) -> tuple[bool, BaseException]:
    """Whether what *function* raises came from a handler, as its caller sees it who catches it."""
    try:
        function()
    except kind as error:
        return came_from_handler(error), error
    raise AssertionError


def convert() -> None:
    try:
        interrupt()
    except ValueError:
        raise KeyError("damaged") from None


def fail() -> None:
    raise Alarm("of nobody's handler")


@pytest.mark.check
def test_errors_of_handlers_are_told_from_others() -> None:
    assert caught(interrupt, Alarm)[0]
    assert caught(convert, KeyError)[0]
    assert not caught(fail, Alarm)[0]


def test_error_of_a_handler_that_the_caller_handles_already_does_not_count() -> None:
    try:
        interrupt()
    except Alarm as handled:
        came, error = caught(fail, Alarm)
        assert error.__context__ is handled  # noqa: PT017 -- it is a part of what is tried
        assert not came


def test_error_that_a_callee_has_converted_is_raised_as_it_was() -> None:
    _, converted = caught(convert, KeyError)
    with pytest.raises(Alarm, match="of the program"):
        raise_of_handler(converted)
    raise_of_handler(caught(fail, Alarm)[1])


def test_a_look_for_a_handlers_error_keeps_nothing_of_its_callers() -> None:
    class Kept:
        pass

    def look() -> weakref.ref[Kept]:
        kept = Kept()
        came_from_handler(caught(fail, Alarm)[1])
        return weakref.ref(kept)

    gc.disable()
    try:
        assert look()() is None
    finally:
        gc.enable()


def test_object_whose_pickling_is_interrupted_is_refused_to_the_caller() -> None:
    queue = mp.Queue()
    with pytest.raises(Alarm, match="of the program"):
        queue.put(Interrupting())
    queue.put(1)
    assert queue.get() == 1
    queue.close()


def test_task_whose_pickling_is_interrupted_leaves_the_pool_as_it_was() -> None:
    with mp.Pool(1) as pool:
        assert pool.apply(abs, (-1,)) == 1
        with pytest.raises(Alarm, match="of the program"):
            pool.apply_async(print, (Interrupting(),))
        assert pool.apply(abs, (-2,)) == 2
        pool.close()
        pool.join()
