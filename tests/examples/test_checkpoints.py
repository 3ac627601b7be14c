"""Checkpoints of the programs of examples/: what Ctrl-C leaves of one that is being written."""

from __future__ import annotations

import os
import signal
from types import ModuleType

import pytest
from programs import EXAMPLES


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from common import checkpoints

    return checkpoints


@pytest.mark.check
def test_an_interruption_waits_until_the_file_is_whole(checkpoints, monkeypatch, tmp_path):
    monkeypatch.setattr(os, "fsync", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        checkpoints.write(tmp_path, "program", {"seed": 1}, {"step": 3})
    assert os.listdir(tmp_path) == [checkpoints.NAME]
    assert checkpoints.read(tmp_path, "program", {"seed": 1}) == {"step": 3}


@pytest.mark.check
def test_an_interruption_waits_for_the_outer_block(checkpoints):
    done = []

    def work() -> None:
        with checkpoints.uninterrupted():
            with checkpoints.uninterrupted():
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_failure_is_not_lost_with_an_interruption(checkpoints):
    def fail() -> None:
        with checkpoints.uninterrupted():
            signal.raise_signal(signal.SIGINT)
            raise OSError("disk is full")

    with pytest.raises(KeyboardInterrupt) as caught:
        fail()
    assert isinstance(caught.value.__context__, OSError)
