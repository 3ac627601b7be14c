"""The program closes the library's descriptors, or has its own files and sockets in their places.

Nothing of the program's may be touched, and sharing goes on. Not covered: too few descriptors
(test_descriptor_shortage), a group's descriptor (tests/distributed).
"""

from __future__ import annotations

from typing import Any

import pytest

_PREPARE = """
import os, signal, socket, sys, tempfile
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing

context = mp.get_context("fork")

def numbers():
    with os.scandir("/proc/self/fd") as entries:
        return {int(entry.name) for entry in entries} - {0, 1, 2}

def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True

class Foreign:
    "The program's own file or connection in the place of each of some descriptors."

    def __init__(self, kind, at):
        self.kind, self.at, self.kept = kind, sorted(at), []
        at = [n for n in self.at if is_open(n)]
        for n in at:
            if kind == "closed":
                os.close(n)
            elif kind == "file":
                file = tempfile.TemporaryFile()
                file.write(b"the program's")
                file.flush()
                self.kept.append((n, file))
                os.dup2(file.fileno(), n)
            else:
                listener = socket.create_server(("127.0.0.1", 0))
                ours = socket.create_connection(listener.getsockname())
                theirs, _ = listener.accept()
                listener.close()
                theirs.setblocking(False)
                ours.sendall(b"to the other end")
                theirs.sendall(b"the program's")
                self.kept.append((n, ours, theirs))
                os.dup2(ours.fileno(), n)

    def numbers(self):
        "All numbers that are the program's now."
        return set(self.at) | {file.fileno() for _, *files in self.kept for file in files}

    def check(self):
        for n, ours, *theirs in self.kept:
            assert os.fstat(n).st_ino == os.fstat(ours.fileno()).st_ino, n
            if self.kind == "file":
                assert os.pread(n, 10_000_000, 0) == b"the program's"
                assert os.lseek(n, 0, os.SEEK_CUR) == 13
            else:
                assert os.read(n, 1000) == b"the program's"
                assert theirs[0].recv(1000) == b"to the other end"
                try:
                    raise AssertionError(theirs[0].recv(1000))
                except BlockingIOError:
                    pass

SIZES = (7, 3_000, 50_000, 1_000_000)

def share(value):
    tensors = [st.full((n,), float(value)).share_memory_() for n in SIZES]
    for tensor in tensors:
        assert tensor.is_shared() and (tensor == value).all(), (value, tensor)
    return tensors

def echo(there, back):
    while (message := there.get()) is not None:
        back.put([tensor + 1 for tensor in message])

def send_around(tensors, value):
    there, back = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=echo, args=(there, back))
    process.start()
    there.put(tensors)
    there.put(share(value))
    for _ in range(2):
        for tensor, n in zip(back.get(), SIZES):
            assert tensor.shape == (n,) and (tensor == value + 1).all()
    there.put(None)
    process.join()
    assert process.exitcode == 0

before = numbers()
kept = share(1)
manager = sharing.status()["manager_pid"]
ours = numbers() - before
"""

_IN_PLACE = """
mp.set_sharing_strategy(sys.argv[2])
kept += share(1)
queue = context.SimpleQueue()
queue.put(kept[1])
queue.put(st.full((20,), 1.0))
ours = numbers() - before
assert len(ours) >= 3
foreign = Foreign(sys.argv[1], ours)
shared = share(1)
assert queue.get()[0] == 1 and queue.get()[0] == 1
send_around(shared, 1)
foreign_again = Foreign(sys.argv[1], numbers() - before - foreign.numbers())
send_around(kept[:4], 1)
assert sharing.status()["manager_pid"] == manager and sharing.status()["n_clients"] == 1
del shared, kept, queue
sharing.collect()
assert sharing.status()["n_held"] == 0
foreign.check()
foreign_again.check()
"""


@pytest.mark.parametrize("strategy", ["file_system", "file_descriptor"])
@pytest.mark.parametrize("kind", ["closed", "file", "socket"])
def test_sharing_goes_on_beside_the_programs_files(scripts: Any, kind: str, strategy: str) -> None:
    scripts(_PREPARE + _IN_PLACE, kind, strategy).finish()
