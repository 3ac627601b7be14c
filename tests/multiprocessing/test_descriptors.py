"""Descriptors of storages that are files of their own: few are kept, however many are sent.

Not covered: files after the manager was killed (tests/shm/test_members), descriptors under the
other strategy (tests/stress/test_limits).
"""

from __future__ import annotations

from typing import Any

import pytest

_PREPARE = """
import os, resource, signal, sys, threading, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing
from waiting import let_the_manager_look, until

context = mp.get_context("fork")
mp.set_sharing_strategy("file_descriptor")
FEW = 70

class Pipe:
    def __init__(self):
        self.reader, self.writer = context.Pipe(False)
        self.get, self.put = self.reader.recv, self.writer.send

def make(kind):
    return Pipe() if kind == "Pipe" else getattr(context, kind)()

def files(pid="self"):
    n = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            n += "shmtensor-storage" in os.readlink(f"/proc/{pid}/fd/{fd}")
        except FileNotFoundError:
            pass
    return n

def child(work):
    process = context.Process(target=work, daemon=True)  # it ends when this program fails
    process.start()
    return process

def end(process):
    process.join()
    assert process.exitcode == 0

st.zeros(1).share_memory_()
manager = sharing.status()["manager_pid"]
"""

_LIMIT_FIRST = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))\n"

_RESTING = """
queue, back = make(sys.argv[1]), context.SimpleQueue()

def receive():
    for i in range(200):
        assert queue.get()[0] == i
    back.put("received")
    back_again.get()

back_again = context.SimpleQueue()
process = child(receive)
kept = []
for i in range(200):
    tensor = st.full((10,), float(i))
    queue.put(tensor)
    if sys.argv[2] == "keeps":
        kept.append(tensor)
    del tensor
assert back.get() == "received"
# From here on this process sends and receives nothing.
until(lambda: files() <= FEW and files(process.pid) <= FEW)
if sys.argv[2] == "drops":
    until(lambda: files() == 0 and files(manager) == 0)
assert all(t[0] == i for i, t in enumerate(kept))
back_again.put("end")
end(process)
"""


@pytest.mark.check
@pytest.mark.parametrize("kind", ["SimpleQueue", "Queue", "Pipe"])
@pytest.mark.parametrize("sender", ["keeps", "drops"])
def test_sender_that_rests_keeps_few_files(scripts: Any, kind: str, sender: str) -> None:
    scripts(_PREPARE + _RESTING, kind, sender).finish()


_UNREAD = """
queue = make(sys.argv[1])
kept = [st.full((10,), float(i)) for i in range(100)]
for tensor in kept:
    queue.put(tensor)
let_the_manager_look()
assert files() >= 100  # were the manager killed now, they would still arrive
os.kill(manager, signal.SIGKILL)
for i in range(100):
    assert queue.get()[0] == i
until(lambda: files() <= FEW)
"""


@pytest.mark.parametrize("kind", ["SimpleQueue", "Pipe"])
def test_files_are_kept_while_nobody_has_opened_them(scripts: Any, kind: str) -> None:
    scripts(_PREPARE + _UNREAD, kind).finish()


_IDLE = """
idle = [st.full((10,), float(i)).share_memory_() for i in range(100)]
queue = context.SimpleQueue()
for i in range(20):
    queue.put(st.full((10,), float(i)))
os.kill(manager, signal.SIGKILL)
for i in range(20):
    assert queue.get()[0] == i
"""


def test_files_in_messages_come_before_idle_ones(scripts: Any) -> None:
    scripts(_LIMIT_FIRST + _PREPARE + _IDLE).finish()


_MANY = """
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
queue, back = make(sys.argv[1]), context.SimpleQueue()
n = 10_000

def receive():
    for i in range(n):
        tensor = queue.get()
        assert tensor[0] == i and tensor[9] == i
        if i % 1000 == 0:
            assert files() <= 80, files()
    back.put("received")

process = child(receive)
for i in range(n):
    queue.put(st.full((10,), float(i)))
    if i % 1000 == 0:
        assert files() <= 80 and files(manager) <= 200, (files(), files(manager))
end(process)  # which shows what it failed with
assert back.get() == "received"
until(lambda: files() == 0 and files(manager) == 0)
"""


