"""Topics that strangers open by name.

Not covered: processes killed at each step (tests/shm/test_crash.py).
"""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import queue
import select
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
import service_programs as programs
import waiting

import shmtensor as T
from shmtensor.service import Service

_OPEN = "import sys, shmtensor as T; from shmtensor.service import Service\n"
_VIEWER = (
    _OPEN
    + """
with Service(sys.argv[1]).Topic("frames").subscribe() as frames:
    print("open", flush=True)
    for _ in range(int(sys.argv[2])):
        print(repr(frames.get()), flush=True)
    print("lost", frames.lost, flush=True)
"""
)


def _drain(subscription: object) -> list[object]:
    found: list[object] = []
    while True:
        try:
            found.append(subscription.get(0))  # type: ignore[attr-defined]
        except queue.Empty:
            return found


@pytest.mark.check
def test_every_stranger_gets_every_message(service: Service, run: type[programs.Program]) -> None:
    frames = service.Topic("frames")
    viewers = [run(_VIEWER, service._name, "3") for _ in range(3)]
    for viewer in viewers:
        assert viewer.line() == "open"
    assert frames.n_subscribers == 3
    for value in (T.arange(3), {"a": [1, None, "x"]}, np.full(2, 7, np.int16)):
        frames.publish(value)
    for viewer in viewers:
        assert viewer.line() == "tensor([0, 1, 2])"
        assert viewer.line() == "{'a': [1, None, 'x']}"
        assert viewer.line() == "tensor([7, 7], dtype=torch.int16)"
        assert viewer.line() == "lost 0"
        viewer.finish()
    waiting.until(lambda: frames.n_subscribers == 0)
    assert {name: e.kind for name, e in service.list().items()} == {"frames": "topic"}
    assert frames.n_published == 3


def test_payload_is_in_memory_once(service: Service) -> None:
    frames = service.Topic("frames")
    subscriptions = [frames.subscribe() for _ in range(20)]
    before = service.status().resident_bytes
    with frames.loan(1 << 20, dtype="uint8", as_="numpy") as frame:
        frame[:] = 3
    assert service.status().resident_bytes <= before + (3 << 20)
    got = [s.get(0) for s in subscriptions]
    assert len({t.data_ptr() for t in got}) == 1 and int(got[0].sum()) == 3 << 20


@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest"])
def test_slow_subscribers_lose(service: Service, overflow: str) -> None:
    frames = service.Topic("frames", depth=3, overflow=overflow)
    slow, fast = frames.subscribe(), frames.subscribe()
    seen = []
    for i in range(10):
        frames.publish(T.full((100,), i))
        seen.append(int(fast.get(0)[0]))
    assert seen == list(range(10)) and fast.lost == 0
    kept = [0, 1, 2] if overflow == "drop_newest" else [7, 8, 9]
    assert [int(t[0]) for t in _drain(slow)] == kept  # type: ignore[index]
    assert slow.lost == 7


def test_publisher_waits_for_room(service: Service) -> None:
    frames = service.Topic("frames", depth=2, overflow="block")
    slow, fast = frames.subscribe(), frames.subscribe()
    frames.publish(1)
    frames.publish(2)
    with pytest.raises(queue.Full):
        frames.publish(3, timeout=0.02)
    assert _drain(fast) == [1, 2], "nobody has got what did not reach everybody"
    later = threading.Timer(0.05, slow.get)
    later.start()
    frames.publish(3, timeout=programs.WAIT_S)
    later.join()
    assert _drain(slow) == [2, 3] and _drain(fast) == [3]
    assert slow.lost == fast.lost == 0


