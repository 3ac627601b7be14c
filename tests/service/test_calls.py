"""Servers and clients that find each other by name.

Not covered: processes killed at each step (tests/shm/test_crash.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import service_programs as programs
import waiting

import shmtensor as T
from shmtensor.errors import HandleError, RemoteError, ServerLostError, WaitTimeoutError
from shmtensor.service import Client, Service, wait_any

_SERVER = """
import os, sys, time, shmtensor as T
from shmtensor.service import Service
class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("there is no text")
server = Service(sys.argv[1]).Server("double")
print("open", flush=True)
for request in server:
    with request:
        value = request.value
        if value == "die":
            os.kill(os.getpid(), 9)
        if value == "raise":
            raise ValueError("it is bad", 3)
        if value == "raise the unprintable":
            raise Unprintable
        if value == "sleep":
            print("asleep", flush=True)
            while request.is_wanted:
                time.sleep(0.01)
            print("unwanted", flush=True)
        if value == "who":
            request.reply(os.getpid())
        elif value != "nothing":
            request.reply(value * 2)
"""


@pytest.fixture
def server(service: Service, run: type[programs.Program]) -> programs.Program:
    program = run(_SERVER, service._name)
    assert program.line() == "open"
    return program


@pytest.mark.check
def test_a_stranger_answers(service: Service, server: programs.Program) -> None:
    with service.Client("double") as client:
        assert client.call(3) == 6
        assert client.call([1, "x"]) == [1, "x", 1, "x"]
        assert client.call(T.ones(100_000)).sum() == 200_000
        assert client.call("y" * 50_000) == "y" * 100_000
        assert {n: e.kind for n, e in service.list().items()} == {"double": "server"}
    with pytest.raises(ValueError, match="used after close"):
        client.call(1)


def test_errors_reach_the_caller(service: Service, server: programs.Program) -> None:
    client = service.Client("double")
    with pytest.raises(ValueError, match="it is bad") as caught:
        client.call("raise")
    assert caught.value.args == ("it is bad", 3)
    assert isinstance(caught.value.__cause__, RemoteError)
    assert 'raise ValueError("it is bad", 3)' in str(caught.value.__cause__) or "<string>" in str(
        caught.value.__cause__
    )
    with pytest.raises(RemoteError, match="has not answered"):
        client.call("nothing")
    thread = _answering(service, lambda request: request.fail(SystemExit(3)))
    with pytest.raises(RemoteError, match="SystemExit: 3"):
        service.Client("own").call(1)
    thread.join()
    assert client.call(1) == 2, "the server goes on"


def test_an_exception_without_a_text_reaches_the_caller(
    service: Service, server: programs.Program
) -> None:
    client = service.Client("double")
    with pytest.raises(RemoteError, match=r"Unprintable: <exception str\(\) failed>"):
        client.call("raise the unprintable", timeout=60)
    assert client.call(3, timeout=60) == 6


@pytest.mark.parametrize("how", ["call", "acall", "submit"])
def test_killed_server_is_told(
    service: Service, run: type[programs.Program], server: programs.Program, how: str
) -> None:
    client = service.Client("double")

    def ask(value: Any, **options: Any) -> Any:
        if how == "call":
            return client.call(value, **options)
        if how == "submit":
            return client.submit(value, **options).result(programs.WAIT_S)
        return asyncio.run(client.acall(value, **options))

    assert ask(1) == 2
    with pytest.raises(ServerLostError, match="'double' was killed"):
        ask("die")
    with pytest.raises(WaitTimeoutError, match=r"'double' within 0\.05 seconds"):
        ask(1, timeout=0.05)
    programs_left = [run(_SERVER, service._name) for _ in range(3)]
    for program in programs_left:
        assert program.line() == "open"
    with pytest.raises(ServerLostError):
        ask("die", retry=1)
    assert ask(1, retry=2) == 2, "one is left, and requests that nobody waits for are dropped"


def test_future_keeps_its_client(service: Service, server: programs.Program) -> None:
    futures = [service.Client("double").submit(T.full((3,), i)) for i in range(3)]
    gc.collect()
    assert [f.result(programs.WAIT_S).sum().item() for f in futures] == [0, 6, 12]


def test_requests_wait_for_a_server(service: Service, run: type[programs.Program]) -> None:
    client = service.Client("double")
    future = client.submit(21)
    late = threading.Thread(target=run, args=(_SERVER, service._name))
    late.start()
    assert future.result(programs.WAIT_S) == 42
    late.join()


def test_servers_share_the_requests(service: Service, run: type[programs.Program]) -> None:
    for _ in range(2):
        assert run(_SERVER, service._name).line() == "open"
    client = service.Client("double")
    pids = set()
    waiting.until(lambda: pids.add(client.call("who")) or len(pids) == 2)


def test_server_knows_who_still_waits(service: Service, server: programs.Program) -> None:
    client = service.Client("double")
    with pytest.raises(TimeoutError):
        client.call("sleep", timeout=0.1)
    assert server.line() == "asleep" and server.line() == "unwanted"
    future = client.submit("sleep")
    assert server.line() == "asleep"
    future.cancel()
    assert server.line() == "unwanted"
    assert client.call(1) == 2


def test_killed_client_is_known(
    service: Service, run: type[programs.Program], server: programs.Program
) -> None:
    text = "import sys; from shmtensor.service import Service\n"
    caller = run(text + "Service(sys.argv[1]).Client('double').call('sleep')", service._name)
    assert server.line() == "asleep"
    caller.kill()
    assert server.line() == "unwanted"
    assert service.Client("double").call(1) == 2


def _answering(service: Service, answer: Callable[[Any], None], n: int = 1) -> threading.Thread:
    server = service.Server("own")

    def work() -> None:
        for _ in range(n):
            for request in server.take(timeout=programs.WAIT_S):
                answer(request)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_batches(service: Service) -> None:
    server, client = service.Server("own"), service.Client("own")
    futures = [client.submit(i) for i in range(10)]
    waiting.until(lambda: server.qsize() == 10)
    assert [r.value for r in server.take(4)] == [0, 1, 2, 3]
    batch = server.take(100, wait=0.05)
    later = threading.Timer(0.02, lambda: futures.append(client.submit(10)))
    later.start()
    more = server.take(2, wait=0.2)
    assert [r.value for r in batch] == [4, 5, 6, 7, 8, 9] and [r.value for r in more] == [10]
    later.join()
    for request in batch + more:
        assert request.reply(request.value + 1)
    assert [f.result(programs.WAIT_S) for f in futures[4:]] == [5, 6, 7, 8, 9, 10, 11]
    for future in futures[:4]:  # the server let go of them
        with pytest.raises(ServerLostError):
            future.result(programs.WAIT_S)
    with pytest.raises(queue.Empty):
        server.take(timeout=0.01)
    with pytest.raises(ValueError, match="max_batch must be at least 1"):
        server.take(0)


def test_one_answer(service: Service) -> None:
    seen: list[str] = []

    def answer(request: Any) -> None:
        assert request.is_wanted and request.reply(1)
        assert not request.is_wanted
        for again in (lambda: request.reply(2), lambda: request.fail("x")):
            with pytest.raises(RuntimeError, match="answered before"):
                again()
        seen.append(repr(request))

    thread = _answering(service, answer)
    assert service.Client("own").call(0) == 1
    thread.join()
    assert seen == ["<Request to 'own', answered>"]


class _Slow:
    """Pickling it runs a function first."""

    def __init__(self, first: Callable[[], object]) -> None:
        self._first = first

    def __reduce__(self) -> Any:
        self._first()
        return int, (7,)


@pytest.mark.parametrize("answer", ["reply", "fail"])
def test_one_answer_while_another_is_pickled(service: Service, answer: str) -> None:
    """Whoever answers first has the request, also while its value is pickled."""
    server, client = service.Server("s"), service.Client("s")
    future = client.submit(1)
    request = server.take().pop()

    def answer_again() -> None:
        with pytest.raises(RuntimeError, match="a request was answered before"):
            getattr(request, answer)("late")

    assert request.reply(_Slow(answer_again))
    assert future.result(programs.WAIT_S) == 7


def test_request_is_open_after_an_answer_that_cannot_be_pickled(service: Service) -> None:
    server, client = service.Server("s"), service.Client("s")
    future = client.submit(1)
    request = server.take().pop()
    with pytest.raises(ZeroDivisionError):
        request.reply(_Slow(lambda: 1 / 0))
    assert request.is_wanted and request.reply(2) and future.result(programs.WAIT_S) == 2


def test_client_that_reads_no_replies_ends_no_server(service: Service) -> None:
    server, client = service.Server("s"), service.Client("s")
    reads = threading.Event()
    first = client.submit(0)
    first.add_done_callback(lambda _: reads.wait(programs.WAIT_S))  # replies wait meanwhile
    server.take().pop().reply(0)
    assert first.result(programs.WAIT_S) == 0
    futures = [client.submit(i) for i in range(200)]
    large = [service.empty(1) for _ in range(200)]
    n_errors = 0
    for request in server:  # until there is no room for errors either
        with request:
            try:
                request.reply(large)
            except BufferError:
                n_errors += 1
                raise
        if n_errors > 70 or server.qsize() == 0:
            break
    assert n_errors > 0
    reads.set()
    other = service.Client("s").submit(1)
    for request in server:
        with request:
            request.reply(1)
        if server.qsize() == 0:
            break
    assert other.result(programs.WAIT_S) == 1
    for future in futures:
        error = future.exception(programs.WAIT_S)
        assert error is None or isinstance(error, (BufferError, ServerLostError))


def test_bad_waits_take_no_request(service: Service) -> None:
    server, client = service.Server("s"), service.Client("s")
    future = client.submit(1)
    for wait, error in ((float("nan"), ValueError), (None, TypeError), ("1", TypeError)):
        with pytest.raises(error):
            server.take(2, wait=wait)  # type: ignore[arg-type]
    server.take().pop().reply(2)
    assert future.result(programs.WAIT_S) == 2


def test_late_answers_are_of_no_use(service: Service) -> None:
    server, client = service.Server("own"), service.Client("own")
    with pytest.raises(WaitTimeoutError):
        client.call("early", timeout=0.01)
    late: list[Any] = []

    def work() -> None:
        late.extend(server.take())
        waiting.until(lambda: not late[0].is_wanted)
        with server.take()[0] as request:
            assert not late[0].reply("late")
            request.reply("right")

    thread = threading.Thread(target=work)
    thread.start()
    with pytest.raises(WaitTimeoutError):
        client.call("two", timeout=0.2)
    assert [r.value for r in late] == ["two"], "what was given up in the queue is not taken"
    assert client.call("three") == "right"
    thread.join()


@pytest.mark.parametrize("as_", ["shmtensor", "numpy", "torch"])
def test_values_are_of_the_library_that_is_asked_for(service: Service, as_: str) -> None:
    library = pytest.importorskip(as_)
    kind = library.ndarray if as_ == "numpy" else library.Tensor
    server = service.Server("own", as_=as_, mode="rw")
    client = service.Client("own", as_=as_)
    memory = service.empty(3).zero_()
    future = client.submit([memory, np.ones(2)])
    [request] = server.take()
    assert all(isinstance(v, kind) for v in request.value)
    request.value[0][:] = 5
    request.reply(request.value[1])
    assert isinstance(future.result(programs.WAIT_S), kind)
    assert memory.sum() == 15, "what is in the service's memory goes as it is"


class _Unchangeable(list[Any]):
    """Takes nothing in the place of an item, and so no array in that of a tensor."""

    def __setitem__(self, *_: object) -> None:
        raise LookupError("it stays as it is")


def _unshown(client: Client) -> Callable[[], None]:
    """Send what cannot be shown as NumPy's; what is returned checks the answers."""
    futures = [
        client.submit(T.ones(2, dtype=T.bfloat16)),
        client.submit(_Unchangeable([T.ones(1)])),
    ]

    def check() -> None:
        for future, error in zip(futures, (TypeError, LookupError), strict=True):
            with pytest.raises(error):
                future.result(programs.WAIT_S)

    return check


