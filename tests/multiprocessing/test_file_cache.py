"""Memory files of dropped storages are used again, by nobody who should not.

Covered: reuse by the owner and the receiver, values, exported descriptors, killed managers, forks,
threads, what is left after a second. Not covered: how many descriptors that takes
(test_descriptors).
"""

from __future__ import annotations

from typing import Any

import pytest

_PREPARE = """
import mmap, os, random, signal, sys, threading, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing
from waiting import until

context = mp.get_context("fork")
mp.set_sharing_strategy("file_descriptor")
MB = 1 << 18  # floats

def full(value, n=MB):
    return st.full((n,), float(value)).share_memory_()

def files():
    return open("/proc/self/maps").read().count("memfd:shmtensor-storage")
"""


def _run(scripts: Any, text: str) -> None:
    scripts(_PREPARE + text).finish()


@pytest.mark.check
def test_owner_uses_its_file_again_when_nobody_else_does(scripts: Any) -> None:
    _run(
        scripts,
        """
queue, back = context.SimpleQueue(), context.SimpleQueue()

def keep_two():
    kept = [queue.get(), queue.get()]
    back.put("have them")
    queue.get()
    assert [t.unique().tolist() for t in kept] == [[1.0], [2.0]]
    back.put("right")

process = context.Process(target=keep_two)
process.start()
places = set()
for i in (1, 2):
    tensor = full(i)
    places.add(tensor.data_ptr())
    queue.put(tensor)
    del tensor
assert back.get() == "have them"
places_now = set()
for i in range(50):  # in another file: these two are held
    tensor = full(-i)
    places_now.add(tensor.data_ptr())
    del tensor
assert len(places_now) < 10 and not places & places_now
queue.put(None)
assert back.get() == "right"
process.join()
again = [full(i) for i in range(4)]
assert [t.unique().tolist() for t in again] == [[float(i)] for i in range(4)]
""",
    )


def test_receiver_sees_each_time_what_was_sent(scripts: Any) -> None:
    _run(
        scripts,
        """
queue, back = context.SimpleQueue(), context.SimpleQueue()

def check():
    held = []
    while (message := queue.get()) is not None:
        value, tensor = message
        assert tensor.unique().tolist() == [float(value)], (value, tensor)
        held.append((value, tensor))
        if len(held) > 5:
            value, tensor = held.pop(random.randrange(6))
            assert tensor.unique().tolist() == [float(value)], (value, tensor)
        del tensor, message
        back.put(0)

process = context.Process(target=check)
process.start()
for i in range(600):
    queue.put((i, full(i, random.choice([1000, 5000, MB, MB + 100]))))
    if random.random() < 0.7:
        back.get()
queue.put(None)
process.join()
assert process.exitcode == 0
""",
    )


def test_file_whose_descriptor_was_handed_out_is_not_used_again(scripts: Any) -> None:
    _run(
        scripts,
        """
queue, back = context.SimpleQueue(), context.SimpleQueue()

def export():
    fd, nbytes = queue.get().untyped_storage()._share_fd_cpu_()
    memory = mmap.mmap(fd, nbytes)
    back.put("exported")
    queue.get()
    assert memory[:4] == memory[-4:] == st.full((1,), 5.0).numpy().tobytes()
    back.put("unchanged")

process = context.Process(target=export)
process.start()
tensor = full(5)
queue.put(tensor)
del tensor
assert back.get() == "exported"
for i in range(100):
    full(-i)
queue.put(None)
assert back.get() == "unchanged"
process.join()
""",
    )


@pytest.mark.check
def test_manager_killed_between_uses(scripts: Any) -> None:
    _run(
        scripts,
        """
queue, back = context.SimpleQueue(), context.SimpleQueue()

def answer():
    while (tensor := queue.get()) is not None:
        back.put(tensor.unique().tolist())
        del tensor

process = context.Process(target=answer)
process.start()
for i in range(60):
    if i % 10 == 5:
        os.kill(sharing.status()["manager_pid"], signal.SIGKILL)
    queue.put(full(i))
    assert back.get() == [float(i)], i
queue.put(None)
process.join()
assert process.exitcode == 0
""",
    )


def test_forked_child_leaves_the_files_to_its_parent(scripts: Any) -> None:
    _run(
        scripts,
        """
for i in range(3):
    full(i)
assert files() > 0
pid = os.fork()
if pid == 0:
    wrong = files() != 0
    wrong |= [full(-i).unique().tolist() for i in range(20)] != [[float(-i)] for i in range(20)]
    os._exit(wrong)
mine = [full(i) for i in range(4)]
assert os.waitpid(pid, 0)[1] == 0
assert [t.unique().tolist() for t in mine] == [[float(i)] for i in range(4)]
""",
    )


def test_threads(scripts: Any) -> None:
    _run(
        scripts,
        """
def work(number):
    for i in range(300):
        tensor = full(number * 1000 + i, 5000 + number)
        assert tensor.unique().tolist() == [float(number * 1000 + i)]

threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
""",
    )


def test_nothing_is_left_after_a_second(scripts: Any) -> None:
    _run(
        scripts,
        """
tensors = [full(i) for i in range(20)]
del tensors
until(lambda: files() == 0)
until(lambda: sharing.status()["granted_bytes"] == 0)
""",
    )
