"""Two bridges over the loopback: what goes over the link, what is counted, and what ends a link.

Not covered: a network that is cut (test_namespaces.py).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bridge_machines as machines
import numpy as np
import pytest
import service_programs
import waiting

import shmtensor
from shmtensor.bridge import Bridge
from shmtensor.bridge._counters import BridgeStatus, NameStatus
from shmtensor.bridge._format import FORMAT
from shmtensor.bridge._link import Link
from shmtensor.errors import RemoteError, ServerLostError, WaitTimeoutError
from shmtensor.service import Request, Service
from shmtensor.service._topics import Topic

pytest.importorskip("zenoh", reason="eclipse-zenoh is not installed")

Services = tuple[Service, Service]
S = waiting.HANG_S


# --- topics ---------------------------------------------------------------------------------------


@pytest.mark.check
def test_messages_go_both_ways_once_for_all_subscribers(services: Services) -> None:
    with machines.pair(*services, topics=("frames",)) as pair:
        here, there = pair.here.topic("frames"), pair.there.topic("frames")
        with contextlib.ExitStack() as stack:
            seen_here = stack.enter_context(here.subscribe(as_="numpy"))
            seen_there = [stack.enter_context(there.subscribe(as_="numpy")) for _ in range(3)]
            here.publish({"image": np.arange(100_000), "n": 1})
            for messages in seen_there:
                found = messages.get(S)
                assert found["n"] == 1
                assert found["image"].tolist() == list(range(100_000))
            assert seen_here.get(S)["n"] == 1
            there.publish("back")
            assert [messages.get(S) for messages in seen_there] == ["back"] * 3
            assert seen_here.get(S) == "back"
            here.publish("end")
            assert [messages.get(S) for messages in seen_there] == ["end"] * 3
            assert seen_here.get(S) == "end"  # and nothing has come back before it
        first, second = (
            machines.named(pair.here.bridge, "frames"),
            machines.named(pair.there.bridge, "frames"),
        )
        assert (first.n_sent, first.n_received) == (2, 1)
        assert (second.n_sent, second.n_received) == (1, 2)
        assert 800_000 < first.sent_bytes < 801_000
        assert first.sent_bytes == second.received_bytes


class _Missing:
    def __reduce__(self) -> tuple[object, ...]:
        return open, ("/no/such",)


def test_a_pickle_that_fails_is_refused_and_ends_no_bridge(services: Services) -> None:
    with machines.pair(*services, topics=("frames",)) as pair:
        here, there = pair.here.topic("frames"), pair.there.topic("frames")
        with there.subscribe() as messages:
            here.publish(_Missing())
            here.publish("after it")
            assert messages.get(S) == "after it"
        counted = machines.named(pair.here.bridge, "frames")
        assert counted.n_refused == 1
        assert counted.last_error.startswith("FileNotFoundError: ")


def test_messages_arrive_in_order_and_in_the_services_memory(services: Services) -> None:
    with machines.pair(*services, topics=("frames",)) as pair:
        here = services[0].Topic("frames", depth=256)
        there = services[1].Topic("frames", depth=256)
        waiting.until(lambda: here.n_subscribers == 1)
        with there.subscribe(mode="rw") as messages:
            for n in range(200):
                here.publish(shmtensor.full((100,), n))
            found = [messages.get(S) for _ in range(200)]
        assert [int(tensor[0]) for tensor in found] == list(range(200))
        storage = found[0].untyped_storage()._cdata
        assert pair.there.service._handle.owns(storage)


def test_a_topic_has_the_settings_of_the_machine_where_it_was_made(services: Services) -> None:
    with machines.pair(*services, topics=("map",)) as pair:
        here = services[0].Topic("map", depth=3, history=1, overflow="block")
        waiting.until(lambda: here.n_subscribers == 1)
        here.publish("newest")
        waiting.until(lambda: machines.named(pair.there.bridge, "map").n_received == 1)
        there = services[1].Topic("map")
        assert (there.depth, there.history, there.overflow) == (3, 1, "block")
        assert there.latest() == "newest"  # for those who come late, there too


def test_what_nobody_said_of_a_topic_is_not_said_there(services: Services) -> None:
    here = services[0].Topic("map")
    with machines.pair(*services, topics=("map",)) as pair:
        received = lambda: machines.named(pair.there.bridge, "map").n_received  # noqa: E731
        waiting.until(lambda: here.n_subscribers == 1)
        here.publish(1)
        waiting.until(lambda: received() == 1)
        there = services[1].Topic("map")
        assert there._said() == [None, None, None]
        services[1].Topic("map", depth=7)
        services[0].Topic("map", history=2)
        here.publish(2)
        waiting.until(lambda: received() == 2)
        assert there._said() == [7, 2, None]
        services[0].Topic("map", depth=5, overflow="block")  # which contradicts: it stays here
        here.publish(3)
        waiting.until(lambda: received() == 3)
        assert there._said() == [7, 2, None] and there.latest() == 3


def test_the_history_goes_over_and_does_not_come_back(services: Services) -> None:
    here = services[0].Topic("map", history=2)
    here.publish("old")
    with machines.pair(*services, topics=("map",)) as pair:
        waiting.until(lambda: machines.named(pair.there.bridge, "map").n_received == 1)
        assert services[1].Topic("map").latest() == "old"
    there = services[1].Topic("map", history=2)
    there.publish("theirs")
    with machines.pair(*services, topics=("map",)) as pair:
        # What the first pair has brought is not sent back by the second one.
        waiting.until(lambda: here.n_published == 2)
        assert machines.named(pair.there.bridge, "map").n_sent == 1


def test_a_topic_goes_in_one_direction(services: Services) -> None:
    here, there = services
    address = machines.free_address()
    first = Bridge(here, listen=address, topics_out=["frames"], topics_in=["orders"])
    second = Bridge(there, connect=address, topics_in=["frames"], topics_out=["orders"])
    with machines.linked(first, second):
        frames, orders = here.Topic("frames", depth=4), there.Topic("orders", depth=4)
        waiting.until(lambda: frames.n_subscribers == 1 and orders.n_subscribers == 1)
        seen, ordered = there.Topic("frames").subscribe(), here.Topic("orders").subscribe()
        here_seen = frames.subscribe()
        frames.publish("a frame")
        orders.publish("an order")
        assert (seen.get(S), ordered.get(S)) == ("a frame", "an order")
        there.Topic("frames").publish("stays there")
        frames.publish("the next")
        assert [seen.get(S), seen.get(S)] == ["stays there", "the next"]
        assert [here_seen.get(S), here_seen.get(S)] == ["a frame", "the next"]
        assert machines.named(second, "frames").n_sent == 0


def test_a_partner_that_sends_what_is_not_to_come_is_told(services: Services) -> None:
    here, there = services
    address = machines.free_address()
    first = Bridge(here, listen=address, topics_out=["frames"])
    second = Bridge(there, connect=address, topics=["frames"])
    with machines.linked(first, second):
        topic = there.Topic("frames", depth=4, overflow="block")
        waiting.until(lambda: topic.n_subscribers == 1)
        for i in range(40):  # more than a window: nobody waits for ever
            topic.publish(i, timeout=S)
        waiting.until(lambda: machines.named(second, "frames").n_refused == 40)
        assert "could not use" in machines.named(second, "frames").last_error
        assert "do not come" in machines.named(first, "frames").last_error
        assert "frames" not in here.list()


def test_what_cannot_be_sent_is_counted_and_the_next_goes(services: Services) -> None:
    with machines.pair(*services, topics=("frames",), max_bytes=10_000) as pair:
        here, there = pair.here.topic("frames"), services[1].Topic("frames")
        with there.subscribe() as messages:
            here.publish({1j})  # a pickle on this machine
            here.publish(shmtensor.zeros(10_000))
            here.publish("small")
            assert messages.get(S) == "small"
        row = machines.named(pair.here.bridge, "frames")
        assert (row.n_refused, row.n_sent) == (2, 1)
        assert "at most 10000 are sent" in row.last_error


def published_until_full(topic: Topic[int]) -> int:
    """Publish numbers until rings and window are full; return how many."""
    for n in itertools.count():
        try:
            topic.publish(n, timeout=1)
        except queue.Full:
            return n
    raise AssertionError


def test_a_slow_subscriber_there_makes_publishers_here_wait(services: Services) -> None:
    with machines.pair(*services, topics=("steps",)) as pair:
        here = services[0].Topic("steps", depth=1, overflow="block")
        there = services[1].Topic("steps", depth=1, overflow="block")
        waiting.until(lambda: here.n_subscribers == 1)
        with there.subscribe() as messages:
            n_sent = published_until_full(here)
            assert n_sent < 40
            assert machines.named(pair.here.bridge, "steps").n_under_way > 0
            assert [messages.get(S) for _ in range(n_sent)] == list(range(n_sent))
        assert machines.named(pair.here.bridge, "steps").n_lost == 0


def test_a_frame_that_the_network_loses_is_sent_again(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, lost = Link.send, []

    def lossy(link: Link, header: bytes, *args: Any, **kwargs: Any) -> None:
        kind = json.loads(header)["kind"]
        if kind in ("topic", "ack") and lost.count(kind) < 2:
            lost.append(kind)
        else:
            send(link, header, *args, **kwargs)

    with machines.pair(*services, topics=("frames",)) as pair:
        monkeypatch.setattr(Link, "send", lossy)
        here, there = pair.here.topic("frames"), services[1].Topic("frames")
        with there.subscribe() as messages:
            here.publish(0)
            here.publish(1)
            assert [messages.get(S) for _ in range(2)] == [0, 1]
        waiting.until(lambda: machines.named(pair.here.bridge, "frames").n_under_way == 0)
        assert sorted(lost) == ["ack", "ack", "topic", "topic"]
        assert machines.named(pair.here.bridge, "frames").n_resent == 2
        assert machines.named(pair.there.bridge, "frames").n_received == 2


@pytest.mark.parametrize("n_before", [0, 3])
def test_no_frame_is_taken_before_one_that_the_network_has_lost(
    services: Services, monkeypatch: pytest.MonkeyPatch, n_before: int
) -> None:
    send, lost = Link.send, []

    def lossy(link: Link, header: bytes, *args: Any, **kwargs: Any) -> None:
        if json.loads(header)["kind"] == "topic" and not lost:
            lost.append(header)
        else:
            send(link, header, *args, **kwargs)

    with machines.pair(*services, topics=("frames",)) as pair:
        here, there = pair.here.topic("frames"), services[1].Topic("frames")
        with there.subscribe() as messages:
            for n in range(n_before):
                here.publish(n)
                assert messages.get(S) == n
            monkeypatch.setattr(Link, "send", lossy)
            for n in range(4):
                here.publish(n)
            assert [messages.get(S) for _ in range(4)] == [0, 1, 2, 3]
        waiting.until(lambda: machines.named(pair.here.bridge, "frames").n_under_way == 0)
        assert machines.named(pair.here.bridge, "frames").n_lost == 0
        assert machines.named(pair.there.bridge, "frames").n_received == n_before + 4


def test_who_had_another_partner_meanwhile_begins_anew(services: Services) -> None:
    """The one that was not told goes on with its streams where they were, unless it hears so."""
    here, there = services
    with machines.pair(here, there, topics=("out", "back")) as pair:
        first, second = pair.here.bridge, pair.there.bridge
        out, back = pair.here.topic("out"), pair.there.topic("back")
        came, came_back = there.Topic("out").subscribe(), here.Topic("back").subscribe()

        def send(n: int) -> None:
            out.publish(n)
            assert came.get(S) == n
            back.publish(-n)
            assert came_back.get(S) == -n

        for n in range(3):
            send(n)
        link = second._link
        # As if the network had shown it another one, while the first one did not notice anything.
        link._greetings.goes(first.status().id)
        assert second.wait_down(S)
        link._last = "0" * 16
        link._greetings.comes(first.status().id)
        waiting.until(lambda: first.status().n_ups == second.status().n_ups == 2)
        assert first.wait_up(S)
        assert second.wait_up(S)
        for n in range(3, 6):
            send(n)
        assert machines.named(first, "out").n_resent == 0


def test_without_a_link_a_topic_keeps_what_its_depth_says(services: Services) -> None:
    address = machines.free_address()
    first = Bridge(services[0], listen=address, topics=["frames"])
    second = Bridge(services[1], connect=address, topics=["frames"])
    here, there = services[0].Topic("frames", depth=4), services[1].Topic("frames", depth=4)
    with first, there.subscribe() as messages:
        waiting.until(lambda: here.n_subscribers == 1)
        for n in range(10):
            here.publish(n)
        assert machines.named(first, "frames").n_lost == 6
        with second:
            assert [messages.get(S) for _ in range(4)] == [6, 7, 8, 9]
            assert machines.named(first, "frames").n_lost == 6


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.check
def test_versions_of_a_value_follow_each_other(services: Services) -> None:
    here, there = services
    with machines.pair(here, there, values=("weights",)):
        here.publish("weights", {"w": np.ones(1000), "names": ["a"]})
        found = there.wait_newer("weights", 0, S, as_="numpy")
        assert found.value["w"].tolist() == [1.0] * 1000
        here.publish("weights", 2)
        assert there.wait_newer("weights", found.version, S).value == 2
    assert "weights" not in there.list()  # which the bridge has published
    assert here.attach("weights") == 2


def test_the_newest_version_wins(services: Services) -> None:
    here, there = services
    address = machines.free_address()
    first = Bridge(here, listen=address, values=["step"])
    with first:
        for n in range(5):
            here.publish("step", n)
        with Bridge(there, connect=address, remote_values=["step"]):
            found = there.wait_newer("step", 0, S)
        assert found.value == 4
        assert machines.named(first, "step").n_sent == 1
        here.publish("step", 5)
        here.publish("step", 6)
        with Bridge(there, connect=address, remote_values=["step"]):
            # The first of them may have gone, to nobody; the last one arrives.
            waiting.until(lambda: "step" in there.list() and there.attach("step") == 6)


def test_values_of_libraries_and_modules_arrive_as_such(services: Services) -> None:
    here, there = services
    model = shmtensor.nn.Linear(3, 2)
    with machines.pair(here, there, values=("texts", "model")):
        here.publish("texts", np.array(["a", "bc"]))
        assert there.wait_newer("texts", 0, S, as_="numpy").value.tolist() == ["a", "bc"]
        here.publish("model", model)
        there.wait_newer("model", 0, S)
        copy, _ = there.attach_module("model", shmtensor.nn.Linear(3, 2))
        assert copy.weight.tolist() == model.weight.tolist()


# --- calls ----------------------------------------------------------------------------------------


class Unknown(Exception):
    """An exception that the other machine does not know."""


def _answer(request: Request) -> Any:
    errors: dict[Any, BaseException] = {
        "value": ValueError("no such thing"),
        "key": KeyError("name"),
        "own": Unknown("ours"),
        "unsendable": TypeError("x"),
    }
    if request.value == "unsendable":
        return {1j}
    if isinstance(request.value, str):
        raise errors[request.value]
    return request.value * 2


@pytest.mark.check
def test_calls_are_answered_there(services: Services) -> None:
    here, there = services
    with (
        machines.pair(here, there, calls=("double",)) as pair,
        machines.served(here, "double", _answer),
    ):
        with there.Client("double", as_="numpy") as double:
            assert double.call(21, S) == 42
            assert double.call(np.arange(3), S).tolist() == [0, 2, 4]
            futures = [double.submit(n, S) for n in range(300)]  # more than are under way at once
            assert [future.result(S) for future in futures] == [2 * n for n in range(300)]
        assert machines.named(pair.there.bridge, "double").n_sent == 302
        assert machines.named(pair.here.bridge, "double").n_under_way == 0


def test_errors_of_the_server_are_raised_here(services: Services) -> None:
    here, there = services
    with machines.pair(here, there, calls=("double",)), machines.served(here, "double", _answer):
        with there.Client("double") as double:
            with pytest.raises(ValueError, match=r"^no such thing$") as told:
                double.call("value", S)
            assert "in _answer" in str(told.value.__cause__)  # the traceback of the server
            with pytest.raises(KeyError) as missing:
                double.call("key", S)
            assert missing.value.args == ("name",)
            with pytest.raises(RemoteError, match="Unknown: ours"):
                double.call("own", S)
            with pytest.raises(TypeError, match="set"):
                double.call("unsendable", S)
            with pytest.raises(TypeError, match="set"):
                double.call({1j}, S)
            assert double.call(1, S) == 2


def test_a_server_learns_that_nobody_waits(services: Services) -> None:
    here, there = services
    with machines.pair(here, there, calls=("slow",)), here.Server("slow") as slow:
        with there.Client("slow") as client:
            with pytest.raises(WaitTimeoutError):
                client.call(1, 0.1)
            (request,) = slow.take(timeout=S)
            waiting.until(lambda: not request.is_wanted)


def test_calls_without_a_partner_fail_at_once(services: Services) -> None:
    there = services[1]
    remote = Bridge(there, connect=machines.free_address(), remote_calls=["slow"])
    with remote, there.Client("slow") as client:
        with pytest.raises(ServerLostError, match="there is no link to the other machine yet"):
            client.call(1)


def test_calls_end_when_the_bridge_there_is_killed(
    services: Services, run: type[service_programs.Program]
) -> None:
    here, there = services
    address = machines.free_address()
    with Bridge(here, listen=address, remote_calls=["there"]) as first:
        program = run(
            "import sys; from shmtensor.bridge import Bridge; "
            "from shmtensor.service import Service; "
            "bridge = Bridge(Service(sys.argv[1]), connect=sys.argv[2], calls=['there']); "
            "bridge.start(); bridge.wait_up(); print('up', flush=True); sys.stdin.read()",
            *(there._name, address),
        )
        assert program.line() == "up"
        assert first.wait_up(S)
        with there.Server("there") as server, here.Client("there") as client:
            future = client.submit(1)  # without a timeout
            held = server.take(timeout=S)  # what nobody holds is let go
            program.kill()
            with pytest.raises(ServerLostError, match="its bridge has gone"):
                future.result(S)
            del held


def test_calls_fail_when_the_link_is_lost(services: Services) -> None:
    here, there = services
    address = machines.free_address()
    first = Bridge(here, listen=address, calls=["slow"])
    second = Bridge(there, connect=address, remote_calls=["slow"])
    with here.Server("slow") as slow, there.Client("slow") as client, second:
        with first:
            assert second.wait_up(S)
            future = client.submit(1, S)
            (request,) = slow.take(timeout=S)
        with pytest.raises(ServerLostError, match="the link to the other machine is lost"):
            future.result(S)
        with pytest.raises(ServerLostError, match="the link to the other machine is lost"):
            client.call(2, S)
        waiting.until(lambda: not request.is_wanted)


# --- names ----------------------------------------------------------------------------------------


def test_a_prefix_is_of_one_machine_only(services: Services) -> None:
    here, there = services
    address = machines.free_address()
    first = Bridge(here, listen=address, topics=["frames"], prefix="robot/")
    second = Bridge(there, connect=address, topics=["frames"])
    with machines.linked(first, second):
        ours, theirs = here.Topic("robot/frames"), there.Topic("frames")
        waiting.until(lambda: ours.n_subscribers == theirs.n_subscribers == 1)
        with ours.subscribe() as messages:
            theirs.publish(1)
            assert messages.get(S) == 1


def test_what_is_not_named_here_does_not_come(services: Services) -> None:
    here, there = services
    address = machines.free_address()
    first = Bridge(here, listen=address, topics=["a"])
    second = Bridge(there, connect=address, topics=["a", "b"])
    with machines.linked(first, second):
        topic = there.Topic("b")
        waiting.until(lambda: topic.n_subscribers == 1)
        topic.publish(1)
        waiting.until(lambda: first.status().n_damaged == 1)
        assert "'b', which is not shared here" in first.status().last_error
        assert "b" not in here.list()


@pytest.mark.parametrize(
    "arguments",
    [
        {"topics": ["a"]},
        {"listen": "tcp/127.0.0.1:0", "topics": ["a"], "values": ["a"]},
        {"listen": "tcp/127.0.0.1:0", "topics": ["a" * 128]},
        {"listen": "tcp/127.0.0.1:0", "pair": "a/*"},
    ],
    ids=str,
)
def test_wrong_arguments(services: Services, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Bridge(services[0], **arguments)


def test_a_name_of_another_kind_ends_the_bridge(services: Services) -> None:
    services[0].publish("frames", 1)
    with Bridge(services[0], listen=machines.free_address(), topics=["frames"]) as bridge:
        with pytest.raises(ValueError, match="'frames' is a value, not a topic"):
            bridge.wait_up(S)


def test_an_address_that_is_taken_is_an_error(services: Services) -> None:
    address = machines.free_address()
    with Bridge(services[0], listen=address), pytest.raises(OSError, match="Zenoh cannot start"):
        Bridge(services[1], listen=address).start()


# --- partners -------------------------------------------------------------------------------------


def test_a_third_bridge_waits_until_one_has_gone(services: Services) -> None:
    here, there = services
    address = machines.free_address()
    with Bridge(here, listen=address, values=["step"]) as first:
        second = Bridge(there, connect=address, remote_values=["step"])
        with second:
            assert second.wait_up(S)
            third = Bridge(there, connect=address, remote_values=["step"])
            third.start()
            waiting.until(lambda: first.status().waiting == [third.status().id])
            assert not third.status().is_up
        try:
            assert third.wait_up(S)
            waiting.until(lambda: first.status().partner == third.status().id)
        finally:
            third.close()


_BRIDGE = """
import sys
from shmtensor.bridge import Bridge
from shmtensor.service import Service
service = Service(sys.argv[1])
bridge = Bridge(service, connect=sys.argv[2], topics=["frames"], remote_values=["step"])
with bridge:
    bridge.wait_up()
    print("up", flush=True)
    sys.stdin.read()