async def _first(requests: Any) -> Any:
    async for request in requests:
        return request


@pytest.mark.check
@pytest.mark.parametrize(
    "take",
    [
        lambda server: server.take(timeout=programs.WAIT_S).pop(),
        lambda server: server.take(9, timeout=programs.WAIT_S).pop(),
        lambda server: asyncio.run(server.atake()).pop(),
        lambda server: next(iter(server)),
        lambda server: asyncio.run(_first(server)),
    ],
    ids=["take", "take many", "atake", "iterate", "iterate with await"],
)
def test_no_request_ends_a_server_that_cannot_show_it(
    service: Service, take: Callable[[Any], Any]
) -> None:
    with service.Server("own", as_="numpy") as server, service.Client("own") as client:
        check = _unshown(client)
        future = client.submit([T.ones(3)])
        request = take(server)
        assert isinstance(request.value[0], np.ndarray)
        assert request.reply(request.value * 2)
        assert len(future.result(programs.WAIT_S)) == 2
        check()


def test_requests_that_cannot_be_shown_are_none_that_came(service: Service) -> None:
    with service.Server("own", as_="numpy") as server, service.Client("own") as client:
        check = _unshown(client)
        with pytest.raises(queue.Empty):
            server.take(9, timeout=0.05)
        check()
        first = client.submit(1)
        check = _unshown(client)
        later = threading.Timer(0.05, lambda: client.submit(2))
        later.start()
        assert [request.value for request in server.take(2, wait=programs.WAIT_S)] == [1, 2]
        check()
        later.join()
        with pytest.raises(ServerLostError):
            first.result(programs.WAIT_S)


