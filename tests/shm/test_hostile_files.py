"""A client names files of its own making as storages: only regular files are taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import test_hostile_names as names

_FILES = """
import tempfile
from waiting import until

folder = tempfile.mkdtemp()
regular, fifo = os.path.join(folder, "regular"), os.path.join(folder, "fifo")
Path(regular).write_bytes(bytes(100))
os.mkfifo(fifo)
block = new(4096)  # there is a manager now
manager = Manager()
pid = manager.ask("STATUS")[0]["block"]

def add(fd, nbytes, count):
    code = next(m.code for m in WIRE.messages if m.name == "ADD_FILE")
    fields = {"magic": WIRE.magic, "version": WIRE.version, "type": code, "count": count,
              "client": manager.client, "session": manager.session, "nbytes": nbytes}
    packet = PACKET.pack(*(
        fields.get(f.name, b"" if f.ctype == "char" else 0) for f in WIRE.fields))
    socket.send_fds(manager.socket, [packet], [fd])
    os.close(fd)
    data, files, _, _ = socket.recv_fds(manager.socket, 1000, 8)
    assert not files
    return dict(zip((f.name for f in WIRE.fields), PACKET.unpack(data)))

def found(path):
    return os.open(path, os.O_PATH)

descriptors = len(os.listdir(f"/proc/{pid}/fd"))
for fd, nbytes, count in (
    (found(fifo), 100, 1), (found("/dev/zero"), 100, 1), (found(folder), 100, 1),
    (found("/proc/self/fd"), 100, 1), (os.open(regular, os.O_RDWR), 100, 1),
    (os.open(regular, os.O_RDONLY), 100, 1), (found(regular), 0, 1), (found(regular), 2**63, 1),
    (os.memfd_create("x"), 100, 1), (found(regular), 100, 0), (os.open(fifo, os.O_RDWR), 100, 0),
    (os.eventfd(0), 100, 1),
):
    reply = add(fd, nbytes, count)
    assert reply["status"] != 0 and reply["text"].rstrip(b"\\0"), (nbytes, count)
until(lambda: len(os.listdir(f"/proc/{pid}/fd")) == descriptors)
reply = add(found(regular), 100, 1)
assert reply["status"] == 0
answer, files = manager.ask("GET_FILE", block=reply["block"], generation=reply["generation"])
assert answer["status"] == 0 and len(files) == 1
status = os.fstat(files[0])
assert (status.st_ino, status.st_size) == (os.stat(regular).st_ino, 100)
for read in (lambda: os.read(files[0], 1), lambda: os.write(files[0], b"x")):
    try:
        read()
    except OSError:
        continue
    raise AssertionError("the descriptor gives rights")
assert Path(regular).read_bytes() == bytes(100)
"""


@pytest.mark.check
def test_only_regular_files_that_were_found_are_taken(native_directory: Path) -> None:
    hostile = names._HOSTILE.split("wrong = lambda")[0]
    names._run(native_directory, f"test-{os.getpid()}-files", hostile + _FILES)