@pytest.mark.parametrize("end", ["kill", "stop", "close"])
def test_blocked_publisher_goes_on_without_the_dead(
    service: Service, run: type[programs.Program], end: str
) -> None:
    frames = service.Topic("frames", depth=1, overflow="block")
    viewer = run(
        _OPEN + "s = Service(sys.argv[1]).Topic('frames').subscribe(); print('open', flush=True)\n"
        "sys.stdin.readline(); s.close(); print('closed', flush=True); sys.stdin.readline()",
        service._name,
    )
    assert viewer.line() == "open"
    frames.publish(1)
    if end == "stop":
        viewer.process.send_signal(signal.SIGSTOP)
        with pytest.raises(queue.Full):
            frames.publish(2, timeout=0.1)
        viewer.process.send_signal(signal.SIGCONT)
    if end == "close":
        viewer.say()
        assert viewer.line() == "closed"
    else:
        viewer.kill()
    frames.publish(2, timeout=programs.WAIT_S)
    assert frames.n_subscribers == 0


def test_late_subscribers_get_the_history(service: Service) -> None:
    frames = service.Topic("frames", history=3, depth=8)
    with pytest.raises(queue.Empty):
        frames.latest()
    for i in range(5):
        frames.publish(T.full((10,), i))
    late = frames.subscribe()
    frames.publish(5)
    assert [int(t[0]) for t in [late.get(0) for _ in range(3)]] == [2, 3, 4]
    assert late.get(0) == 5 and late.lost == 0
    assert frames.latest() == 5
    short = service.Topic("short", history=5, depth=2)
    for i in range(5):
        short.publish(i)
    with short.subscribe() as two:
        assert _drain(two) == [3, 4] and two.lost == 0
    with pytest.raises(ValueError, match="keeps no history"):
        service.Topic("none").latest()


# --- what comes from another machine ---


@pytest.mark.check
@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest", "block"])
def test_what_was_forwarded_is_for_all_but_those_who_forward(
    service: Service, overflow: str
) -> None:
    frames = service.Topic("frames", history=4, depth=2, overflow=overflow)
    with frames.subscribe() as messages, frames._subscribe_to_local() as carrier:
        frames.publish(1)
        frames._publish_forwarded(2, 0)
        assert _drain(messages) == [1, 2]
        frames.publish(3)
        frames._publish_forwarded(4, 0)  # the carrier has no room, and need not have any
        assert _drain(messages) == [3, 4]
        assert _drain(carrier) == [1, 3]
        assert (messages.lost, carrier.lost) == (0, 0)
    with frames.subscribe() as messages, frames._subscribe_to_local() as carrier:
        assert _drain(messages) == [3, 4]  # of the history, as many as have room
        assert _drain(carrier) == [1, 3]


def test_persistent_history_outlives_its_writer(
    service: Service, run: type[programs.Program]
) -> None:
    text = "t = Service(sys.argv[1]).Topic('frames', history=1, persist=True); t.publish(T.ones(4))"
    run(_OPEN + text, service._name).finish()
    assert service.Topic("frames").latest().sum() == 4
    service.unpublish("frames")
    assert service.list() == {}


def test_it_lives_while_anybody_has_it_open(service: Service) -> None:
    frames = service.Topic("frames")
    subscription = frames.subscribe()
    other = service.Topic("other")
    del frames, other
    gc.collect()
    waiting.until(lambda: "other" not in service.list())
    assert "frames" in service.list(), "a subscription keeps it"
    del subscription
    gc.collect()
    waiting.until(lambda: service.list() == {})


@pytest.mark.parametrize("as_", ["shmtensor", "numpy", "torch"])
def test_receivers_say_what_they_want(service: Service, as_: str) -> None:
    library = pytest.importorskip(as_)
    frames = service.Topic("frames", history=1)
    subscription = frames.subscribe(as_=as_)
    frames.publish([T.ones(2), np.zeros(3, np.float32), 1])
    frames.publish(np.arange(4)[::2])
    for value in (subscription.get(0), frames.latest(as_=as_)):
        first = value[0] if isinstance(value, list) else value
        kind = library.ndarray if as_ == "numpy" else library.Tensor
        assert isinstance(first, kind)
    assert [int(i) for i in subscription.get(0)] == [0, 2]