def test_bounded_servers_make_clients_wait(service: Service) -> None:
    server, client = service.Server("own", 2), service.Client("own")
    futures = [client.submit(i) for i in range(2)]
    with pytest.raises(WaitTimeoutError):
        client.call(3, timeout=0.02)
    with pytest.raises(WaitTimeoutError):
        client.submit(4, timeout=0.02)
    for request in server.take(5):
        request.reply(request.value)
    assert [f.result(programs.WAIT_S) for f in futures] == [0, 1]


def test_many_threads_and_tasks_call(service: Service, server: programs.Program) -> None:
    client = service.Client("double")
    results: list[int] = []

    def work(begin: int) -> None:
        results.extend(client.call(i) for i in range(begin, begin + 50))

    threads = [threading.Thread(target=work, args=(100 * i,)) for i in range(6)]
    for thread in threads:
        thread.start()

    async def all_of_them() -> list[int]:
        return await asyncio.gather(*(client.acall(i) for i in range(40)))

    assert asyncio.run(all_of_them()) == [2 * i for i in range(40)]
    for thread in threads:
        thread.join()
    assert sorted(results) == sorted(2 * (100 * i + j) for i in range(6) for j in range(50))
    futures = [client.submit(i) for i in range(2000)]
    assert [f.result(programs.WAIT_S) for f in futures] == [2 * i for i in range(2000)]