@pytest.mark.parametrize("kind", ["SimpleQueue", "Queue", "Pipe"])
def test_ten_thousand_sends_with_few_descriptors(scripts: Any, kind: str) -> None:
    scripts(_LIMIT_FIRST + _PREPARE + _MANY, kind).finish(timeout=300)


_LIVE = """
n = int(sys.argv[1])
kept = [st.full((10,), float(i)).share_memory_() for i in range(n)]
queue, back = context.SimpleQueue(), context.SimpleQueue()

def receive():
    received = [queue.get() for _ in range(n)]
    back.put(sum(float(t[0]) for t in received))

process = child(receive)
for tensor in kept:
    queue.put(tensor)
assert back.get() == sum(range(n))
end(process)
until(lambda: files() <= FEW)
"""


@pytest.mark.check
@pytest.mark.parametrize(("limit", "n"), [("256", "600"), ("64", "2000")])
def test_more_live_tensors_than_descriptors(scripts: Any, limit: str, n: str) -> None:
    scripts(_LIMIT_FIRST.replace("256", limit) + _PREPARE + _LIVE, n).finish()


_RECEIVER_KILLED = """
queue = make(sys.argv[1])
process = child(lambda: time.sleep(1000))
for i in range(100):
    queue.put(st.full((10,), float(i)))
os.kill(process.pid, signal.SIGKILL)
process.join()
for i in range(100):  # another reads them
    assert queue.get()[0] == i
until(lambda: files() <= FEW and files(manager) <= FEW)
for i in range(100):
    queue.put(st.full((10,), float(i)))
del queue
sharing.collect()
until(lambda: files() == 0 and files(manager) == 0)
"""


@pytest.mark.parametrize("kind", ["SimpleQueue", "Pipe"])
def test_receiver_killed_before_it_opens(scripts: Any, kind: str) -> None:
    scripts(_PREPARE + _RECEIVER_KILLED, kind).finish()


_SENDER_GONE = """
queue, told = make(sys.argv[1]), context.SimpleQueue()

def send():
    for i in range(50):
        queue.put(st.full((10,), float(i)))
    if sys.argv[2] == "killed":
        told.put("sent")
        time.sleep(1000)

process = child(send)
if sys.argv[2] == "killed":
    told.get()
    os.kill(process.pid, signal.SIGKILL)
process.join()
for i in range(50):
    assert queue.get()[0] == i
until(lambda: files() <= FEW and files(manager) <= FEW)
"""


@pytest.mark.parametrize("kind", ["SimpleQueue", "Pipe"])
@pytest.mark.parametrize("how", ["killed", "exits"])
def test_sender_gone_after_sending(scripts: Any, kind: str, how: str) -> None:
    scripts(_PREPARE + _SENDER_GONE, kind, how).finish()


_MIXED = """
there, back = context.SimpleQueue(), context.SimpleQueue()

def answer():
    while (message := there.get()) is not None:
        mine, theirs = message
        back.put((theirs, st.full((5,), float(mine[0]))))

process = child(answer)

def turns(number):
    for i in range(200):
        mp.set_sharing_strategy(("file_descriptor", "file_system")[i % 2])
        with lock:
            there.put((st.full((10,), float(i)), st.ones(number + 1)))
            ones, value = back.get()
        assert ones.sum() == number + 1 and value[0] == i

lock = threading.Lock()
threads = [threading.Thread(target=turns, args=(n,)) for n in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
until(lambda: files() <= FEW and files(manager) <= 2 * FEW)
there.put(None)
end(process)
"""


def test_threads_and_both_strategies(scripts: Any) -> None:
    scripts(_PREPARE + _MIXED).finish()