def test_what_arrives_is_read_only_unless_asked(service: Service) -> None:
    frames = service.Topic("frames")
    reader, writer, private = (frames.subscribe(mode=mode) for mode in ("ro", "rw", "cow"))
    frames.publish(T.zeros(5000))
    seen, shared, own = reader.get(0), writer.get(0), private.get(0)
    with pytest.raises(RuntimeError, match="read-only"):
        seen.add_(1)
    own += 5
    assert seen.sum() == 0
    shared += 1
    assert seen.sum() == 5000 and own.sum() == 25_000
    with pytest.raises(ValueError, match="mode must be one of"):
        frames.subscribe(mode="w")


def test_sender_keeps_its_tensor(service: Service) -> None:
    frames = service.Topic("frames")
    subscription = frames.subscribe()
    mine, array = T.zeros(3), np.zeros(3)
    frames.publish([mine, array])
    mine += 1
    array += 1
    assert [t.sum() for t in subscription.get(0)] == [0, 0]
    assert not mine.is_shared()


def test_loans(service: Service) -> None:
    frames, other = service.Topic("frames"), service.Topic("other")
    subscription = frames.subscribe()
    loan = frames.loan((2, 3), dtype=T.int32)
    loan.value.fill_(4)
    with pytest.raises(ValueError, match="a loan of <Topic 'frames'"):
        other.publish(loan)
    loan.publish()
    with pytest.raises(RuntimeError, match="was published before"):
        loan.publish()
    assert subscription.get(0).tolist() == [[4] * 3] * 2
    with pytest.raises(RuntimeError, match="xyz"), frames.loan(1):
        raise RuntimeError("xyz")
    assert _drain(subscription) == []
    late = frames.loan(1)
    frames.close()
    with pytest.raises(ValueError, match="used after close"):
        late.publish()
    with pytest.raises(ValueError, match="used after close"):
        frames.publish(1)


def test_topics_of_one_name_are_one(service: Service) -> None:
    frames = service.Topic("frames", history=2, depth=5, overflow="block")
    same = service.Topic("frames")
    assert (same.history, same.depth, same.overflow) == (2, 5, "block")
    for what, value in (("history", 3), ("depth", 4), ("overflow", "drop_oldest")):
        with pytest.raises(ValueError, match=f"'frames' has {what}="):
            service.Topic("frames", **{what: value})
    for what, value in (("history", -1), ("depth", 0), ("depth", 70_000), ("overflow", "drop")):
        with pytest.raises(ValueError, match=f"{what} must be"):
            service.Topic("fresh", **{what: value})
    with pytest.raises(ValueError, match="'frames' is a topic, not a queue"):
        service.Queue("frames")
    service.Queue("jobs")
    del same
    assert repr(frames) == f"<Topic 'frames' of {service!r}>"


def test_names_of_other_kinds(service: Service) -> None:
    service.publish("value", T.ones(1))
    with pytest.raises(ValueError, match="'value' is a value, not a topic"):
        service.Topic("value")
    frames = service.Topic("frames")
    with pytest.raises(ValueError, match=r"'frames' is a topic; open it with Topic\('frames'\)"):
        service.attach("frames")
    with pytest.raises(TypeError, match="opened by its name"):
        frames.__reduce_ex__(2)
    with pytest.raises(TypeError, match="of one process"):
        frames.subscribe().__reduce_ex__(2)


def test_waits(service: Service) -> None:
    frames = service.Topic("frames", depth=300)
    subscription = frames.subscribe()
    assert not select.select([subscription.fileno()], [], [], 0)[0]
    with pytest.raises(queue.Empty):
        subscription.get(0.01)
    later = threading.Timer(0.05, frames.publish, [1])
    later.start()
    assert select.select([subscription.fileno()], [], [], programs.WAIT_S)[0]
    assert subscription.get() == 1
    for i in range(200):
        frames.publish(i)
    assert subscription.get_many(3) == [0, 1, 2]
    assert subscription.latest() == 199
    later.join()

    async def take() -> list[int]:
        taken = []
        asyncio.get_running_loop().call_later(0.05, lambda: [frames.publish(i) for i in (1, 2)])
        async for value in subscription:
            taken.append(value)
            if len(taken) == 2:
                return taken
        return []

    assert asyncio.run(take()) == [1, 2]