def test_waits_of_servers(service: Service) -> None:
    server, client = service.Server("own"), service.Client("own")
    assert not select.select([server.fileno()], [], [], 0)[0]
    assert wait_any([server], 0.01) == []
    future = client.submit(1)
    assert select.select([server.fileno()], [], [], programs.WAIT_S)[0]
    assert wait_any([server, service.Event("stop")], programs.WAIT_S) == [server]

    async def serve() -> None:
        async for request in server:
            request.reply(request.value + 1)
            return

    asyncio.run(serve())
    assert future.result(programs.WAIT_S) == 2
    seen: list[Any] = []
    reader = threading.Thread(target=lambda: seen.extend(server))
    reader.start()
    server.close()
    reader.join(programs.WAIT_S)
    assert not reader.is_alive() and seen == []
    with pytest.raises(ValueError, match="used after close"):
        server.take()


def test_values_that_cannot_be_sent(service: Service) -> None:
    server, client = service.Server("own"), service.Client("own")
    with pytest.raises(TypeError, match="pickle"):
        client.call(threading.Lock())
    future = client.submit(1)
    [request] = server.take()
    with pytest.raises(TypeError, match="pickle"):
        request.reply(threading.Lock())
    assert request.is_wanted

    class Own(Exception):
        """Cannot be pickled, since it is of this function."""

    request.fail(Own("of a function"))
    with pytest.raises(RemoteError, match="Own: of a function"):
        future.result(programs.WAIT_S)


