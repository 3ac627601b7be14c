"""Descriptors whose close takes as long as their sender likes: the manager serves the others.

Not covered: the threads that close (tests/c/os.c).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import test_hostile_names as names

_needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

# Sockets whose last close waits for an hour: their peer reads nothing.
_SOCKETS = """
import array, select, socket, struct

listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
listener.bind(("127.0.0.1", 0))
listener.listen(128)

def lingering():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 12)
    s.connect(listener.getsockname())
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    s.setblocking(False)
    while select.select([], [s], [], 0.05)[1]:
        s.send(bytes(1 << 16))
    return s.detach()

def send(to, data, fds):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    to.sendmsg([data], rights)
    for fd in set(fds):
        os.close(fd)  # not the last close, as long as the manager is stopped: the packet has it
"""

# Another process, started before, joins and gets what it needs. The manager closes all it was sent.
_OTHERS = """
import contextlib
from waiting import process_state, until

other = subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.PIPE)

@contextlib.contextmanager
def stopped():
    os.kill(pid, signal.SIGSTOP)
    until(lambda: process_state(pid) == "T")
    yield
    os.kill(pid, signal.SIGCONT)

def n_descriptors():
    return len(os.listdir(f"/proc/{pid}/fd"))

def check_others():
    assert manager.ask("STATUS")[0]["block"] == pid
    new(3_000_000).fill(1)
    other.communicate(b"\\n", timeout=100)
    assert other.returncode == 0
    until(lambda: n_descriptors() <= before, lambda: (n_descriptors(), before))
"""

_MEMBER = """
block = new(4096)  # there is a manager now
manager = Manager()
pid = manager.ask("STATUS")[0]["block"]
before = n_descriptors()

def packet(kind, **fields):
    code = next(m.code for m in WIRE.messages if m.name == kind)
    fields |= {"magic": WIRE.magic, "version": WIRE.version, "type": code}
    fields |= {"client": manager.client, "session": manager.session}
    return PACKET.pack(*(
        fields.get(f.name, b"" if f.ctype == "char" else 0) for f in WIRE.fields))

def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(f"\\0shmtensor-{os.geteuid()}-{manager.session:016x}")
    return s
"""


def _run(directory: Path, name: str, program: str, before: str = "") -> None:
    name = f"test-{os.getpid()}-{name}"
    other = names._prepare(directory, name) + "sys.stdin.readline()\nnew(3_000_000).fill(1)\n"
    hostile = names._HOSTILE.split("MAGIC =")[0]
    parts = (before, hostile, _SOCKETS, f"OTHER = {other!r}\n", _OTHERS, _MEMBER, program)
    names._run(directory, name, "".join(parts))


_WAYS = {
    "with a request": """
for kind in ("STATUS", "RESTORE_FILE", "ADD_FILE", "GET_FILE"):
    with stopped():
        send(manager.socket, packet(kind), [lingering()])
    if kind != "RESTORE_FILE":
        manager.socket.recv(1000)
""",
    "more than a request may have": """
with stopped():
    send(manager.socket, packet("STATUS"), [lingering() for _ in range(20)])
    send(manager.socket, packet("STATUS"), [lingering()] * 253)
manager.socket.recv(1000)
manager.socket.recv(1000)
""",
    "before HELLO, and with what is no packet": """
for data in (packet("HELLO", client=1), packet("STATUS"), b"x", b"x" * 1000):
    s = connect()
    with stopped():
        send(s, data, [lingering()])
    s.close()
""",
    "in a packet that is never read": """
with stopped():
    for _ in range(10):
        s = connect()
        s.send(b"x")  # for this the manager closes the connection
        send(s, packet("STATUS"), [lingering()])
        s.close()
""",
}


@pytest.mark.check
@pytest.mark.parametrize("way", _WAYS)
def test_sockets_that_linger_hold_up_nobody(way: str, native_directory: Path) -> None:
    _run(native_directory, way, _WAYS[way] + "check_others()\n")


_FEW_DESCRIPTORS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
"""

# The kernel closes the last one in the middle of the call that receives it.
_MORE_THAN_THERE_ARE = """
null = os.open("/dev/null", os.O_RDONLY)
with stopped():
    send(manager.socket, packet("STATUS"), [null] * 252 + [lingering()])
manager.socket.recv(1000)
check_others()
"""


def test_sockets_for_which_the_manager_has_no_room_hold_up_nobody(native_directory: Path) -> None:
    _run(native_directory, "room", _MORE_THAN_THERE_ARE, _FEW_DESCRIPTORS)


_STRANGER = """
stranger = _SOCKETS + \"\"\"
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for _ in range(10):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(sys.argv[1])
    send(s, b"x", [lingering()])
    s.close()
print("sent", flush=True)
sys.stdin.readline()  # meanwhile the peers of the sockets stay
\"\"\"
address = "\\0" + f"shmtensor-{os.geteuid()}-{manager.session:016x}"
command = [sys.executable, "-c", stranger.replace("sys.argv[1]", repr(address))]
with stopped():  # so that it refuses nobody before the packet is there
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"sent\\n"
check_others()
process.communicate(b"\\n")
assert process.returncode == 0
"""


@_needs_root
def test_sockets_of_a_user_who_is_refused_hold_up_nobody(native_directory: Path) -> None:
    _run(native_directory, "stranger", f"_SOCKETS = {_SOCKETS!r}\n" + _STRANGER)


_FILES = """
from fuse_server import FLUSH, FileSystem

try:
    files = FileSystem()
except OSError as error:
    print("no FUSE:", error)
    os._exit(0)

def ask(fds, kind="STATUS", **fields):
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    manager.socket.sendmsg([packet(kind, **fields)], rights)
    data, got, _, _ = socket.recv_fds(manager.socket, 1000, 8)
    for fd in got:
        os.close(fd)
    return dict(zip((f.name for f in WIRE.fields), PACKET.unpack(data)))

try:
    file, found = os.open(files.path, os.O_RDWR), os.open(files.path, os.O_PATH)
    before += 1  # the manager keeps the one that was found
    files.fall_silent()
    assert ask([found], "ADD_FILE", count=1, nbytes=100)["status"] == 0
    for _ in range(3):  # each keeps one of the manager's threads
        n_flushed = files.seen[FLUSH]
        assert ask([file])["block"] == pid
        until(lambda: files.seen[FLUSH] > n_flushed)
    assert ask([file], "ADD_FILE", nbytes=100)["status"] != 0
    stranger = connect()
    socket.send_fds(stranger, [packet("HELLO", client=1)], [file])
    stranger.close()
    check_others()
finally:
    files.end()
"""


@_needs_root
def test_files_whose_server_does_not_answer_hold_up_nobody(native_directory: Path) -> None:
    if not os.path.exists("/dev/fuse"):
        pytest.skip("this kernel has no FUSE")
    _run(native_directory, "files", _FILES)