def test_async_publishers_let_others_run_while_there_is_no_room(service: Service) -> None:
    frames = service.Topic("frames", depth=1, overflow="block")
    subscription = frames.subscribe(as_="numpy")

    async def run() -> list[Any]:
        await frames.apublish(1)
        with pytest.raises(queue.Full):
            await frames.apublish(2, timeout=0)
        with pytest.raises(queue.Full):
            await frames.apublish(2, timeout=0.02)
        given_up = asyncio.ensure_future(frames.apublish(2))
        await asyncio.sleep(0.02)
        assert not given_up.done(), "it waits, and this task runs"
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        late = frames.loan(3, dtype="uint8", as_="numpy")
        with pytest.raises(queue.Full):
            await late.apublish(timeout=0.01)
        assert "not published yet" in repr(late)
        several = asyncio.gather(*(frames.apublish(i) for i in (3, 4)), fill())
        taken = [await subscription.aget() for _ in range(4)]
        await several
        return taken

    async def fill() -> None:
        loan = frames.loan(3, dtype="uint8", as_="numpy")
        async with loan as frame:
            frame[:] = 7
        with pytest.raises(RuntimeError, match="published before"):
            await loan.apublish()

    taken = asyncio.run(run())
    assert taken[0] == 1
    assert sorted(v for v in taken[1:] if isinstance(v, int)) == [3, 4]
    assert [v.tolist() for v in taken if not isinstance(v, int)] == [[7, 7, 7]]
    assert frames.n_published == 4
    frames.close()
    with pytest.raises(ValueError, match="used after close"):
        asyncio.run(frames.apublish(1))


def test_async_publisher_forgets_a_killed_subscriber(
    service: Service, run: type[programs.Program]
) -> None:
    frames = service.Topic("frames", depth=1, overflow="block")
    program = run(
        "import sys; from shmtensor.service import Service; "
        "s = Service(sys.argv[1]).Topic('frames').subscribe(); "
        "print('ready', flush=True); sys.stdin.read()",
        service._name,
    )
    assert program.line() == "ready"

    async def publish() -> None:
        await frames.apublish(1)
        waits = asyncio.ensure_future(frames.apublish(2))
        await asyncio.sleep(0.02)
        assert not waits.done()
        program.kill()
        await asyncio.wait_for(waits, programs.WAIT_S)

    asyncio.run(publish())
    assert frames.n_published == 2


def test_closing_ends_a_wait_of_another_thread(service: Service) -> None:
    frames = service.Topic("frames")
    subscription = frames.subscribe()
    seen: list[object] = []
    reader = threading.Thread(target=lambda: seen.extend(subscription))
    reader.start()
    frames.publish(1)
    waiting.until(lambda: seen == [1])
    subscription.close()
    reader.join(programs.WAIT_S)
    assert not reader.is_alive() and frames.n_subscribers == 0
    with pytest.raises(ValueError, match="used after close"):
        subscription.get(0)


def test_many_values_and_sizes(service: Service) -> None:
    frames = service.Topic("frames", depth=4)
    subscription = frames.subscribe()
    for value in (
        "x" * 100_000,
        [T.ones(1)] * 1500,
        {i: T.ones(2) for i in range(700)},
        b"y" * 900,
    ):
        for _ in range(6):
            frames.publish(value)
        got = subscription.get(0)
        assert len(got) == len(value) and type(got) is type(value)
        assert 3 <= len(_drain(subscription)) + 1 <= 4


