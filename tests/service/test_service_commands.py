"""The commands that take part in a service: echo, hz, call and bench.

Not covered: values of every kind, as lines and as JSON (tests/cli/test_shown.py).
"""

from __future__ import annotations

import contextlib
import gc
import json
import queue
import re
import signal
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import service_programs as programs
import waiting

import shmtensor as T
from shmtensor import _cli, inspect
from shmtensor.service import Service
from shmtensor.service._topics import Topic

Command = Callable[..., tuple[int, str, str]]

_COMMAND = "import sys; from shmtensor._cli import main; sys.exit(main(sys.argv[1:]))"
_SERVER = """
import os, sys
from shmtensor.service import Service
server = Service(sys.argv[1]).Server("double")
print("open", flush=True)
for request in server:
    with request:
        if request.value == "die":
            os.kill(os.getpid(), 9)
        if request.value == "raise":
            raise ValueError("it is\\nbad\\x1b[2J", 3)
        if request.value == "exit":
            raise SystemExit(0)
        if request.value == "fail":
            request.fail("too\\nmuch")
        elif request.value == "large":
            import numpy as np
            request.reply({"a": np.zeros((50, 50), np.float32), 3: b"x", "c": 1j})
        elif request.value != "nothing":
            request.reply(request.value * 2)
"""


@pytest.fixture
def shmtensor_command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process; returns its exit status, output and errors."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            status = _cli.main(arguments)
        except SystemExit as end:
            status = int(end.code or 0)
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def command(run: type[programs.Program]) -> Callable[..., programs.Program]:
    """Start a command; its output is read line by line."""
    return lambda *arguments: run(_COMMAND, *arguments)


def _end(program: programs.Program) -> tuple[int, str, str]:
    out, err = program.process.communicate(timeout=programs.WAIT_S)
    return program.process.returncode, out, err


def _subscribed(topic: Topic) -> None:
    waiting.until(lambda: topic.n_subscribers == 1)


# --- echo -----------------------------------------------------------------------------------------


@pytest.mark.check
def test_echo_prints_what_is_published(service: Service, shmtensor_command: Command) -> None:
    topic = service.Topic("frames", history=4)
    topic.publish(T.arange(10).reshape(2, 5))
    topic.publish({"image": np.zeros((480, 640), np.uint8), "at": 1.5})
    topic.publish("a\x1b[2J\nb")
    topic.publish("x" * 10000)
    status, out, err = shmtensor_command("echo", "frames", "-s", service._name, "-n", "4")
    assert (status, err) == (0, "")
    tensor, nested, text, long = out.splitlines()
    assert tensor == "int64 (2, 5) [0, 1, 2, 3, 4, 5, …]"
    assert nested == "{'image': uint8 (480, 640) [0, 0, 0, 0, 0, 0, …], 'at': 1.5}"
    assert text == r"'a\x1b[2J\nb'"
    assert len(long) == 200 and long.startswith("'xxx") and long.endswith("…")
    gc.collect()
    waiting.until(lambda: topic.n_subscribers == 0)


def test_echo_prints_json(service: Service, shmtensor_command: Command) -> None:
    topic = service.Topic("frames", history=2)
    topic.publish([T.ones(2, 2), None, b"\x00", (1, "é")])
    topic.publish(np.array(["a", "b"]))
    _, out, _ = shmtensor_command("echo", "frames", "-s", service._name, "-n", "2", "--json")
    nested, texts = map(json.loads, out.splitlines())
    assert nested == [[[1, 1], [1, 1]], None, r"b'\x00'", [1, "é"]]
    assert texts == ["a", "b"]


class _Bad:
    def __init__(self, text: str) -> None:
        self._text = text

    def __reduce__(self) -> tuple[object, ...]:
        return eval, (self._text,)


def test_echo_goes_on_after_a_pickle_that_fails(
    service: Service, shmtensor_command: Command
) -> None:
    topic = service.Topic("frames", history=3)
    topic.publish(_Bad("1/0"))
    topic.publish(_Bad("open('/no/such')"))
    topic.publish(5)
    _, out, _ = shmtensor_command("echo", "frames", "-s", service._name, "-n", "3")
    assert out.splitlines() == [
        "(cannot be read: ZeroDivisionError: division by zero)",
        "(cannot be read: FileNotFoundError: [Errno 2] No such file or directory: '/no/such')",
        "5",
    ]
    status, out, _ = shmtensor_command("hz", "frames", "-s", service._name, "-n", "1")
    assert (status, float(out.splitlines()[-1].split()[0]) > 0) == (0, True)


