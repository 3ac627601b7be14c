"""Programs in C and in Python that talk: each kind of name in both directions, and kills.

What C does among itself is in test_programs.py.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import service_programs as programs
import waiting
from compiled import compiled, environment

import shmtensor
from shmtensor.errors import HandleError, NotPublishedError, RemoteError
from shmtensor.service import Service

HERE = Path(__file__).parent
WAIT_S = 60
EXAMPLE = "{'n': 3, 't': tensor(2/32 2x3 sum 15), 'l': [None, (True, 2.5)], 7: 'ä'}"


@pytest.fixture(scope="session")
def _program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(HERE / "peer.c", tmp_path_factory.mktemp("peer") / "peer", "-std=gnu11")


@pytest.fixture(scope="session")
def _joined() -> Iterator[Service]:
    # Of the whole run: its descriptors and maps stay.
    with programs.joined() as service:
        yield service


@pytest.fixture(autouse=True, scope="session")
def _joined_first(_joined: Service) -> None:
    pass


@pytest.fixture
def service(_joined: Service) -> Iterator[Service]:
    """A service that this process has joined; it has no names."""
    yield _joined
    programs.forget_names(_joined)


class Peer(programs.Process):
    """The program of C."""

    def __init__(self, program: Path, service: Service, verb: str, name: str) -> None:
        super().__init__(program, service._name, verb, name, env=environment())

    def rest(self) -> list[str]:
        """Let it end; returns the rest of what it printed."""
        return self.finish("\n").splitlines()


@pytest.fixture
def peer(_program: Path, service: Service) -> Iterator[Callable[[str, str], Peer]]:
    """Start the program of C with a verb and a name."""
    made: list[Peer] = []

    def start(verb: str, name: str) -> Peer:
        made.append(Peer(_program, service, verb, name))
        return made[-1]

    yield start
    for each in made:
        each.kill()


Start = Callable[[str, str], Peer]


def example(service: Service) -> dict[object, object]:
    """What peer.c makes."""
    tensor = service.empty(2, 3, dtype=shmtensor.float32)
    tensor.copy_(shmtensor.arange(6.0).reshape(2, 3))
    return {"n": 3, "t": tensor, "l": [None, (True, 2.5)], 7: "ä"}


def is_example(value: object) -> bool:
    assert isinstance(value, dict)
    tensor = value.pop("t")
    assert tensor.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    return value == {"n": 3, "l": [None, (True, 2.5)], 7: "ä"}


@pytest.mark.check
def test_queue_from_c_to_python(service: Service, peer: Start) -> None:
    program = peer("put", "q")
    assert program.line() == "ready"
    assert is_example(service.Queue("q").get(timeout=WAIT_S))
    program.rest()


@pytest.mark.check
def test_queue_from_python_to_c(service: Service, peer: Start) -> None:
    queue = service.Queue("q")
    program = peer("get", "q")
    assert program.line() == "ready"
    shared = [1, 2]
    rows = shmtensor.arange(12).reshape(3, 4)
    for value in (
        example(service),
        [shared, shared, b"abc", -129, 2.5, True],
        {"view": rows[:, 1:3], "column": rows.t()},
        shmtensor.ones(2, dtype=shmtensor.uint8),
        "x" * 100_000,
        None,
    ):
        queue.put(value)
    lines = program.rest()
    assert lines[0] == EXAMPLE
    assert lines[1] == "[[1, 2], [1, 2], b3, -129, 2.5, True]"
    assert lines[2] == "{'view': tensor(0/64 3x2 sum 33), 'column': tensor(0/64 4x3 sum 66)}"
    assert lines[3] == "tensor(1/8 2 sum 2)"
    assert lines[4:] == [f"'{'x' * 100_000}'", "None"]


def test_what_c_cannot_read_is_refused_and_the_queue_goes_on(service: Service, peer: Start) -> None:
    queue = service.Queue("q")
    program = peer("get", "q")
    assert program.line() == "ready"
    for value in ({1, 2}, 1 << 70, {2.5: 1}, shmtensor.ones(2, dtype=shmtensor.complex64)):
        queue.put(value)
    queue.put(shmtensor.ones(2, dtype=shmtensor.complex64).conj())
    queue.put(None)
    lines = program.rest()
    assert [line.partition(":")[0] for line in lines[:3]] == ["SHMTENSOR_E_TYPE"] * 3
    assert "pickle of Python" in lines[0]
    assert "a float as a key" in lines[2]
    assert lines[3].startswith("tensor(5/64 2 ")
    assert "conjugated" in lines[4]
    assert lines[5:] == ["None"]


@pytest.mark.check
def test_topic_from_c_to_python(service: Service, peer: Start) -> None:
    program = peer("loan", "t")
    assert program.line() == "ready"
    with service.Topic("t").subscribe(as_="numpy") as frames:
        program.rest()
        assert [int(frames.get(WAIT_S).sum()) for _ in range(3)] == [20, 40, 60]


def test_topic_from_python_to_c(service: Service, peer: Start) -> None:
    topic = service.Topic("t")
    program = peer("subscribe", "t")
    assert program.line() == "ready"
    for i in range(2):
        with topic.loan(4, 5, dtype="uint8", as_="numpy") as frame:
            frame[:] = i + 1
    topic.publish(["last", 3])
    assert program.rest() == [
        "tensor(1/8 4x5 sum 20)",
        "tensor(1/8 4x5 sum 40)",
        "['last', 3]",
    ]


@pytest.mark.check
def test_server_in_c_answers_python(service: Service, peer: Start) -> None:
    program = peer("serve", "s")
    assert program.line() == "ready"
    client = service.Client("s")
    assert is_example(client.call(example(service), timeout=WAIT_S))
    with pytest.raises(RemoteError, match="no texts, please"):
        client.call("text", timeout=WAIT_S)
    with pytest.raises(RemoteError, match="the request cannot be read: a pickle of Python"):
        client.call({1, 2}, timeout=WAIT_S)
    assert client.call(None, timeout=WAIT_S) is None
    program.rest()


@pytest.mark.check
def test_server_in_python_answers_c(service: Service, peer: Start) -> None:
    server = service.Server("s")
    program = peer("call", "s")

    def serve() -> None:
        (request,) = server.take(timeout=WAIT_S)
        request.reply([request.value, "thanks"])
        (request,) = server.take(timeout=WAIT_S)
        request.fail("not again")
        (request,) = server.take(timeout=WAIT_S)
        with request:
            raise ValueError("it is bad", 3)
        (request,) = server.take(timeout=WAIT_S)
        with request:
            raise LookupError("\udc80 is no text")

    thread = threading.Thread(target=serve)
    thread.start()
    assert program.rest() == [
        f"[{EXAMPLE}, 'thanks']",
        "SHMTENSOR_E_REMOTE: not again",
        "SHMTENSOR_E_REMOTE: ValueError: ('it is bad', 3)",
        "SHMTENSOR_E_REMOTE: LookupError: \\udc80 is no text",
    ]
    thread.join()


def test_barrier_has_parties_of_both_languages(service: Service, peer: Start) -> None:
    barrier = service.Barrier("b", 2)
    program = peer("barrier", "b")
    assert program.line() == "ready"
    waiting.until(lambda: barrier.n_waiting == 1)
    assert barrier.wait(timeout=WAIT_S), "the last one"
    assert program.line() == "0"
    waiting.until(lambda: barrier.n_waiting == 1)
    os.kill(program.process.pid, signal.SIGKILL)
    program.process.wait(WAIT_S)
    waiting.until(lambda: barrier.n_waiting == 0)


def test_value_of_c_is_attached_by_python(service: Service, peer: Start) -> None:
    program = peer("publish", "v")
    assert program.line() == "ready"
    assert is_example(service.attach("v"))
    program.rest()
    waiting.until(lambda: "v" not in service.list())


@pytest.mark.check
def test_value_of_python_is_attached_by_c(service: Service, peer: Start) -> None:
    service.publish("v", example(service))
    assert peer("attach", "v").rest() == [EXAMPLE]
    model = shmtensor.nn.Linear(3, 2)
    service.publish("v", model)
    total = [float(f"{p.sum().item():g}") for p in (model.weight, model.bias)]
    (line,) = peer("attach", "v").rest()
    found = re.findall(r"'(\w+)': tensor\(2/32 [\dx]+ sum ([-\d.e]+)\)", line)
    assert [name for name, _ in found] == ["weight", "bias"]
    assert [float(text) for _, text in found] == pytest.approx(total, abs=1e-4)


def test_events_and_locks_reach_across(service: Service, peer: Start) -> None:
    event = service.Event("e")
    program = peer("events", "e")
    assert program.line() == "ready"
    lock = service.Lock("lock")
    assert not lock.acquire(blocking=False)
    event.set()
    assert program.line() == "released"
    assert lock.acquire(timeout=WAIT_S)
    assert not event.is_set()
    lock.release()
    program.rest()


def test_killed_program_of_c_leaves_nothing(service: Service, peer: Start) -> None:
    queue, topic, server = service.Queue("q"), service.Topic("topic"), service.Server("server")
    queue.put(shmtensor.ones(3))
    client = service.Client("server")
    future = client.submit("wait")
    program = peer("hold", "q")
    assert program.line() == "ready"
    lock = service.Lock("lock")
    assert not lock.acquire(blocking=False)
    assert (topic.n_subscribers, queue.n_unacknowledged) == (1, 1)
    os.kill(program.process.pid, signal.SIGKILL)
    program.process.wait(WAIT_S)
    assert lock.acquire(timeout=WAIT_S)
    assert queue.get(timeout=WAIT_S).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(shmtensor.errors.ServerLostError):
        future.result(WAIT_S)
    topic.publish(1)
    waiting.until(lambda: topic.n_subscribers == 0)
    waiting.until(lambda: service.status().n_clients == 1)
    waiting.until(lambda: queue.n_unacknowledged == 0)
    lock.release()
    assert server.qsize() == 0
    client.close()


def test_damaged_descriptions_are_refused_by_c_as_by_python(service: Service, peer: Start) -> None:
    storage = service.empty(6, dtype=shmtensor.float32).untyped_storage()
    bad = {
        b'{"kind":"value","value":["t",0,"float32",0,[7],[1],false]}': "28 bytes",
        b'{"kind":"value","value":["t",1,"float32",0,[1],[1],false]}': "a number of a tensor",
        b'{"kind":"value","value":["d",["a",1],["a",2]]}': "twice",
        b'{"kind":"value","value":[]}': "a string is missing",
        b'{"kind":"value","value":["q"]}': "another kind",
        b'{"kind":"value","value":["b","a"]}': "bytes",
        b'{"kind":"value","value":1e999}': "not finite",
        b'{"kind":"value","value":01}': "a number",
        b'{"kind":"value","value":1} ,': "document",
        b'{"kind":"value","value":1,"more":2}': "other parts",
        b'{"kind":"module","value":["d",["a",1]],"skeleton":null}': "dict of tensors",
        b'{"kind":"value","value":"\xc3\xa4"}': "ASCII",
        b'{"kind":"value"': "document without end",
        b"": "",
        b'{"kind":"value","value":' + b'["l",' * 300: "too deep",
    }
    for text, words in bad.items():
        service._handle.publish("v", [storage._cdata], text, True)
        with pytest.raises(HandleError):
            service.attach("v")
        program = peer("attach", "v")
        out, _ = program.process.communicate(timeout=WAIT_S)
        assert program.process.returncode == 1, text
        assert out.startswith("SHMTENSOR_E_HANDLE: "), (text, out)
        assert words in out
    with pytest.raises(NotPublishedError):
        service.attach("w")