def test_kinds_and_texts(service: Service) -> None:
    server, client = service.Server("own"), service.Client("own")
    assert repr(server) == f"<Server 'own' of {service!r}, 0 requests>"
    assert repr(client) == f"<Client of 'own' of {service!r}>"
    for thing in (server, client):
        with pytest.raises(TypeError, match="opened by its name"):
            thing.__reduce_ex__(2)
    with pytest.raises(ValueError, match="'own' is a server, not a queue"):
        service.Queue("own")
    service.Queue("jobs")
    with pytest.raises(ValueError, match="mode must be one of"):
        service.Server("own", mode="x")


def test_a_child_calls_and_serves(service: Service, server: programs.Program) -> None:
    client = service.Client("double")
    assert client.call(1) == 2 and client.submit(1).result(programs.WAIT_S) == 2
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            own = service.Server("own")
            os.write(writer, b"%d" % (client.call(5) + client.submit(3).result(programs.WAIT_S)))
            own.take()[0].reply("child")
        finally:
            os._exit(0)
    os.close(writer)
    assert os.read(reader, 9) == b"16"
    os.close(reader)
    assert client.call(2) == 4
    assert service.Client("own").call(0) == "child"
    os.waitpid(pid, 0)


def test_interrupted_calls(service: Service, server: programs.Program) -> None:
    client = service.Client("double")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(KeyboardInterrupt):
            client.call("sleep")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert server.line() == "asleep" and server.line() == "unwanted"
    assert client.call(1) == 2


def test_memory_is_free_again(service: Service, server: programs.Program) -> None:
    before = service.status().resident_bytes
    client = service.Client("double")
    for _ in range(30):
        client.call(T.ones(50_000))
        with contextlib.suppress(WaitTimeoutError):
            client.call(T.ones(50_000), timeout=1e-6)
    server.kill()
    del client
    gc.collect()
    waiting.until(lambda: service.list() == {})
    limit = before + (1 << 20)
    waiting.until(lambda: service.status().resident_bytes <= limit, service.status)


