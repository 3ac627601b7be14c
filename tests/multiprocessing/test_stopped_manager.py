"""A manager that is stopped: who waits for it hears signals, and holds up no other thread.

Not covered: forks beside one (tests/shm/test_members.py), queues beside one (tests/stress).
"""

from __future__ import annotations

from typing import Any

import pytest

_PREPARE = """
import os, pickle, signal, threading, time
from multiprocessing.reduction import ForkingPickler
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing
from shmtensor.errors import ManagerError
from waiting import until

manager = sharing.status()["manager_pid"]
small = [st.zeros(1000, shared=True) for _ in range(3)]
small.clear()

def fill():
    kept = []
    while True:
        kept.append(st.empty((1 << 18,), shared=True))

def as_file():
    mp.set_sharing_strategy("file_descriptor")
    return st.ones(10).share_memory_()

waits = {"status": sharing.status, "slab": fill, "file": as_file}
"""

_INTERRUPTED = """
import sys
wait = waits[sys.argv[1]]
before = sharing.status()["granted_bytes"]

class Stop(Exception):
    pass

def stop(*_):
    raise Stop

signal.signal(signal.SIGALRM, stop)
os.kill(manager, signal.SIGSTOP)
try:
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        wait()
    except Stop:
        print("stopped", flush=True)
finally:
    os.kill(manager, signal.SIGCONT)
mp.set_sharing_strategy("file_system")
# What the manager gave to nobody goes back.
until(lambda: sharing.trim() == 0)
assert sharing.status()["granted_bytes"] <= before + (8 << 20), (before, sharing.status())
assert st.ones(1 << 19).share_memory_().sum() == 1 << 19
assert sharing.status()["manager_pid"] == manager
"""


@pytest.mark.check
@pytest.mark.parametrize("wait", ["status", "slab", "file"])
def test_signal_ends_a_wait(scripts: Any, wait: str) -> None:
    assert scripts(_PREPARE + _INTERRUPTED, wait).finish() == "stopped\n"


_HANDLED = """
def handle(*_):
    try:
        sharing.status()
    except ManagerError as error:
        print(error, flush=True)
    own = st.ones(1000, shared=True)  # needs no manager
    assert own.sum() == 1000
    os.kill(manager, signal.SIGCONT)

signal.signal(signal.SIGALRM, handle)
os.kill(manager, signal.SIGSTOP)
signal.setitimer(signal.ITIMER_REAL, 0.5)
print(sharing.status()["manager_pid"] == manager)
"""


@pytest.mark.check
def test_wait_goes_on_after_a_handler_that_does_not_raise(scripts: Any) -> None:
    out = scripts(_PREPARE + _HANDLED).finish().splitlines()
    assert "a signal handler needs a manager" in out[0]
    assert out[1:] == ["True"]


_THREADS = """
queue = mp.SimpleQueue()
for i in range(200):  # what the turns below need is there
    queue.put(st.full((1000,), float(i)))
    queue.get()
results = []
os.kill(manager, signal.SIGSTOP)
try:
    threads = [threading.Thread(target=lambda: results.append(sharing.status())) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    for i in range(1000):
        queue.put(st.full((1000,), float(i)))
        assert queue.get()[999] == i
    tensor = st.full((1000,), 5.0, shared=True)
    assert pickle.loads(ForkingPickler.dumps(tensor)).sum() == 5000
    assert results == []
    pid = os.fork()
    if pid == 0:
        os._exit(0 if tensor.sum() == 5000 else 1)
    assert os.waitpid(pid, 0)[1] == 0
finally:
    os.kill(manager, signal.SIGCONT)
for thread in threads:
    thread.join()
assert [r["manager_pid"] for r in results] == [manager] * 3
print("done")
"""


def test_other_threads_work_beside_a_wait(scripts: Any) -> None:
    assert scripts(_PREPARE + _THREADS).finish() == "done\n"
