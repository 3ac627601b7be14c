"""What code of users raises in a bridge: it costs a message or a call, and nothing else.

Not covered: KeyboardInterrupt, which a ring takes for an interrupt of whoever reads from it.
"""

from __future__ import annotations

import queue
from typing import Any, NoReturn

import bridge_machines as machines
import pytest
import waiting
from user_errors import RaisesWhenOpened, RaisesWhenSeen, Unprintable, raise_

from shmtensor.bridge import Bridge
from shmtensor.errors import ManagerError, RemoteError
from shmtensor.service import Request, Service

pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed")

Services = tuple[Service, Service]
S = waiting.HANG_S


class Unpicklable(Exception):
    """Cannot be sent."""

    def __reduce__(self) -> NoReturn:
        raise SystemExit(0)


class WithoutArguments(Exception):
    """Does not say what it was made of."""

    args = property(lambda self: raise_(SystemExit))  # type: ignore[assignment]


# --- topics ---------------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize("made", [RaisesWhenOpened, RaisesWhenSeen])
def test_a_message_may_raise_anything(services: Services, made: Any) -> None:
    kinds = (SystemExit, GeneratorExit, Unprintable, ManagerError, MemoryError, queue.Empty)
    with machines.pair(*services, topics=("frames",)) as pair:
        here, there = pair.here.topic("frames"), pair.there.topic("frames")
        with there.subscribe() as messages:
            for n, kind in enumerate(kinds):
                here.publish(made(kind))
                here.publish(n)
                assert messages.get(S) == n
                counted = machines.named(pair.here.bridge, "frames")
                assert counted.n_refused == n + 1
                assert kind.__name__ in counted.last_error
        assert pair.here.bridge.wait_up(0)


# --- calls ----------------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Unprintable("text", 2), RemoteError),
        (WithoutArguments("text"), RemoteError),
        (ValueError("\N{GRINNING FACE}" * 200_000), ValueError),  # more than a header has room for
        (OSError("\udcff"), OSError),
    ],
    ids=lambda of: type(of).__name__ if isinstance(of, Exception) else "",
)
def test_a_call_ends_whatever_its_server_raises(
    services: Services, error: Exception, told: type[Exception]
) -> None:
    def fails(request: Request) -> NoReturn:
        raise error

    here, there = services
    with machines.pair(here, there, calls=("fails",)), machines.served(here, "fails", fails):
        with there.Client("fails") as client, pytest.raises(told) as raised:
            client.call(None, S)
    if told is RemoteError:
        assert type(error).__name__ in str(raised.value)


@pytest.mark.parametrize("is_request", [True, False], ids=["request", "reply"])
def test_a_call_ends_whatever_its_valuesraise_(services: Services, is_request: bool) -> None:
    kinds = {"exit": SystemExit, "unpicklable": Unpicklable}
    what = "request" if is_request else "reply"

    def answer(request: Request) -> Any:
        return RaisesWhenSeen(kinds[request.value]) if request.value in kinds else request.value

    here, there = services
    with machines.pair(here, there, calls=("f",)) as pair, machines.served(here, "f", answer):
        with there.Client("f") as client:
            for name, told, text in (
                ("exit", RuntimeError, f"sending the {what} raised"),
                ("unpicklable", RemoteError, "Unpicklable: of the message"),
            ):
                with pytest.raises(told, match=text):
                    client.call(RaisesWhenSeen(kinds[name]) if is_request else name, S)
            assert client.call(1, S) == 1
        counted = machines.named((pair.there if is_request else pair.here).bridge, "f")
        assert counted.n_refused == len(kinds)
        assert counted.n_under_way == 0


# --- callbacks ------------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize("kind", [ZeroDivisionError, SystemExit, Unprintable])
def test_a_callback_may_raise_anything(
    services: Services, capsys: pytest.CaptureFixture[str], kind: type[BaseException]
) -> None:
    told: list[bool] = []

    def on_change(is_up: bool) -> None:
        told.append(is_up)
        raise kind("of the callback")

    with machines.pair(*services, topics=("frames",), on_change=on_change) as pair:
        first = pair.here.bridge
        waiting.until(lambda: told.count(True) == 2)
        pair.there.bridge.close()
        assert first.wait_down(S)
        waiting.until(lambda: False in told)
        with Bridge(services[1], connect=pair.address, topics=["frames"]) as third:
            assert third.wait_up(S)
            assert first.wait_up(S)
            here = pair.here.topic("frames")
            with services[1].Topic("frames").subscribe() as messages:
                here.publish(1)
                assert messages.get(S) == 1
    assert kind.__name__ in capsys.readouterr().err


def test_what_ends_a_bridge_is_an_error(services: Services) -> None:
    bridge = Bridge(services[0], listen=machines.free_address())
    bridge._fail(SystemExit(0))
    with pytest.raises(RuntimeError, match=r"a thread of the bridge raised SystemExit\(0\)"):
        bridge.wait_up(0)
