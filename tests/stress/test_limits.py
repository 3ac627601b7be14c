"""Many tensors, many messages, few descriptors, little memory, stopped processes.

Memory, descriptors and maps are back at their start value after. SHMTENSOR_STRESS_SENDS sets the
number of messages (1 000 000).
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from stress_programs import run

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1800)]

SENDS = int(os.environ.get("SHMTENSOR_STRESS_SENDS", "1000000"))

_PREPARE = """
import gc, os, resource, signal, sys, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing
from waiting import until

def used():
    gc.collect()
    text = open("/proc/self/status").read()
    return (
        int(text.split("RssAnon:")[1].split()[0]),
        len(os.listdir("/proc/self/fd")),
        len(open("/proc/self/maps").readlines()),
    )

context = mp.get_context("fork")
"""

_ALIVE = """
sharing.join()
kept = [st.full((n % 50 + 1,), float(n % 100)).share_memory_() for n in range(100_000)]
assert sharing.status()["n_held"] >= 100_000
for n in range(0, 100_000, 97):
    assert kept[n][0] == n % 100
del kept
until(lambda: sharing.trim() == 0)
# What the allocator of the process keeps is there after two rounds.
for _ in range(2):
    before = used()
    kept = [st.full((n % 50 + 1,), float(n % 100)).share_memory_() for n in range(100_000)]
    del kept
    until(lambda: sharing.trim() == 0)
after = used()
print(*(b - a for a, b in zip(before, after)))
"""


def test_hundred_thousand_tensors_alive_and_gone() -> None:
    kilobytes, descriptors, maps = map(int, run(_PREPARE + _ALIVE).split())
    assert kilobytes <= 1024
    assert descriptors == 0
    assert maps <= 4


_SENDS = """
def drain(queue, back):
    n = 0
    while (tensor := queue.get()) is not None:
        assert tensor[0] == n % 1000, (n, tensor)
        n += 1
        if n == 20_000:
            back.put(used())
    del tensor
    back.put(used())

import multiprocessing
makers = {"own": context, "standard": multiprocessing.get_context("fork")}
queue, back = makers[sys.argv[2]].SimpleQueue(), context.SimpleQueue()
child = context.Process(target=drain, args=(queue, back))
child.start()
for n in range(int(sys.argv[1])):
    queue.put(st.full((100,), float(n % 1000)))
    if n == 20_000:
        before = used()
after = used()
queue.put(None)
theirs = back.get(), back.get()
child.join()
assert child.exitcode == 0
until(lambda: sharing.status()["n_leases"] == 0)
print(*(b - a for a, b in zip(before, after)), *(b - a for a, b in zip(*theirs)))
"""


@pytest.mark.parametrize("queue", ["own", "standard"])
def test_million_sends_grow_nothing(queue: str) -> None:
    ours = list(map(int, run(_PREPARE + _SENDS, SENDS, queue).split()))
    for kilobytes, descriptors, maps in (ours[:3], ours[3:]):
        assert kilobytes <= 1024
        assert descriptors <= 0
        assert maps <= 4


_FEW_DESCRIPTORS = """
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
def hold(queue, back):
    kept = [queue.get() for _ in range(2000)]
    assert all(t[0] == n for n, t in enumerate(kept))
    back.put(len(os.listdir("/proc/self/fd")))

queue, back = context.SimpleQueue(), context.SimpleQueue()
child = context.Process(target=hold, args=(queue, back))
child.start()
kept = [st.full((1000,), float(n)) for n in range(2000)]
for tensor in kept:
    queue.put(tensor)
assert back.get() <= 20
child.join()
assert child.exitcode == 0
assert len(os.listdir("/proc/self/fd")) <= 20
"""


def test_two_thousand_live_tensors_with_sixty_four_descriptors() -> None:
    run(_PREPARE + _FEW_DESCRIPTORS)


_SMALL_DEV_SHM = """
assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize <= 16 << 20
big = st.full((16 << 20,), 3.0).share_memory_()
child = context.Process(target=lambda: (big.add_(1.0), os._exit(0)))
child.start()
child.join()
assert big[0] == 4.0 and big[-1] == 4.0
assert os.listdir("/dev/shm") == []
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare"
)
def test_small_dev_shm_bounds_nothing() -> None:
    mount = 'mount -t tmpfs -o size=16m tmpfs /dev/shm && exec "$@"'
    run(_PREPARE + _SMALL_DEV_SHM, prefix=("unshare", "-m", "sh", "-c", mount, "sh"))


_LIMITED = """
which, value = getattr(resource, sys.argv[1]), int(sys.argv[2])
resource.setrlimit(which, (value, value))
for _ in range(20):
    kept = []
    try:
        while len(kept) < 200:
            kept.append(st.UntypedStorage._new_shared(4 << 20))
            kept[-1].fill_(1)
    except (MemoryError, OSError) as error:
        assert str(error), type(error)
    else:
        assert len(kept) == 200
    kept.clear()
    small = st.ones(10).share_memory_()
    assert small.sum() == 10
    del small
descriptors = len(os.listdir("/proc/self/fd"))
assert descriptors < 30, descriptors
"""


@pytest.mark.parametrize(
    ("which", "value"),
    [("RLIMIT_FSIZE", 64 << 20), ("RLIMIT_AS", 2 << 30), ("RLIMIT_AS", 1 << 30)],
)
def test_limits_of_the_process_are_memory_errors(which: str, value: int) -> None:
    run(_PREPARE + _LIMITED, which, value)


_STOPPED_PEER = """
def echo(there, back):
    while True:
        back.put(there.get())

def start():
    there, back = context.SimpleQueue(), context.SimpleQueue()
    child = context.Process(target=echo, args=(there, back), daemon=True)
    child.start()
    return child, there, back

def turns(there, back, n):
    for i in range(n):
        there.put(st.full((1000,), float(i)))
        assert back.get()[999] == i

stopped, working = start(), start()
turns(*stopped[1:], 10)
turns(*working[1:], 10)
for _ in range(10):
    os.kill(stopped[0].pid, signal.SIGSTOP)
    for i in range(20):
        stopped[1].put(st.full((1000,), float(i)))
    turns(*working[1:], 200)
    os.kill(stopped[0].pid, signal.SIGCONT)
    for i in range(20):
        assert stopped[2].get()[0] == i

manager = sharing.status()["manager_pid"]
os.kill(manager, signal.SIGSTOP)
try:
    turns(*working[1:], 1000)
    turns(*stopped[1:], 1000)
finally:
    os.kill(manager, signal.SIGCONT)
fresh = [st.full((1 << n,), 1.0).share_memory_() for n in range(20)]
assert sharing.status()["manager_pid"] == manager
for child, *_ in (stopped, working):
    child.kill()
    child.join()
"""


def test_stopped_peer_and_manager_stop_nobody_else() -> None:
    run(_PREPARE + _STOPPED_PEER)


_RESTART = """
kept = [st.full((n % 5000 + 1,), float(n % 100)).share_memory_() for n in range(5000)]
slowest = 0.0
for _ in range(20):
    os.kill(sharing.status()["manager_pid"], signal.SIGKILL)
    start = time.monotonic()
    sharing.status()
    slowest = max(slowest, time.monotonic() - start)
assert all(t[-1] == n % 100 for n, t in enumerate(kept))
print(f"{slowest:.3f}")
"""


def test_killed_manager_is_replaced_with_everything_usable() -> None:
    print(f"slowest restart of 20: {run(_PREPARE + _RESTART).strip()} s")
