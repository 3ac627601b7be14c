"""Queues that strangers open by name."""

from __future__ import annotations

import asyncio
import gc
import os
import queue
import select
from collections import Counter, OrderedDict, defaultdict
from typing import Any, NamedTuple

import numpy as np
import pytest
import service_programs as programs
import waiting

import shmtensor as T
from shmtensor import inspect
from shmtensor.service import Service

_OPEN = "import sys, shmtensor as T; from shmtensor.service import Service\n"
_TAKER = (
    _OPEN
    + """
q = Service(sys.argv[1]).Queue("jobs")
print("open", flush=True)
for _ in range(int(sys.argv[2])):
    print(repr(q.get()), flush=True)
"""
)


def _kinds(service: Service) -> dict[str, str]:
    return {name: entry.kind for name, entry in service.list().items()}


@pytest.mark.check
def test_strangers_exchange_messages(service: Service, run: type[programs.Program]) -> None:
    with service.Queue("jobs") as jobs:
        taker = run(_TAKER, service._name, "3")
        jobs.put({"a": [1, 2.5, "x", None, b"y"]})
        assert taker.line() == "open"
        assert taker.line() == "{'a': [1, 2.5, 'x', None, b'y']}"
        jobs.put(T.arange(3))
        assert taker.line() == "tensor([0, 1, 2])"
        jobs.put_many([7, 8])
        assert taker.line() == "7"
        taker.finish()
        assert jobs.get() == 8
        assert _kinds(service) == {"jobs": "queue"}


def test_it_lives_while_anybody_has_it_open(service: Service, run: type[programs.Program]) -> None:
    maker = run(
        _OPEN + "q = Service(sys.argv[1]).Queue('jobs'); q.put(T.ones(1000)); q.put('last')\n"
        "print('open', flush=True); sys.stdin.readline()",
        service._name,
    )
    assert maker.line() == "open"
    jobs = service.Queue("jobs")
    maker.kill()  # the messages and their tensors stay
    assert jobs.get().sum().item() == 1000
    taker = run(_TAKER, service._name, "1")
    assert taker.line() == "open"
    del jobs
    gc.collect()
    assert taker.line() == "'last'"
    taker.finish()
    waiting.until(lambda: _kinds(service) == {})


def test_persistent_queue_waits_for_its_taker(
    service: Service, run: type[programs.Program]
) -> None:
    maker = run(
        _OPEN + "Service(sys.argv[1]).Queue('jobs', persist=True).put(T.full((5,), 2.0))",
        service._name,
    )
    maker.finish()
    entry = service.info("jobs")
    assert entry.persists and entry.kind == "queue"
    taker = run(_TAKER, service._name, "1")
    assert taker.line() == "open"
    assert taker.line() == "tensor([2., 2., 2., 2., 2.])"
    taker.finish()
    service.unpublish("jobs")
    assert _kinds(service) == {}


def test_sender_keeps_its_tensor_and_may_end(service: Service, run: type[programs.Program]) -> None:
    jobs = service.Queue("jobs")
    own, shared = T.zeros(4), T.zeros(4).share_memory_()
    there = service.empty(4).zero_()
    jobs.put((own, own[1:], shared, there))
    own += 1
    shared += 1
    there += 1
    first, view, copied, same = jobs.get()
    assert first.sum() == 0 and copied.sum() == 0, "a message is a snapshot of private memory"
    assert same.sum() == 4, "what is in the service's memory goes as it is"
    view += 5
    assert first[1] == 5, "views of one storage share it at the receiver too"
    assert not own.is_shared()
    sender = run(
        _OPEN + "q = Service(sys.argv[1]).Queue('jobs')\n"
        "q.put([T.full((100_000,), float(i)) for i in range(3)])",
        service._name,
    )
    sender.finish()
    assert [t[0].item() for t in jobs.get()] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("kind", ["read-only", "numpy", "requires grad", "long", "empty", "conj"])
