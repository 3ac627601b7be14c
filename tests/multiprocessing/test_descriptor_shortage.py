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


@pytest.mark.parametrize("left", range(6))
@pytest.mark.parametrize("mode", ["starts", "joins"])
def test_joining(scripts: Any, left: int, mode: str) -> None:
    has_joined = scripts(_PREPARE + _JOIN, str(left), mode).finish()
    assert left > 0 or has_joined.split() == ["False"]


@pytest.mark.parametrize("left", range(6))
def test_message_stays_until_its_files_can_be_opened(scripts: Any, left: int) -> None:
    scripts(_PREPARE + _GET, str(left)).finish()
