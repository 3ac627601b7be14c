"""A client publishes other clients' blocks, by packets of its own making: nobody loses a value.

Not covered: packets that are none (tests/stress/test_hostile.py), writes into the control file.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import native
import pytest

_WAIT_S = 120

_PREPARE = """
import ctypes, os, signal, socket, struct, subprocess, sys, time
from pathlib import Path
sys.path[:0] = [{here!r}, {csrc!r}]
import native
from codegen.emit.protocol import load_wire
from waiting import let_the_manager_look

WIRE = load_wire(native.CSRC / "spec" / "wire.yaml", native.ROOT)
CODES = {{"uint64_t": "Q", "uint32_t": "I", "int32_t": "i", "uint16_t": "H", "char": "176s"}}
PACKET = struct.Struct("<" + "".join(CODES[f.ctype] for f in WIRE.fields))
NAME = {name!r}
n = native.Native(Path({directory!r}))
lib, check = n.lib, n.check
lib.shmt_snapshot_storage.restype = ctypes.c_void_p
lib.shmt_snapshot_n_storages.restype = ctypes.c_uint64
service = ctypes.c_void_p()
check(lib.shmt_service_create(NAME.encode(), None, os.geteuid(), 1, ctypes.byref(service)))

def new(nbytes):
    storage = ctypes.c_void_p()
    check(lib.shmt_service_new_storage(service, ctypes.c_uint64(nbytes), ctypes.byref(storage)))
    return native.Block(n, storage.value)

def publish(name, blocks, persists):
    version = ctypes.c_uint64()
    storages = (ctypes.c_void_p * len(blocks))(*(b.pointer.value for b in blocks))
    check(lib.shmt_service_publish(service, name, storages, ctypes.c_uint64(len(blocks)), b"text",
                                   ctypes.c_uint64(4), int(persists), ctypes.byref(version)))

def attach(name):
    snapshot = ctypes.c_void_p()
    check(lib.shmt_snapshot_open(service, name, 0, ctypes.byref(snapshot)))
    count = lib.shmt_snapshot_n_storages(snapshot)
    get = lib.shmt_snapshot_storage
    blocks = [native.Block(n, get(snapshot, ctypes.c_uint64(i))) for i in range(count)]
    lib.shmt_snapshot_free(snapshot)
    return blocks
"""

# What is fragile: two storages, whose publisher ends.
_VICTIM = 'publish(b"value", [new(100_000).fill(5), new(3000).fill(6)], True)'
_READER = 'assert [b.value() for b in attach(b"value")] == [5, 6]'

_HOSTILE = """
class Manager:
    "A connection that says what it likes."

    def __init__(self):
        hash = 0xCBF29CE484222325
        for byte in NAME.encode():
            hash = (hash ^ byte) * 0x100000001B3 % 2**64
        self.session = ((hash ^ hash >> 29) & (1 << 42) - 1) | 1
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(60)
        self.socket.connect(f"\\0shmtensor-{os.geteuid()}-{self.session:016x}")
        self.client = 0
        reply, files = self.ask("HELLO")
        for fd in files:
            os.close(fd)
        self.client = reply["client"]

    def ask(self, kind, **fields):
        code = next(m.code for m in WIRE.messages if m.name == kind)
        fields |= {"magic": WIRE.magic, "version": WIRE.version, "type": code}
        fields |= {"client": self.client, "session": self.session}
        self.socket.send(PACKET.pack(*(
            fields.get(f.name, b"" if f.ctype == "char" else 0) for f in WIRE.fields)))
        data, files, _, _ = socket.recv_fds(self.socket, 1000, 8)
        return dict(zip((f.name for f in WIRE.fields), PACKET.unpack(data))), files

    def publish(self, name, block, generation):
        return self.ask("PUBLISH", text=name, block=block, generation=generation)[0]["status"]

def place(block):
    "The number and generation of a block, from its handle."
    raw = block.handle(lease=False)
    return struct.unpack_from("<I", raw, 48)[0], struct.unpack_from("<Q", raw, 24)[0]

MAGIC = 0x31544445534D4853
def describe(*places):
    "The bytes of a description of such storages."
    head = struct.pack("<QQQQ", MAGIC, len(places), 0, 0)
    return head + b"".join(struct.pack("<QQII", g, 1, b, 0) for b, g in places)