def test_echo_says_what_was_lost(
    service: Service, command: Callable[..., programs.Program]
) -> None:
    topic = service.Topic("frames", depth=1)
    echo = command("echo", "frames", "-s", service._name, "-n", "2")
    _subscribed(topic)
    echo.process.send_signal(signal.SIGSTOP)
    for i in range(5):
        topic.publish(i)
    echo.process.send_signal(signal.SIGCONT)
    echo.line()
    topic.publish(5)
    _, out, err = _end(echo)
    assert len(out.splitlines()) == 1
    assert re.search(r"^shmtensor: [345] messages were lost; 1 can wait here$", err, re.M)


# --- hz -------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _publishing(topic: Topic, value: object, n: int) -> Iterator[None]:
    """Publish *n* times as soon as somebody subscribes."""

    def publish() -> None:
        _subscribed(topic)
        for _ in range(n):
            topic.publish(value)

    thread = threading.Thread(target=publish)
    thread.start()
    try:
        yield
    finally:
        thread.join()


@pytest.mark.check
def test_hz_prints_rates(service: Service, shmtensor_command: Command) -> None:
    topic = service.Topic("frames", depth=1000)
    frame = service.empty(250_000, dtype=T.float32)
    with _publishing(topic, frame, 20):
        status, out, err = shmtensor_command("hz", "frames", "-s", service._name, "-n", "2")
    assert (status, err) == (0, "")
    heads, *lines = out.splitlines()
    assert heads.split() == ["MESSAGES/S", "MB/S", "LOST"]
    rows = [line.split() for line in lines]
    assert [row[2] for row in rows] == ["0", "0"]
    assert all(len(line) == len(heads) for line in lines)
    assert 10 < sum(float(row[0]) for row in rows) < 21
    assert 10 < sum(float(row[1]) for row in rows) < 21


def test_hz_averages_over_a_window(service: Service, shmtensor_command: Command) -> None:
    options = ("-s", service._name, "-n", "2", "--window", "10")
    with _publishing(service.Topic("frames"), 1, 1):
        _, out, _ = shmtensor_command("hz", "frames", *options)
    first, second = (float(line.split()[0]) for line in out.splitlines()[1:])
    assert 0.3 < second < 0.6 and second < first <= 1.0


def test_hz_ends_with_ctrl_c(service: Service, command: Callable[..., programs.Program]) -> None:
    topic = service.Topic("frames")
    hz = command("hz", "frames", "-s", service._name)
    _subscribed(topic)
    hz.line()
    hz.process.send_signal(signal.SIGINT)
    status, _, err = _end(hz)
    assert (status, err) == (130, "")
    waiting.until(lambda: topic.n_subscribers == 0)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.check
@pytest.mark.parametrize("words", ["echo nothing", "hz nothing", "call nothing 1"])
def test_names_are_not_made(service: Service, shmtensor_command: Command, words: str) -> None:
    kind = "server" if words.startswith("call") else "topic"
    status, out, err = shmtensor_command(*words.split(), "-s", service._name)
    assert (status, out) == (1, "")
    assert err == f"shmtensor: service {service._name!r} has no {kind} 'nothing'\n"
    assert service.list() == {}


def test_another_kind_is_named(service: Service, shmtensor_command: Command) -> None:
    jobs, topic = service.Queue("jobs"), service.Topic("frames")
    own = ("-s", service._name)
    text = "shmtensor: 'jobs' is a queue, not a topic\n"
    assert shmtensor_command("echo", "jobs", *own) == (1, "", text)
    text = "shmtensor: 'frames' is a topic, not a server\n"
    assert shmtensor_command("call", "frames", "1", *own) == (1, "", text)
    _, _, err = shmtensor_command("hz", "frame", *own)
    assert err.endswith(" has no topic 'frame'; it has: 'frames'\n")
    assert jobs.qsize() == topic.n_subscribers == 0


