"""No descriptor is left, or only a few: an error with the reason, at once, and nothing is lost.

Not covered: many storages with a low limit (test_descriptors), the fork of a process without
descriptors (test_members).
"""

from __future__ import annotations

from typing import Any

import pytest

_PREPARE = """
import contextlib, errno, os, resource, signal, sys, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing

context = mp.get_context("fork")

@contextlib.contextmanager
def only(n):
    "So many descriptors are left in the block."
    with open(os.devnull) as file:
        taken = []
        try:
            while True:
                taken.append(os.dup(file.fileno()))
        except OSError:
            pass
        for _ in range(n):
            os.close(taken.pop())
        try:
            yield
        finally:
            for number in taken:
                os.close(number)

def outcome(call):
    "What the call returns; None: it raised that no descriptor is left, without delay."
    begin = time.monotonic()
    try:
        return call()
    except OSError as error:
        assert error.errno == errno.EMFILE, error
        assert "Too many open files" in str(error)
        assert time.monotonic() - begin < 5
        return None

resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
left = int(sys.argv[1])
"""

_JOIN = """
mode = sys.argv[2]
tensor = st.full((1000,), 3.0)
if mode == "joins":  # another process has started the manager
    ready, begun = os.pipe()
    over, ends = os.pipe()
    if os.fork() == 0:
        os.close(ends)
        st.zeros(1).share_memory_()
        os.write(begun, b"x")
        os.read(over, 1)
        os._exit(0)
    os.read(ready, 1)
with only(left):
    shared = outcome(tensor.share_memory_)
assert shared is not None or not tensor.is_shared()
assert (tensor == 3).all()
assert (tensor.share_memory_() == 3).all() and tensor.is_shared()
assert sharing.status()["n_clients"] == (2 if mode == "joins" else 1)
print(shared is not None)
"""

_GET = """
mp.set_sharing_strategy("file_descriptor")
queue, done = context.SimpleQueue(), context.SimpleQueue()

def send():
    for i in range(3):
        queue.put((i, [st.full((100,), float(i)), st.full((200,), float(i))]))
    done.put("sent")

process = context.Process(target=send)
process.start()
process.join()
assert done.get() == "sent"
numbers = []
with only(left):
    for _ in range(3):
        message = outcome(queue.get)
        if message is None:
            continue
        numbers.append(message[0])
        assert all((t == message[0]).all() for t in message[1])
    assert outcome(lambda: queue.put(st.full((300,), 9.0))) is None  # the arena needs none
while len(numbers) < 3:
    i, tensors = queue.get()
    numbers.append(i)
    assert all((t == i).all() for t in tensors)
assert numbers == [0, 1, 2]
assert (queue.get() == 9).all() and queue.empty()
print(len(numbers))
"""


_GET_MANY = """
mp.set_sharing_strategy("file_descriptor")
queue, done = context.Queue(), context.SimpleQueue()

def send():
    for message in (1, st.full((100,), 2.0), 3):
        queue.put(message)
    queue.close()
    queue.join_thread()
    done.put("sent")

process = context.Process(target=send)
process.start()
assert done.get() == "sent"
process.join()
with only(0):
    assert queue.get_many(5) == [1]
    assert outcome(lambda: queue.get_many(5)) is None
    assert outcome(lambda: queue.get(timeout=10)) is None
    assert queue.qsize() == 2
tensor, number = queue.get_many(5)
assert (tensor == 2).all() and number == 3
"""

_OTHER_CALLS = """
tensor = st.full((50_000,), 1.0).share_memory_()
queue = context.SimpleQueue()
with only(left):
    shared = outcome(lambda: tensor.untyped_storage()._share_fd_cpu_())
    if shared is not None:
        os.close(shared[0])
    assert (outcome(queue.fileno) is None) == (left == 0)
    # Storages that would be files are made in the arena.
    mp.set_sharing_strategy("file_descriptor")
    assert (st.full((30_000,), 2.0).share_memory_() == 2).all()
assert tensor.untyped_storage()._share_fd_cpu_()[1] == 200_000
"""


@pytest.mark.parametrize("left", range(6))
@pytest.mark.parametrize("mode", ["starts", "joins"])
def test_joining(scripts: Any, left: int, mode: str) -> None:
    has_joined = scripts(_PREPARE + _JOIN, str(left), mode).finish()
    assert left > 0 or has_joined.split() == ["False"]


@pytest.mark.parametrize("left", range(6))
def test_message_stays_until_its_files_can_be_opened(scripts: Any, left: int) -> None:
    scripts(_PREPARE + _GET, str(left)).finish()


@pytest.mark.check
def test_several_messages_at_once(scripts: Any) -> None:
    scripts(_PREPARE + _GET_MANY, "0").finish()


@pytest.mark.parametrize("left", range(3))
def test_other_calls(scripts: Any, left: int) -> None:
    scripts(_PREPARE + _OTHER_CALLS, str(left)).finish()