def write(block, data):
    ctypes.memmove(block.bytes, data, len(data))

wrong = lambda p: (p[0], p[1] + 1)
description = new(4096)
own = place(description)
theirs = [place(b) for b in attach(b"value")]
manager = Manager()
"""

# After each: memory is needed, and used again.
_PRESSURE = """
let_the_manager_look(1)
manager.ask("SWEEP")
filled = [new(size).fill(255) for size in (200, 1000, 3000, 5000, 100_000) for _ in range(50)]
"""


def _prepare(directory: Path, name: str) -> str:
    return _PREPARE.format(
        here=str(Path(__file__).parent),
        csrc=str(native.CSRC),
        name=name,
        directory=str(directory),
    )


def _run(directory: Path, name: str, program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _prepare(directory, name) + program],
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _attack(directory: Path, name: str, program: str) -> None:
    """One process publishes and ends, *program* attacks, a third process reads the value."""
    name = f"test-{os.getpid()}-{name}"
    _run(directory, name, _VICTIM)
    _run(directory, name, _HOSTILE + program + _PRESSURE + f"exec({_READER!r})\n")
    _run(directory, name, _READER + '\ncheck(lib.shmt_service_unpublish(service, b"value"))')


_ATTACKS = {
    "any block, a wrong generation": """
statuses = {manager.publish(b"evil", block, g) for block in range(200) for g in (0, 99, 2**47)}
assert 0 not in statuses
""",
    "a description of blocks with wrong generations": """
write(description, describe(*map(wrong, theirs)))
assert manager.publish(b"evil", *own) != 0
""",
    "right generations before a wrong one": """
for _ in range(3):
    write(description, describe(*theirs, own, wrong(theirs[0])))
    assert manager.publish(b"evil", *own) != 0
    write(description, describe(*theirs, (2**32 - 2, 1)))
    assert manager.publish(b"evil", *own) != 0
""",
    "a block often, and taken back": """
write(description, describe(*theirs * 5, own, own))
assert manager.publish(b"evil", *own) == 0
assert manager.publish(b"evil 2", *own) == 0
assert manager.ask("UNPUBLISH", text=b"evil")[0]["status"] == 0
write(description, describe(*theirs * 5, wrong(theirs[1])))
assert manager.publish(b"evil", *own) != 0
assert manager.ask("UNPUBLISH", text=b"evil 2")[0]["status"] == 0
""",
    "sizes beyond the block": """
for count in (170, 2**20, 2**20 + 1, 2**61, 2**64 - 1):
    write(description, struct.pack("<QQQQ", MAGIC, count, 0, 0))
    assert manager.publish(b"evil", *own) != 0
""",
    "a description that changes while it is read": """
import threading
texts = [describe(*theirs * 20), describe(*map(wrong, theirs * 20)),
         describe(*theirs * 9, wrong(theirs[0])), struct.pack("<QQQQ", MAGIC, 2**62, 0, 0)]
stop = threading.Event()

def change():
    while not stop.is_set():
        for text in texts:
            write(description, text)

thread = threading.Thread(target=change)
thread.start()
statuses = []
for i in range(3000):
    statuses.append(manager.publish(b"evil %d" % (i % 3), *own))
    if i % 5 == 0:
        manager.ask("UNPUBLISH", text=b"evil %d" % (i % 3))
stop.set()
thread.join()
assert 0 in statuses and any(statuses)
for i in range(3):
    manager.ask("UNPUBLISH", text=b"evil %d" % i)
""",
    "a description that changed before the manager was killed": """
for i in range(20):
    write(description, describe(own))
    assert manager.publish(b"evil %d" % i, *own) == 0
write(description, describe(*theirs, *map(wrong, theirs)))
pid = manager.ask("STATUS")[0]["block"]
os.kill(pid, signal.SIGKILL)
exec('attach(b"value")')  # brings up another
assert lib.shmt_service_unpublish(service, b"nobody") != 0
manager = Manager()
assert manager.ask("STATUS")[0]["block"] != pid
""",
}


@pytest.mark.check
@pytest.mark.parametrize("name", _ATTACKS)
def test_value_outlives_a_hostile_publisher(name: str, native_directory: Path) -> None:
    _attack(native_directory, name, _ATTACKS[name])
