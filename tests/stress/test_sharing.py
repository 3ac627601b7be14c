"""Sharing under random kills, floods, many children and lack of memory, for minutes.

Every program runs in a session of its own and prints what it counted; seeds are in the parameters.
Not covered: the single steps of the protocol, which tests/shm/test_crash.py takes one by one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shmtensor

pytestmark = [pytest.mark.stress, pytest.mark.timeout(600)]


def _run(text: str, *arguments: object, **environment: str) -> str:
    env = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    env["PYTHONPATH"] = str(Path(shmtensor.__file__).parents[1])
    result = subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        env={**env, **environment},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout


_KILLS = """
import os, random, select, signal, sys, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing

seed, kills, kill_manager = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "1"
rng = random.Random(seed)
context = mp.get_context("fork")


def whole(tensor):
    first = tensor[0].item()
    assert bool((tensor == first).all()), "a tensor holds two processes' bytes"


def worker(inbox, outbox):
    kept = []
    while True:
        tensor = inbox.recv()
        whole(tensor)
        kept.append(tensor)
        if len(kept) > 5:
            whole(kept.pop(0))
        size = random.choice((10, 1000, 20_000, 300_000))
        outbox.send(st.full((size,), float(random.randrange(100))))


def start():
    from_parent, to_worker = context.Pipe(duplex=False)
    from_worker, to_parent = context.Pipe(duplex=False)
    process = context.Process(target=worker, args=(from_parent, to_parent), daemon=True)
    process.start()
    from_parent.close()
    to_parent.close()
    return process, to_worker, from_worker


if __name__ == "__main__":
    workers = [start() for _ in range(4)]
    done = n_messages = 0
    kept = []
    while done < kills:
        process, there, back = rng.choice(workers)
        try:
            there.send(st.full((rng.choice((10, 1000, 100_000)),), float(rng.randrange(100))))
            if back.poll(2):
                tensor = back.recv()
                whole(tensor)
                kept.append(tensor)
                n_messages += 1
                if len(kept) > 20:
                    whole(kept.pop(rng.randrange(20)))
        except (BrokenPipeError, EOFError, ConnectionResetError):
            pass
        if rng.random() < 0.1:
            victim = rng.choice(workers)
            os.kill(victim[0].pid, signal.SIGKILL)
            victim[0].join()
            victim[1].close()
            victim[2].close()
            workers.remove(victim)
            workers.append(start())
            done += 1
        if kill_manager and rng.random() < 0.02:
            os.kill(sharing.status()["manager_pid"], signal.SIGKILL)
    for process, there, back in workers:
        process.kill()
        process.join()
    kept.clear()
    del tensor
    time.sleep(2.5)
    lost = sharing.collect()
    deadline = time.monotonic() + 5
    while (resident := sharing.trim()) > 0 or sharing.status()["n_clients"] > 1:
        assert time.monotonic() < deadline, (resident, sharing.status())
        time.sleep(0.1)
    paths = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
    ours = [os.readlink(path) for path in paths if os.path.lexists(path)]
    print(n_messages, lost, sum("memfd" in name or "socket" in name for name in ours))
"""


@pytest.mark.parametrize("kill_manager", [0, 1])
@pytest.mark.parametrize("seed", range(3))
def test_random_kills_leave_nothing(seed: int, kill_manager: int) -> None:
    _, _, n_descriptors = map(int, _run(_KILLS, seed, 100, kill_manager).split())
    assert n_descriptors == 3


_FLOOD = """
import os, resource, sys
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing

def anonymous():
    text = open("/proc/self/status").read()
    return int(text.split("RssAnon:")[1].split()[0])

def echo(there, back):
    while True:
        back.put(there.get())

context = mp.get_context("fork")
there, back = context.SimpleQueue(), context.SimpleQueue()
process = context.Process(target=echo, args=(there, back), daemon=True)
process.start()
def turn():
    there.put(st.full((1000,), 1.0))
    assert back.get()[5] == 1.0
for _ in range(2000):
    turn()
before = anonymous(), len(os.listdir("/proc/self/fd")), len(open("/proc/self/maps").readlines())
for _ in range(100_000):
    turn()
after = anonymous(), len(os.listdir("/proc/self/fd")), len(open("/proc/self/maps").readlines())
print(*(b - a for a, b in zip(before, after)), sharing.status()["n_leases"])
process.kill()
process.join()
"""


def test_many_sends_grow_nothing() -> None:
    kilobytes, descriptors, maps, leases = map(int, _run(_FLOOD).split())
    assert kilobytes <= 1024
    assert descriptors == 0
    assert maps <= 4
    assert leases == 0


_MANY_CHILDREN = """
import os, sys
import shmtensor as st
import shmtensor.multiprocessing as mp

def child(number, queue, model):
    model[number] = number
    queue.put((number, st.full((100,), float(number))))

context = mp.get_context("fork")
for _ in range(5):
    queue = context.SimpleQueue()
    model = st.zeros(64).share_memory_()
    children = [context.Process(target=child, args=(i, queue, model)) for i in range(64)]
    for c in children:
        c.start()
    for _ in children:
        number, tensor = queue.get()
        assert tensor.tolist() == [float(number)] * 100
    for c in children:
        c.join()
        assert c.exitcode == 0
    assert model.tolist() == [float(i) for i in range(64)]
"""


def test_many_children_share_with_one_parent() -> None:
    _run(_MANY_CHILDREN)


_THREADS = """
import os, threading
import shmtensor as st
import shmtensor.multiprocessing as mp

stop = threading.Event()
left, right = mp.Pipe()

def send():
    while not stop.is_set():
        local, far = mp.Pipe()
        local.send(st.full((500,), 3.0))
        assert far.recv().sum() == 1500
        local.close()
        far.close()

threads = [threading.Thread(target=send) for _ in range(8)]
for t in threads:
    t.start()
for i in range(50):
    pid = os.fork()
    if pid == 0:
        tensor = st.full((100,), float(i)).share_memory_()
        os._exit(0 if tensor[99] == i else 1)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for t in threads:
    t.join()
"""


def test_forks_beside_sending_threads() -> None:
    _run(_THREADS)


_NEW_THREADS = """
import os, threading
import shmtensor as st
import shmtensor.multiprocessing as mp

queue = mp.SimpleQueue()
stop = threading.Event()

def receive():  # makes this thread's first block with the lock of the sessions
    assert queue.get().sum() == 30

def begin_and_end():
    while not stop.is_set():
        for _ in range(4):
            queue.put(st.full((10,), 3.0))
        threads = [threading.Thread(target=receive) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

busy = [threading.Thread(target=begin_and_end) for _ in range(2)]
for thread in busy:
    thread.start()
for _ in range(500):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for thread in busy:
    thread.join()
"""


def test_forks_beside_threads_that_begin() -> None:
    _run(_NEW_THREADS)


_FULL = """
import sys
import shmtensor as st
from shmtensor._boundary import sharing

limit = int(sys.argv[1])
for _ in range(20):
    kept = []
    try:
        while True:
            kept.append(st.UntypedStorage._new_shared(3 << 20))
    except MemoryError as error:
        assert "tried" in str(error), error
    assert 1 <= len(kept) <= limit // (3 << 20)
    for storage in kept:
        storage.fill_(1)
    del kept, storage
assert sharing.trim() == 0
"""


def test_full_session_is_a_memory_error_and_recovers() -> None:
    _run(_FULL, 64 << 20, SHMTENSOR_MAX_SHARED_BYTES=str(64 << 20))