def test_killed_subscriber_costs_nothing(service: Service, run: type[programs.Program]) -> None:
    before = service.status().resident_bytes
    frames = service.Topic("frames", depth=50)
    own = frames.subscribe()
    for _ in range(3):
        viewer = run(_VIEWER, service._name, "1")
        assert viewer.line() == "open"
        frames.publish(T.ones(100_000))
        viewer.line()
        for _ in range(20):
            frames.publish(T.ones(100_000))
        viewer.kill()
        assert len(_drain(own)) == 21
    waiting.until(lambda: service.status().resident_bytes <= before + (4 << 20), service.status)
    frames.publish(1)
    assert frames.n_subscribers == 1 and own.get(0) == 1


def test_stopped_subscriber_costs_nothing(service: Service, run: type[programs.Program]) -> None:
    frames = service.Topic("frames", depth=4)
    own = frames.subscribe()
    viewer = run(_VIEWER, service._name, "4")
    assert viewer.line() == "open"
    viewer.process.send_signal(signal.SIGSTOP)
    for i in range(100):
        frames.publish(i)
        assert own.get(0) == i
    viewer.process.send_signal(signal.SIGCONT)
    assert [viewer.line() for _ in range(4)] == ["96", "97", "98", "99"]
    assert viewer.line() == "lost 96"
    viewer.finish()


def test_several_writers_have_one_order(service: Service, run: type[programs.Program]) -> None:
    n = 300
    frames = service.Topic("frames", depth=1000)
    first, second = frames.subscribe(), frames.subscribe()
    writers = [
        run(
            _OPEN + "t = Service(sys.argv[1]).Topic('frames')\n"
            f"for i in range({n}): t.publish((sys.argv[2], i))",
            service._name,
            letter,
        )
        for letter in "ab"
    ]
    for writer in writers:
        writer.finish()
    seen = _drain(first)
    assert seen == _drain(second) and len(seen) == 2 * n
    for letter in "ab":
        assert [i for who, i in seen if who == letter] == list(range(n))  # type: ignore[misc]


def test_a_child_publishes_and_subscribes(service: Service) -> None:
    frames = service.Topic("frames")
    own = frames.subscribe()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with frames.subscribe() as mine:
                os.write(writer, b"x")
                frames.publish(mine.get(programs.WAIT_S) + 1)
        finally:
            os._exit(0)
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)
    frames.publish(1)
    os.waitpid(pid, 0)
    assert _drain(own) == [1, 2]


def test_a_child_that_ends_leaves_its_parents_subscription(
    service: Service, run: type[programs.Program]
) -> None:
    frames = service.Topic("frames")
    parent = run(
        _OPEN + "import os\n"
        "own = Service(sys.argv[1]).Topic('frames').subscribe()\n"
        "pid = os.fork()\n"
        "if pid == 0: own.close(); sys.exit()\n"
        "os.waitpid(pid, 0); print('open', flush=True); print(own.get(), flush=True)",
        service._name,
    )
    assert parent.line() == "open"
    frames.publish("still there")
    assert parent.line() == "still there"
    parent.finish()


def test_all_places_taken(service: Service) -> None:
    frames = service.Topic("frames", depth=1)
    many = [frames.subscribe() for _ in range(1020)]
    with pytest.raises(RuntimeError, match="all 1020 subscribers"):
        frames.subscribe()
    frames.publish(T.ones(3))
    assert all(s.get(0).sum() == 3 for s in many)
    many.pop().close()
    many.append(frames.subscribe())


def test_memory_is_free_again(service: Service) -> None:
    before = service.status().resident_bytes
    frames = service.Topic("frames", history=10, depth=10)
    subscriptions = [frames.subscribe() for _ in range(10)]
    for _ in range(100):
        frames.publish(T.ones(50_000))
    del frames, subscriptions
    gc.collect()
    limit = before + (1 << 20)
    waiting.until(lambda: service.status().resident_bytes <= limit, service.status)