_OWNER = """
import sys, shmtensor as T
from shmtensor.service import Service
server = Service(sys.argv[1]).Server("own")
print("open", flush=True)
[request] = server.take()
request.reply(request.value * 2)
[request] = server.take()
with request:
    raise LookupError("not here")
"""
_MEMBER = """
import os, sys, shmtensor as T, shmtensor.nn, shmtensor.service
from shmtensor.service import Service
os.setgroups([54321]); os.setgid(65534); os.setuid(65534)
client = Service(sys.argv[1], owner=0).Client("own")
print(client.call(T.ones(3)).sum().item(), flush=True)
for value in (print, "raise"):
    try:
        client.call(value)
    except Exception as error:
        print(type(error).__name__, str(error).split("\\n")[0], flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_two_users_of_a_group(run: type[programs.Program]) -> None:
    with programs.serving("--group", "54321") as (name, _):
        owner = run(_OWNER, name)
        assert owner.line() == "open"
        member = run(_MEMBER, name)
        assert member.line() == "6.0"
        assert member.line().startswith("TypeError a queue between users")
        assert member.line() == "RemoteError 'own': LookupError: not here"
        member.finish()
        owner.finish()


def test_stopped_server_keeps_its_request(service: Service, server: programs.Program) -> None:
    client = service.Client("double")
    server.process.send_signal(signal.SIGSTOP)
    begin = time.monotonic()
    with pytest.raises(WaitTimeoutError):
        client.call(1, timeout=0.3)
    assert time.monotonic() - begin < programs.WAIT_S
    server.process.send_signal(signal.SIGCONT)
    assert client.call(2) == 4


# --- what is under way when something goes wrong ---


class _Line:
    """A line that fails as a test says."""

    def __init__(self, line: object, **failing: object) -> None:
        self._line, self._failing = line, failing

    def __getattr__(self, name: str) -> object:
        return self._failing.get(name) or getattr(self._line, name)


def test_calls_fail_when_their_replies_cannot_be_read(service: Service) -> None:
    client, server = service.Client("double"), service.Server("double")
    first = client.submit(1)
    assert client._submitted is not None
    line = client._submitted._line

    def damaged(*_: object) -> None:
        raise HandleError("the queue is damaged")

    client._submitted._line = _Line(line, wait=damaged)
    with pytest.raises(HandleError, match="damaged"):
        first.result(programs.WAIT_S)
    client._submitted._line = line
    second = client.submit(2)
    answered: list[int] = []
    while 2 not in answered:  # the first may have been withdrawn
        for request in server.take(2):
            answered.append(request.value)
            request.reply(5)
    assert second.result(programs.WAIT_S) == 5


def test_a_thread_that_cannot_start_fails_one_call(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, server = service.Client("double"), service.Server("double")

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        with pytest.raises(RuntimeError, match="can't start"):
            client.submit(1)
    future = client.submit(2)
    (request,) = server.take()
    assert request.value == 2 and request.reply(3)
    assert future.result(programs.WAIT_S) == 3


def test_lost_calls_are_sent_again_while_others_wait_for_room(
    service: Service, run: type[programs.Program]
) -> None:
    client = service.Client("double")
    taker = run(
        "import sys\nfrom shmtensor.service import Service\n"
        "server, taken = Service(sys.argv[1]).Server('double'), []\n"
        "while len(taken) < 504:\n    taken += server.take(100)\n"
        "print('taken', flush=True)\nsys.stdin.read()\n",
        service._name,
    )
    futures = [client.submit(i, retry=1) for i in range(504)]
    assert taker.line() == "taken"
    later: list[object] = []
    waiters = [
        threading.Thread(target=lambda: later.append(client.submit(1).result(programs.WAIT_S)))
        for _ in range(8)
    ]
    for waiter in waiters:
        waiter.start()
    taker.kill()
    server = service.Server("double")
    n = 0
    while n < 512:
        for request in server.take(64, timeout=programs.WAIT_S):
            request.reply(2 * request.value)
            n += 1
    assert [f.result(programs.WAIT_S) for f in futures] == [2 * i for i in range(504)]
    for waiter in waiters:
        waiter.join()
    assert later == [2] * 8


def test_lost_calls_wait_for_room_in_a_bounded_queue(
    service: Service, run: type[programs.Program]
) -> None:
    client = service.Client("double")
    taker = run(
        "import sys\nfrom shmtensor.service import Service\n"
        "server, taken = Service(sys.argv[1]).Server('double', 2), []\n"
        "while len(taken) < 6:\n    taken += server.take(2)\n"
        "print('taken', flush=True)\nsys.stdin.read()\n",
        service._name,
    )
    futures = [client.submit(i, retry=1) for i in range(6)]
    assert taker.line() == "taken"
    taker.kill()
    server = service.Server("double")
    for _ in range(6):
        (request,) = server.take(timeout=programs.WAIT_S)
        request.reply(request.value)
    assert [f.result(programs.WAIT_S) for f in futures] == list(range(6))


@pytest.mark.parametrize("first", [1, 505, 16_775_641])
def test_a_request_that_is_not_put_in_time_leaves_later_calls_alone(
    service: Service, first: int
) -> None:
    """Calls whose numbers are the same modulo 504 have one word in turn; numbers come round."""
    server = service.Server("bounded", maxsize=1)
    client = service.Client("bounded")
    line, packed = T._C._new_line(client._ring, 504), client._ring.pack("later")
    later = first + 504 if first < 10_000 else 1
    assert first % 504 == later % 504
    line.begin(client._ring, packed, later, 0.0)
    for _ in range(2):
        with pytest.raises(queue.Full):
            line.begin(client._ring, packed, first, 0.0)
    with server.take(wait=10.0)[0] as request:
        assert request.value == "later"
        request.reply("good")
    assert line.wait(later, 10.0, 0) == (later, False, "good")