"""


def test_a_killed_bridge_leaves_nothing_and_another_takes_its_place(
    services: Services, run: type[service_programs.Program]
) -> None:
    here, there = services
    address = machines.free_address()
    with Bridge(here, listen=address, topics=["frames"], values=["step"]) as first:
        here.publish("step", 1)
        killed = run(_BRIDGE, there._name, address)
        assert killed.line() == "up"
        assert there.wait_newer("step", 0, S).value == 1
        killed.process.send_signal(signal.SIGKILL)
        assert first.wait_down(S)
        waiting.until(lambda: not there.list())
        again = run(_BRIDGE, there._name, address)
        assert again.line() == "up"
        assert there.wait_newer("step", 0, S).value == 1
        assert first.status().n_ups == 2
        with there.Topic("frames").subscribe() as messages:
            with here.Topic("frames") as frames:
                waiting.until(lambda topic=frames: topic.n_subscribers == 1)
                frames.publish("new")
            assert messages.get(S) == "new"
        again.say()
        again.process.stdin.close()  # type: ignore[union-attr]
        again.process.stdin = None
        again.finish()
        del messages, frames
        waiting.until(lambda: not there.list())


def test_a_configuration_of_zenoh_keeps_strangers_out(services: Services, tmp_path: Path) -> None:
    here, there = services
    address = machines.free_address()
    users = tmp_path / "users"
    users.write_text("robot:secret\n")
    login = {"user": "robot", "password": "secret", "dictionary_file": str(users)}
    known, unknown = tmp_path / "known.json5", tmp_path / "unknown.json5"
    for path, auth in ((known, {"usrpwd": login}), (unknown, {})):
        scouting = {"multicast": {"enabled": False}, "gossip": {"enabled": False}}
        rest = {"mode": "peer", "scouting": scouting, "transport": {"auth": auth}}
        path.write_text(json.dumps(rest))
    first = Bridge(here, listen=address, values=["step"], config=known)
    stranger = Bridge(there, connect=address, remote_values=["step"], config=unknown)
    second = Bridge(there, connect=address, remote_values=["step"], config=known)
    with first, stranger, second:
        assert first.wait_up(S)
        assert first.status().partner == second.status().id
        assert first.status().waiting == stranger.status().waiting == []
        assert not stranger.status().is_up


# --- what a stranger may send ---------------------------------------------------------------------


def test_damaged_frames_are_counted_and_nothing_else(services: Services) -> None:
    import zenoh

    from shmtensor.bridge._format import encode, write_header
    from shmtensor.bridge._link import _configuration

    address = machines.free_address()
    with Bridge(services[0], listen=address, topics=["frames"], calls=["f"]) as bridge:
        topic = services[0].Topic("frames")
        me, partner = bridge.status().id, "0" * 16
        with zenoh.open(_configuration([address], [], None, 1 << 20)) as stranger:
            token = stranger.liveliness().declare_token(
                f"shmtensor/bridge/{FORMAT}/default/alive/{partner}"
            )

            def put(
                header: bytes | None,
                payload: bytes = b"",
                sender: str = partner,
                pairing: str = "1-1",
            ) -> None:
                key = f"shmtensor/bridge/{FORMAT}/default/{me}/{sender}/{pairing}"
                stranger.put(
                    key,
                    payload,
                    attachment=header,
                    congestion_control=zenoh.CongestionControl.BLOCK,
                )

            def hello(**more: Any) -> bytes:
                fields = {"format": FORMAT, "byte_order": "little", "chosen": me, "answers": False}
                fields |= {"attempt": 1, "begun": 1, "knows": 1}
                return write_header("hello", **{**fields, "received": [], **more})

            def message(seq: int) -> bytes:
                settings = [16, 0, "drop_oldest"]
                return write_header("topic", name="frames", seq=seq, settings=settings)

            put(message(1), encode(1, 1000))  # before it is a partner
            waiting.until(lambda: bridge.status().n_damaged >= 1 or bridge.status().waiting == [])
            put(hello(format=9))
            put(hello(byte_order="big"))
            put(hello(begun=0))
            put(hello())

            def is_up() -> bool:
                put(hello(answers=True))  # perhaps before its token is seen
                return bridge.status().is_up

            waiting.until(is_up)
            put(None)
            put(b"\x80\x04K\x01.")
            put(b'{"kind":"topic"}')
            put(hello(), sender="no-id")
            put(write_header("ack", stream="topic", name="frames", seq=9, used=True))
            put(write_header("ack", stream="value", name="frames", seq=9, used=True))
            put(write_header("value", name="frames", seq=1, of="x", version=1), encode(1, 1000))
            put(write_header("reply", name="f", serial=1), encode(1, 1000))
            before = machines.named(bridge, "frames").n_received
            put(message(1), encode("of nobody", 1000), pairing="1-2")
            for seq, payload in enumerate((b"", b"\x80\x04K\x01.", encode(1, 1000)[:-1]), 1):
                put(message(seq), payload)
            put(message(20), encode("others are missing", 1000))
            put(message(4), encode("good", 1000))
            waiting.until(lambda: machines.named(bridge, "frames").n_received == before + 1)
            row = machines.named(bridge, "frames")
            assert row.n_damaged == 3
            assert bridge.status().n_damaged >= 12
            assert bridge.status().is_up
            token.undeclare()
        assert topic.n_published == before + 1
        assert bridge.wait_down(S)


def test_a_flood_of_greetings_is_bounded_and_the_link_comes_up(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    import zenoh

    from shmtensor.bridge import _greetings
    from shmtensor.bridge._format import write_header
    from shmtensor.bridge._link import _configuration

    address = machines.free_address()
    first = Bridge(services[0], listen=address, topics=["frames"])
    waiting_greetings = first._link._greetings
    slow, most = threading.Event(), 0
    happened = first._link._happened

    def happens_slowly() -> None:
        nonlocal most
        slow.wait(0.01)
        most = max(most, len(waiting_greetings._waiting))
        happened()

    monkeypatch.setattr(first._link, "_happened", happens_slowly)
    header = write_header(
        "hello",
        format=FORMAT,
        byte_order=sys.byteorder,
        chosen="",
        answers=False,
        attempt=1,
        begun=1,
        knows=0,
        received=[],
    )
    with first, zenoh.open(_configuration([address], [], None, 1 << 20)) as stranger:
        me = first.status().id

        def flood(n: int) -> None:
            for i in range(n):
                key = f"shmtensor/bridge/{FORMAT}/default/{me}/{i:016x}/hello"
                block = zenoh.CongestionControl.BLOCK
                stranger.put(key, b"", attachment=header, congestion_control=block)

        def is_known() -> bool:
            flood(1000)
            return first.status().n_dropped > 0

        waiting.until(is_known)
        assert most <= _greetings._MOST_WAITING
        assert len(waiting_greetings._waiting) <= _greetings._MOST_WAITING
        liveliness = stranger.liveliness()
        alive = f"shmtensor/bridge/{FORMAT}/default/alive"
        with Bridge(services[1], connect=address, topics=["frames"]) as second:
            # Others come and go, and talk, while the two find each other.
            for i in range(300):
                liveliness.declare_token(f"{alive}/{'f' * 12}{i:04x}").undeclare()
                flood(3)
            assert second.wait_up(S)
            assert first.wait_up(S)
            topic = services[0].Topic("frames")
            waiting.until(lambda: topic.n_subscribers == 1)
            there = services[1].Topic("frames").subscribe()
            topic.publish("through")
            assert there.get(S) == "through"
    slow.set()


def test_greetings_that_wait_are_few_and_small() -> None:
    from shmtensor.bridge._greetings import _MOST_BYTES, Greeting, Greetings

    greetings = Greetings()
    for _ in range(10):
        greetings.put(Greeting("hello", "a", {}, _MOST_BYTES // 4))
    assert greetings.n_dropped == 6
    greetings.comes("b")
    greetings.comes("c")
    assert greetings.take_change() and not greetings.take_change()
    assert greetings.choose("") == "b"
    while greetings.take() is not None:
        pass
    greetings.put(Greeting("hello", "c", {}, 1))
    assert greetings.take() is None, "only the partner is heard"
    greetings.put(Greeting("hello", "b", {}, 1))
    greetings.goes("b")
    greetings.comes("b")
    assert greetings.take_gone() and not greetings.take_gone(), "a cut is noticed"
    assert greetings.take() is None, "what it said before it went is old"
    assert greetings.choose("b") == "b" and greetings.others() == ["c"]
    for i in range(5000):
        greetings.comes(f"{i}")
    assert len(greetings.others()) <= 1000
    greetings.end()
    assert not greetings.wait(None)


# --- the command ----------------------------------------------------------------------------------


class Command:
    """A sub-command of ``shmtensor``, whose lines are read."""

    def __init__(self, run: type[service_programs.Program], *arguments: str) -> None:
        text = "import sys; from shmtensor._cli import main; sys.exit(main(sys.argv[1:]))"
        self.program = run(text, *arguments)

    def until(self, line: str) -> None:
        while self.program.line() != line:
            pass

    def end(self, number: int) -> int:
        self.program.process.send_signal(number)
        self.program.process.communicate(timeout=S)
        return self.program.process.returncode


_STATUS = BridgeStatus("0" * 16, 1).as_dict()


@contextlib.contextmanager
def answering(service: Service, name: str, answer: object) -> Iterator[None]:
    """Answer one request with *answer*."""
    with service.Server(name) as server:
        thread = threading.Thread(target=lambda: server.take(timeout=S)[0].reply(answer))
        thread.start()
        yield
        thread.join(S)


def test_command_links_shows_its_status_and_ends(
    services: Services, run: type[service_programs.Program]
) -> None:
    here, there = services
    address = machines.free_address()
    shared = ("--topic", "frames", "--value", "step", "--call", "f")
    first = Command(run, "bridge", "--service", here._name, "--listen", address, *shared)
    with Bridge(
        there, connect=address, topics=["frames"], remote_values=["step"], remote_calls=["f"]
    ):
        first.until("shmtensor: the link is up")
        here.publish("step", shmtensor.zeros(100))
        there.wait_newer("step", 0, S)
        shown = service_programs.command("bridge", "--service", here._name, "--status")
        assert shown.returncode == 0, shown.stderr
        assert "up, to" in shown.stdout
        (status,) = json.loads(
            service_programs.command("bridge", "-s", here._name, "--status", "--json").stdout
        )
        assert {row["name"]: row["n_sent"] for row in status["names"]} == {
            "frames": 0,
            "step": 1,
            "f": 0,
        }
        metrics = service_programs.command("bridge", "-s", here._name, "--metrics").stdout
        labels = f'bridge="{status["id"]}",kind="value",name="step"'
        assert f"shmtensor_bridge_sent_total{{{labels}}} 1\n" in metrics
        assert first.end(signal.SIGTERM) == 0
    waiting.until(lambda: list(here.list()) == ["step"])


def test_command_ends_with_an_interrupt(
    services: Services, run: type[service_programs.Program]
) -> None:
    here, there = services
    address = machines.free_address()
    first = Command(
        run, "bridge", "--service", here._name, "--listen", address, "--topic", "frames"
    )
    with Bridge(there, connect=address, topics=["frames"]):
        first.until("shmtensor: the link is up")
        assert first.end(signal.SIGINT) == 0
    waiting.until(lambda: not here.list())


def test_an_answer_that_has_no_room_ends_no_bridge(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def has_no_room(request: Request, value: object) -> bool:
        raise MemoryError("no room")

    with (
        Bridge(services[0], listen=machines.free_address(), topics=["frames"]) as bridge,
        services[0].Client(f"bridge/{bridge.status().id}") as client,
    ):
        with monkeypatch.context() as patch:
            patch.setattr(Request, "reply", has_no_room)
            with pytest.raises(MemoryError, match="no room"):
                client.call(None, S)
        assert client.call(None, S)["id"] == bridge.status().id
        assert not bridge.wait_up(0)


@pytest.mark.parametrize("answer", [None, {}, {**_STATUS, "names": [{}]}, {**_STATUS, "pid": "1"}])
def test_command_refuses_what_is_no_status(services: Services, answer: object) -> None:
    with answering(services[0], "bridge/\x1b[2J", answer):
        shown = service_programs.command("bridge", "--service", services[0]._name, "--status")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == (
        "shmtensor: 'bridge/\\x1b[2J' has answered with what is no status of a bridge\n"
    )


def test_command_escapes_what_it_was_answered(services: Services) -> None:
    raw = "\x1b[2J"
    row = {**NameStatus(raw, raw).__dict__, "last_error": raw}
    answer = {**_STATUS, "id": raw, "waiting": [raw], "names": [row], "newer": 1}
    for is_up in (False, True):
        with answering(services[0], "bridge/x", {**answer, "is_up": is_up, "partner": raw}):
            shown = service_programs.command("bridge", "--service", services[0]._name, "--status")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert raw not in shown.stdout and "bridge \\x1b[2J (process 1): " in shown.stdout


@pytest.mark.parametrize(
    "what",
    ["topics", "topics_out", "topics_in", "values", "calls", "remote_values", "remote_calls"],
)
def test_names_are_not_one_text(what: str) -> None:
    with pytest.raises(TypeError, match=rf"{what}: .* got 'frames'; give \['frames'\]"):
        Bridge(listen="tcp/127.0.0.1:0", **{what: "frames"})  # type: ignore[arg-type]


def test_a_message_has_a_byte_at_least() -> None:
    with pytest.raises(ValueError, match="max_bytes must be at least 1, got -1"):
        Bridge(listen="tcp/127.0.0.1:0", topics=["frames"], max_bytes=-1)


def test_command_waits_for_a_service_that_is_starting(
    run: type[service_programs.Program],
) -> None:
    text = """
import sys
from shmtensor._cli import bridge, main
bridge._SERVICE_S = float(sys.argv.pop(1))
print("begins", flush=True)
sys.exit(main(sys.argv[1:]))
"""
    name = service_programs.unused_name()
    address = machines.free_address()
    program = run(text, str(S), "bridge", "-s", name, "--listen", address, "--topic", "frames")
    assert program.line() == "begins"
    Command(run, "serve", "--name", name)
    assert program.line().endswith("waits for its partner")


def test_command_needs_an_address_and_a_service(services: Services) -> None:
    nowhere = service_programs.command("bridge", "--service", services[0]._name)
    assert nowhere.returncode == 2
    assert "expected --connect" in nowhere.stderr
    nobody = service_programs.command("bridge", "--service", services[0]._name, "--status")
    assert nobody.returncode == 1
    assert "has no bridge" in nobody.stderr
    unknown = service_programs.command("bridge", "-s", "no-such-service", "--listen", "tcp/[::1]:0")
    assert unknown.returncode == 1
    assert "no-such-service" in unknown.stderr