def test_payloads(service: Service, kind: str) -> None:
    jobs = service.Queue("jobs", adopt="numpy" if kind == "numpy" else None)
    values = {
        "numpy": np.arange(4.0),
        "requires grad": T.ones(2, requires_grad=True),
        "long": "x" * 200_000,
        "empty": T.empty(0, 3),
        "conj": T.tensor([1 + 2j]).conj(),
    }
    if kind == "read-only":
        service.publish("value", T.ones(3))
        values[kind] = service.attach("value", "ro")
    jobs.put(values[kind])
    got = jobs.get()
    if isinstance(got, T.Tensor):
        assert T.equal(got, values[kind]) and got.requires_grad == values[kind].requires_grad
        assert got.is_conj() == values[kind].is_conj()
    elif kind == "numpy":
        assert np.array_equal(got, values[kind])
    else:
        assert got == values[kind]


def test_bound_is_that_of_the_maker(service: Service) -> None:
    jobs = service.Queue("jobs", 2)
    same = service.Queue("jobs")
    jobs.put(1)
    same.put(2)
    with pytest.raises(queue.Full):
        same.put(3, timeout=0)
    assert same.full() and same.qsize() == 2
    assert service.Queue("jobs", 2).get() == 1
    with pytest.raises(ValueError, match="'jobs' takes 2 messages, not 3"):
        service.Queue("jobs", 3)


def test_names_are_of_one_kind(service: Service) -> None:
    jobs = service.Queue("jobs")
    service.publish("value", T.ones(1))
    with pytest.raises(ValueError, match="'value' is a value, not a queue"):
        service.Queue("value")
    with pytest.raises(ValueError, match=r"'jobs' is a queue; open it with Queue\('jobs'\)"):
        service.attach("jobs")
    with pytest.raises(ValueError, match='the name "jobs" is that of a queue'):
        service.publish("jobs", T.ones(1))
    with pytest.raises(ValueError, match="1 to 127 bytes"):
        service.Queue("x" * 128)
    with pytest.raises(TypeError, match="opened by its name"):
        jobs.__reduce_ex__(2)
    assert repr(jobs) == f"<Queue 'jobs' of {service!r}, 0 messages>"


def test_waits_work(service: Service, run: type[programs.Program]) -> None:
    jobs = service.Queue("jobs")
    assert not select.select([jobs.fileno()], [], [], 0)[0]
    giver = run(
        _OPEN + "q = Service(sys.argv[1]).Queue('jobs'); sys.stdin.readline(); q.put(1)\n"
        "sys.stdin.readline(); q.put(2)",
        service._name,
    )
    giver.say()
    assert select.select([jobs.fileno()], [], [], programs.WAIT_S)[0]
    assert jobs.get() == 1
    jobs.task_done()
    giver.say()
    assert asyncio.run(jobs.aget()) == 2
    with pytest.raises(queue.Empty):
        jobs.get(timeout=0.01)
    jobs.task_done()
    jobs.join()
    giver.finish()


def test_killed_taker_takes_no_lock_along(service: Service, run: type[programs.Program]) -> None:
    jobs = service.Queue("jobs")
    for i in range(5):
        taker = run(_TAKER, service._name, "1000")
        assert taker.line() == "open"
        jobs.put(i)
        taker.line()
        taker.kill()
    jobs.put("still open")
    assert jobs.get(timeout=programs.WAIT_S) == "still open"


def test_a_child_uses_its_parents_queue(service: Service) -> None:
    jobs = service.Queue("jobs")
    pid = os.fork()
    if pid == 0:
        try:
            jobs.put(T.ones(3))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert jobs.get(timeout=programs.WAIT_S).sum() == 3


def test_many_open_it_at_once(service: Service, run: type[programs.Program]) -> None:
    text = (
        _OPEN + "sys.stdin.readline(); q = Service(sys.argv[1]).Queue('race')\n"
        "q.put(1); print('put', flush=True); sys.stdin.readline()"
    )
    for _ in range(3):
        several = [run(text, service._name) for _ in range(4)]
        for program in several:
            program.say()
        for program in several:
            assert program.line() == "put"
        race = service.Queue("race")
        assert [race.get(timeout=programs.WAIT_S) for _ in several] == [1, 1, 1, 1]
        for program in several:
            program.say()
            program.finish()
        del race
        gc.collect()
        waiting.until(lambda: "race" not in service.list())


