"""Messages that raise when a command looks at them: each costs its own line, and no more.

Not covered: what is printed of others (tests/service/test_service_commands.py).
"""

from __future__ import annotations

import json
import time
from queue import Empty
from typing import Any

import pytest
from user_errors import RaisesWhenOpened, RaisesWhenSeen, Unprintable

from shmtensor import _cli
from shmtensor._cli import hz
from shmtensor._cli._messages import Unreadable, look_at_next
from shmtensor.errors import ManagerError
from shmtensor.service import Service

_KINDS = (SystemExit, GeneratorExit, ManagerError, MemoryError, Empty, ZeroDivisionError)


def _publish(service: Service, made: Any) -> None:
    topic = service.Topic("frames", history=len(_KINDS) + 2, persist=True)
    for kind in (*_KINDS, Unprintable):
        topic.publish(made(kind))
    topic.publish(5)


@pytest.mark.check
@pytest.mark.parametrize("made", [RaisesWhenOpened, RaisesWhenSeen])
def test_echo_prints_a_line_for_each_message(
    service: Service, capsys: pytest.CaptureFixture[str], made: Any
) -> None:
    _publish(service, made)
    n = len(_KINDS) + 2
    assert _cli.main(["echo", "frames", "-s", service._name, "-n", str(n), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        *(f"(cannot be read: {kind.__name__}: {kind('of the message')})" for kind in _KINDS),
        "(cannot be read: <Unprintable object>)",
        5,
    ]


def test_echo_without_json_prints_a_line_for_each_message(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    _publish(service, RaisesWhenOpened)
    assert _cli.main(["echo", "frames", "-s", service._name, "-n", str(len(_KINDS) + 2)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "(cannot be read: SystemExit: of the message)"
    assert lines[-2:] == ["(cannot be read: <Unprintable object>)", "5"]


@pytest.mark.parametrize("made", [RaisesWhenOpened, RaisesWhenSeen])
def test_hz_counts_each_message_once(service: Service, made: Any) -> None:
    _publish(service, made)
    with service.Topic("frames").subscribe() as messages:
        assert hz._arrivals(messages, time.monotonic() + 0.5) == (len(_KINDS) + 2, 0)


@pytest.mark.check
def test_what_the_subscription_raises_is_not_of_a_message(service: Service) -> None:
    topic = service.Topic("frames")
    with topic.subscribe() as messages:
        with pytest.raises(Empty):
            look_at_next(messages, repr, 0.0)
        topic.publish(RaisesWhenOpened(Empty))
        with pytest.raises(Unreadable, match=r"^Empty: of the message$"):
            look_at_next(messages, repr, 0.0)


def test_ctrl_c_ends_the_command(service: Service) -> None:
    _publish(service, lambda kind: RaisesWhenSeen(KeyboardInterrupt))
    assert _cli.main(["echo", "frames", "-s", service._name, "-n", "1", "--json"]) == 130