def test_no_service_is_started(shmtensor_command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    name = programs.unused_name()
    monkeypatch.setenv("SHMTENSOR_SERVICE", name)
    for own in (["-s", name], []):
        status, _, err = shmtensor_command("echo", "frames", *own)
        assert status == 1
        assert err.startswith(f'shmtensor: no service "{name}" runs')
        assert len(err.splitlines()) == 1


# --- call -----------------------------------------------------------------------------------------


@pytest.fixture
def server(service: Service, run: type[programs.Program]) -> programs.Program:
    program = run(_SERVER, service._name)
    assert program.line() == "open"
    return program


@pytest.fixture
def call(service: Service, shmtensor_command: Command) -> Command:
    """Run ``shmtensor call double`` with these arguments."""
    return lambda *words: shmtensor_command("call", "double", *words, "-s", service._name)


@pytest.mark.check
def test_call_prints_the_answer(server: programs.Program, call: Command) -> None:
    assert call("[1, null]") == (0, "[1, null, 1, null]\n", "")
    assert call("-4") == (0, "-8\n", "")
    assert call('"é"') == (0, '"\\u00e9\\u00e9"\n', "")
    status, out, _ = call('"large"')
    large = {"dtype": "float32", "shape": [50, 50], "first": [0, 0, 0, 0, 0, 0]}
    assert (status, json.loads(out)) == (0, {"a": large, "3": "b'x'", "c": "1j"})


def test_call_of_a_server_that_answers_with_tensors(
    service: Service, run: type[programs.Program], call: Command
) -> None:
    program = run(
        "import sys, shmtensor as T; from shmtensor.service import Service\n"
        "server = Service(sys.argv[1]).Server('double'); print('open', flush=True)\n"
        "for request in server: request.reply(T.tensor(request.value) * 2)",
        service._name,
    )
    assert program.line() == "open"
    assert call("[[1.5, 2], [3, 4]]") == (0, "[[3.0, 4.0], [6.0, 8.0]]\n", "")


@pytest.mark.check
def test_call_says_why_there_is_no_answer(server: programs.Program, call: Command) -> None:
    text = "shmtensor: 'double' answered with ValueError: ('it is\\nbad\\x1b[2J', 3)\n"
    assert call('"raise"') == (5, "", text)
    assert call('"fail"') == (5, "", "shmtensor: 'double' answered: too\\nmuch\n")
    status, out, err = call('"nothing"')
    assert (status, out) == (5, "")
    assert err == "shmtensor: 'double' answered: the server has not answered\n"
    status, out, err = call('"die"')
    assert (status, out) == (4, "")
    assert err.startswith("shmtensor: a server of 'double' was killed")
    assert len(err.splitlines()) == 1


def test_call_of_a_server_that_leaves(server: programs.Program, call: Command) -> None:
    assert call('"exit"') == (5, "", "shmtensor: 'double' answered: SystemExit: 0\n")


def test_call_gives_up_after_its_timeout(service: Service, call: Command) -> None:
    with service.Server("double") as server:
        status, out, err = call("1", "--timeout", "0.05")
        text = "shmtensor: no reply of 'double' within 0.05 seconds\n"
        assert (status, out, err) == (3, "", text)
        with pytest.raises(queue.Empty):
            server.take(timeout=0)  # nobody waits for it any more


@pytest.mark.parametrize("text", ["{", "[1,]", "", "[" * 100_000])
def test_bad_json_is_wrong_use(call: Command, text: str) -> None:
    status, out, err = call(text)
    assert (status, out) == (2, "")
    assert "expected JSON" in err.splitlines()[-1]
    assert len(err) < 1000


# --- bench ----------------------------------------------------------------------------------------


def test_bench_prints_a_table() -> None:
    done = programs.command("bench", "--quick")
    assert (done.returncode, done.stderr) == (0, "")
    heads, *lines = done.stdout.splitlines()
    assert heads.split() == ["WHAT", "MEDIAN", "µs", "FROM", "TO", "PER", "SECOND"]
    assert [line.partition("  ")[0] for line in lines] == [
        "queue, round trip",
        "queue, round trip of 1 MB",
        "queue, 1 KB messages",
        "publish 1 MB, 1 subscriber",
        "publish 1 MB, 4 subscribers",
        "publish 1 MB, 16 subscribers",
        "call, round trip",
    ]
    for line in lines:
        middle, low, high = (float(cell) for cell in line.rpartition("  ")[0].split()[-3:])
        assert 0 < low <= middle <= high
    with contextlib.ExitStack() as stack:
        for session in inspect.open_sessions():
            stack.callback(session.close)
            assert not session.service.startswith("bench-") or not session.snapshot().clients