def test_damaged_topics(service: Service) -> None:
    frames = service.Topic("frames", history=2)
    own = frames.subscribe()
    table = service._handle.snapshot("frames", "rw").storages[1]
    memory = T.empty(0, dtype=T.uint8).set_(T.UntypedStorage._own(table))
    saved = memory.clone()
    memory[24:1024] = 255  # counters and slots
    frames.publish(1)
    memory.fill_(255)
    frames.publish(2)
    with pytest.raises(RuntimeError, match="is not a topic"):
        service.Topic("frames")
    memory.copy_(saved)
    frames.publish(3)
    assert 3 in _drain(own)
    ring = T.UntypedStorage._own(service._handle.snapshot("frames", "rw").storages[0])
    log = T.empty(0, dtype=T.uint8).set_(ring)
    log[320:] = 77  # which names the ring of the history
    stranger = service.Topic("frames")
    with pytest.raises(queue.Empty):
        stranger.latest()
    assert frames.latest() == 3
    for i in range(5):
        stranger.publish(i)
    assert stranger.latest() == 4


_DAMAGER = """
import mmap, os, queue, re, struct, sys
from shmtensor.service import Service
frames = Service(sys.argv[1]).Topic("frames", history=2)
for i in range(5):
    frames.publish(i)
links = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
path = next(p for p in links if os.path.islink(p) and "shmtensor-arena" in os.readlink(p))
magic, bound = struct.pack("Q", 0x31474E4952544D53), struct.pack("I", 3)
with open(path, "r+b") as file:
    memory = mmap.mmap(file.fileno(), 1 << 26)
ring = re.search(re.escape(magic) + b"(?s:.{8})" + re.escape(bound), memory)
memory[ring.start() + 320 : ring.start() + 1000] = b"M" * 680
try:
    frames.latest()
except RuntimeError as e:
    print(e)
with frames.subscribe() as own:
    assert own.qsize() == 0
for i in range(5):
    frames.publish(i)
print(frames.latest(), [frames.subscribe().get_many(9)])
"""


def test_damaged_history(run: type[programs.Program]) -> None:
    with programs.serving() as (name, _):
        first, second = run(_DAMAGER, name).finish().splitlines()
    assert "damaged" in first and second == "4 [[3, 4]]"


_OWNER = (
    _OPEN
    + """
frames = Service(sys.argv[1]).Topic("frames")
own = frames.subscribe()
print("open", flush=True)
sys.stdin.readline()
frames.publish(T.ones(3))
own.get()
tensor, text = own.get()
print(tensor.sum().item(), text, flush=True)
"""
)
_MEMBER = """
import os, sys, shmtensor as T, shmtensor.nn, shmtensor.service
from shmtensor.service import Service
os.setgroups([54321]); os.setgid(65534); os.setuid(65534)
t = Service(sys.argv[1], owner=0).Topic("frames")
s = t.subscribe()
print("open", flush=True)
print(s.get().sum().item(), flush=True)
try:
    t.publish(print)
except TypeError as error:
    print(error, flush=True)
t.publish([T.ones(5), "x"])
sys.stdin.readline()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_two_users_of_a_group(run: type[programs.Program]) -> None:
    with programs.serving("--group", "54321") as (name, _):
        owner = run(_OWNER, name)
        assert owner.line() == "open"
        member = run(_MEMBER, name)
        assert member.line() == "open"
        owner.say()
        assert member.line() == "3.0"
        assert "would have to be pickled" in member.line()
        assert owner.line() == "5.0 x"
        member.say()
        member.finish()
        owner.finish()


def test_interrupted_publisher_and_reader(service: Service) -> None:
    frames = service.Topic("frames", depth=1, overflow="block")
    subscription = frames.subscribe()
    frames.publish(1)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for wait in (
            lambda: frames.publish(2),
            lambda: _drain(subscription) and subscription.get(),
        ):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            begin = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                wait()
            assert time.monotonic() - begin < programs.WAIT_S
    finally:
        signal.signal(signal.SIGALRM, before)
    frames.publish(3)
    assert subscription.get(0) == 3


def test_a_loan_is_not_copied(service: Service) -> None:
    loan = service.Topic("frames").loan(3)
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a Loan is published once"):
            make(loan)