def test_memory_is_free_again(service: Service) -> None:
    before = service.status().granted_bytes
    for _ in range(20):
        jobs = service.Queue("jobs")
        jobs.put([T.ones(1000) for _ in range(10)])
        del jobs
        gc.collect()
        waiting.until(lambda: "jobs" not in service.list())
    assert service.status().granted_bytes <= before + (4 << 20)


def test_tools_show_the_kind(service: Service) -> None:
    jobs = service.Queue("jobs")
    jobs.put(1)
    [session] = inspect.open_sessions(service._name)
    published = session.published("jobs")
    assert published is not None and published.kind == "queue"
    shown = programs.command("ls", "-s", service._name).stdout
    assert "jobs" in shown and "queue" in shown


_OWNER = (
    _OPEN
    + """
import shmtensor.multiprocessing as mp
q = Service(sys.argv[1]).Queue("jobs")
print("open", flush=True)
print(q.get()[1].sum().item(), flush=True)
print(len(q.get()), flush=True)
try:
    q.put(int)
except TypeError as error:
    print(error, flush=True)
q.put("plain")
sys.stdin.readline()
# A member may write what it likes: a pickle that comes all the same is not read.
q._ring.put_packed(mp.get_context("spawn").Queue()._ring.pack(print), 0.0)
try:
    q.get()
except RuntimeError as error:
    print(type(error).__name__, error, flush=True)
"""
)
_MEMBER = """
import os, sys, shmtensor as T, shmtensor.nn, shmtensor.service
from shmtensor.service import Service
os.setgroups([54321]); os.setgid(65534); os.setuid(65534)
q = Service(sys.argv[1], owner=0).Queue("jobs")
q.put([1, T.ones(2)])
q.put("x" * 200_000)
try:
    q.put(print)
except TypeError as error:
    print(error, flush=True)
sys.stdin.readline()
print(q.get(), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_other_users_send_no_pickles(run: type[programs.Program]) -> None:
    with programs.serving("--group", "54321") as (name, _):
        owner = run(_OWNER, name)
        assert owner.line() == "open"
        member = run(_MEMBER, name)
        assert "this builtin_function_or_method would have to be pickled" in member.line()
        assert owner.line() == "2.0"
        assert owner.line() == "200000"
        assert "tensors, numbers, text" in owner.line()
        member.say()
        assert member.line() == "plain"
        owner.say()
        assert owner.line() == "HandleError a pickle in a queue between users"
        owner.finish()
        member.finish()


@pytest.mark.parametrize("as_", ["shmtensor", "numpy", "torch"])
def test_takers_say_what_they_want(service: Service, as_: str) -> None:
    library = pytest.importorskip(as_)
    kind = library.ndarray if as_ == "numpy" else library.Tensor
    jobs = service.Queue("jobs", as_=as_)
    mine = np.arange(6.0)[::2]

    class Producer:
        """Something of another library."""

        def __dlpack__(self, **_: object) -> object:
            return T.ones(3).__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    for value in (T.arange(3.0), mine, Producer()):
        jobs.put({"a": [value]})
    jobs.put_many([mine, mine])
    mine += 1
    asyncio.run(jobs.aput(T.zeros(2)))
    got = [jobs.get()["a"][0] for _ in range(3)]
    assert [v.tolist() for v in got] == [[0, 1, 2], [0, 2, 4], [1, 1, 1]]
    got += [jobs.get(ack=True).value, *jobs.get_many(1), asyncio.run(jobs.aget())]
    assert all(isinstance(v, kind) for v in got)
    with pytest.raises(TypeError, match="arrays of numbers"):
        jobs.put(np.array([{}], dtype=object))


def test_arrays_over_one_memory_arrive_over_one_memory(service: Service) -> None:
    arrays = service.Queue("arrays", as_="numpy")
    whole = np.arange(8.0)
    for sent in ([whole, whole[2:]], [whole[2:], whole], [whole[:4], whole[2:]], [whole, whole]):
        arrays.put(sent)
        first, second = arrays.get()
        assert np.shares_memory(first, second)
        assert [first.tolist(), second.tolist()] == [a.tolist() for a in sent]
    other = np.zeros(3)
    arrays.put({"a": whole, "b": other})
    got = arrays.get()
    assert not np.shares_memory(got["a"], got["b"])


@pytest.mark.parametrize(
    "array",
    [
        np.array(3.0),
        np.empty((0, 3)),
        np.arange(12).reshape(3, 4).T,
        np.arange(12)[::-1],
        np.arange(6, dtype=">i4"),
        np.array(["1999-12-31"], "datetime64[D]"),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.broadcast_to(np.float32(2), (2, 2)),
        np.frombuffer(b"abcd", np.uint8),
        np.frombuffer(bytearray(9), np.uint8)[1:].view(np.int32),
    ],
    ids=[
        "0-d",
        "empty",
        "transposed",
        "reversed",
        "swapped",
        "dates",
        "records",
        "broadcast",
        "read-only",
        "odd",
    ],
)
def test_arrays_of_every_kind_arrive_as_they_were(service: Service, array: Any) -> None:
    arrays = service.Queue("arrays", as_="numpy")
    for sent in (array, [array], {"a": array}):
        arrays.put(sent)
        got = arrays.get()
        got = got if isinstance(got, np.ndarray) else got[0 if isinstance(got, list) else "a"]
        assert got.dtype == array.dtype.newbyteorder("=")
        assert got.tolist() == array.tolist()


@pytest.mark.parametrize("as_", ["shmtensor", "numpy", "torch"])
def test_what_one_library_has_arrives_as_its_own(service: Service, as_: str) -> None:
    torch = pytest.importorskip("torch")
    jobs = service.Queue("jobs", as_=as_)
    news = service.Topic("news").subscribe(as_=as_)
    for sent in (np.array(["1999-12-31"], "M8[D]"), torch.ones(2).to(torch.float8_e5m2)):
        for value in (sent, [sent], {"a": (1, sent)}):
            jobs.put(value)
            service.Topic("news").publish(value)
            assert repr(jobs.get()) == repr(value) == repr(news.get())
        jobs.put(sent)
        with jobs.get(ack=True) as job:
            assert repr(job.value) == repr(sent)
        with service.Server("same", as_=as_) as server, service.Client("same", as_=as_) as client:
            reply = client.submit(sent)
            (request,) = server.take()
            assert repr(request.value) == repr(sent)
            request.reply(request.value)
            assert repr(reply.result(10)) == repr(sent)


class _Pair(NamedTuple):
    a: Any
    b: Any


class _Named(dict[str, Any]):
    pass


class _Listed(list[Any]):
    pass


@pytest.mark.parametrize("as_", ["shmtensor", "numpy", "torch"])
def test_collections_keep_their_classes(service: Service, as_: str) -> None:
    library = pytest.importorskip(as_)
    kind = library.ndarray if as_ == "numpy" else library.Tensor
    jobs = service.Queue("jobs", as_=as_)
    tensor = T.ones(2)
    sent: list[Any] = [
        _Pair(tensor, 1),
        _Named(a=tensor),
        _Listed([tensor]),
        OrderedDict(a=tensor),
        defaultdict(list, {"a": tensor}),
    ]
    for value in [*sent, sent]:
        jobs.put(value)
    got = [jobs.get() for _ in sent]
    for value, old in zip([*got, *jobs.get()], sent + sent, strict=True):
        assert type(value) is type(old) and len(value) == len(old)
        assert isinstance(value[0] if isinstance(value, (list, tuple)) else value["a"], kind)
    assert got[0].b == 1 and got[4]["missing"] == []
    jobs.put(Counter("aab"))
    assert jobs.get().most_common(1) == [("a", 2)]


@pytest.mark.parametrize("as_", ["numpy", "torch"])
def test_conjugates_are_numbers_to_other_libraries(service: Service, as_: str) -> None:
    pytest.importorskip(as_)
    jobs = service.Queue("jobs", as_=as_)
    number = T.tensor([1 + 2j])
    jobs.put([number.conj(), number.conj().imag])
    assert [value.tolist() for value in jobs.get()] == [[1 - 2j], [-2.0]]


def test_received_arrays_keep_their_memory(service: Service) -> None:
    arrays = service.Queue("arrays", as_="numpy")
    arrays.put(np.full(1000, 7.0))
    array = arrays.get()
    for _ in range(50):
        arrays.put(np.zeros(1000))
        arrays.get()
    assert array.sum() == 7000.0
