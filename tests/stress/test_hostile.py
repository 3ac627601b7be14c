"""Processes that say anything to the manager, and other users: nobody else notices.

A pair of processes works all the while. SHMTENSOR_STRESS_SECONDS (60) is the length of an attack.
Not covered: the decoders alone (tests/fuzz).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

sys.path.insert(0, str(Path(__file__).parents[2] / "csrc"))

from stress_programs import run

from codegen.emit.protocol import load_wire

pytestmark = [pytest.mark.stress, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
WIRE = load_wire(ROOT / "csrc" / "spec" / "wire.yaml", ROOT)
SECONDS = int(os.environ.get("SHMTENSOR_STRESS_SECONDS", "60"))

_PREPARE = """
import os, random, select, socket, struct, sys, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing

seconds = float(sys.argv[1])
rng = random.Random(int(sys.argv[2]))
name = "\\0" + os.environ["SHMTENSOR_MANAGER"][1:]

def connect():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setblocking(False)
    s.connect(name)
    return s

def echo(there, back):
    while (tensor := there.get()) is not None:
        back.put(tensor + 1)

class Victims:
    def __init__(self):
        context = mp.get_context("fork")
        self.there, self.back = context.SimpleQueue(), context.SimpleQueue()
        self.child = context.Process(target=echo, args=(self.there, self.back), daemon=True)
        self.child.start()
        self.mine = st.full((1000,), 4.0).share_memory_()
        # A lent one: the manager keeps the arena's descriptor for reading, once asked for it.
        self.there.put(mp.lend(self.mine))
        assert self.back.get().sum() == 5000
        self.turn(0)
        status = sharing.status()
        self.manager, self.n_clients = status["manager_pid"], status["n_clients"]
        self.before = self.measure()

    def measure(self):
        text = open(f"/proc/{self.manager}/status").read()
        resident = int(text.split("VmRSS:")[1].split()[0])
        return resident, len(os.listdir(f"/proc/{self.manager}/fd"))

    def turn(self, i):
        self.there.put(st.full((rng.choice((10, 5000, 100_000)),), float(i)))
        got = self.back.get()
        assert got[0] == i + 1 and got[-1] == i + 1

    def check(self):
        deadline = time.monotonic() + 60
        while True:  # connections that say nothing are closed after 5 s
            status, after = sharing.status(), self.measure()
            assert status["manager_pid"] == self.manager
            if after[1] <= self.before[1] and status["n_clients"] == self.n_clients:
                break
            assert time.monotonic() < deadline, (self.before, after, status)
            time.sleep(0.1)
        assert after[0] - self.before[0] <= 1024, (self.before, after)
        self.turn(7)
        assert self.mine.sum() == 4000
        self.there.put(None)
        self.child.join()
        assert self.child.exitcode == 0
"""

_RANDOM_BYTES = """
victims = Victims()
deadline = time.monotonic() + seconds
sockets, i = [], 0
while time.monotonic() < deadline:
    i += 1
    if i % 20 == 0:
        victims.turn(i)
    if len(sockets) < 50:
        sockets.append(connect())
    s = rng.choice(sockets)
    data = bytearray(rng.randbytes(256 if rng.random() < 0.8 else rng.randrange(3000)))
    if rng.random() < 0.9:
        data[:8] = b"SHTW\\1\\0" + bytes([rng.randint(0, 40), 0])
    try:
        if rng.random() < 0.1:
            socket.send_fds(s, [bytes(data)], [0, 1, 2] * rng.randint(1, 40))
        else:
            s.send(data)
        if rng.random() < 0.3:
            s.recv(1000)
    except BlockingIOError:
        pass
    except OSError:
        s.close()
        sockets.remove(s)
for s in sockets:
    s.close()
victims.check()
"""


@pytest.mark.parametrize("seed", range(2))
def test_random_bytes_over_fifty_connections_change_nothing(seed: int) -> None:
    run(_PREPARE + _RANDOM_BYTES, SECONDS, seed)


# A process of the same user that speaks the protocol, with bytes changed; killed at last.
_CHANGED_PACKETS = """
PACKET = struct.Struct("<IHHIiIIQQQQQQQ176x")
VERSION, LAST = int(sys.argv[3]), int(sys.argv[4])
session = int(name.rsplit("-", 1)[1], 16)
known, files = {}, [os.memfd_create("a"), os.memfd_create("b")]

def genuine(kind, client=0, incarnation=0):
    head = 0x57544853, VERSION, kind, 1, 0, client, 0, session, 0, incarnation
    return bytearray(PACKET.pack(*head, 4096, 0, 4, 0))

def begin():
    s = connect()
    if rng.random() < 0.7:
        s.settimeout(30)
        s.send(genuine(1))
        reply = PACKET.unpack(s.recv(256))
        known[s] = reply[5], reply[9]
        s.setblocking(False)
    return s

def say(s):
    packet = genuine(rng.randint(1, LAST), *known.get(s, (0, 0)))
    for _ in range(rng.choice((0, 1, 1, 3))):
        at = rng.choice((*range(2, 48), *range(56, 64)))  # not the size of a grant: 48 to 56
        packet[at] = rng.randrange(256)
    if rng.random() < 0.2:
        socket.send_fds(s, [bytes(packet)], [0, *files][: rng.randint(1, 3)])
    else:
        s.send(packet if rng.random() < 0.95 else packet[: rng.randrange(256)])
    if rng.random() < 0.5:
        for fd in socket.recv_fds(s, 1000, 8)[1]:
            os.close(fd)

def attack():
    sockets = []
    while True:
        try:
            while len(sockets) < 50:
                sockets.append(begin())
            s = rng.choice(sockets)
            say(s)
        except BlockingIOError:
            continue
        except OSError:
            for old in sockets if len(sockets) < 50 else [s]:
                old.close()
                known.pop(old, None)
            sockets = [old for old in sockets if old.fileno() >= 0]

victims = Victims()
pid = os.fork()
if pid == 0:
    try:
        attack()
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(1)
deadline = time.monotonic() + seconds
i = 0
try:
    while time.monotonic() < deadline:
        i += 1
        victims.turn(i)
        assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    os.kill(pid, 9)
    os.waitpid(pid, 0)
except BaseException:
    os.kill(pid, 9)
    raise
victims.check()
"""


@pytest.mark.parametrize("seed", range(2))
def test_changed_genuine_packets_change_nothing_for_others(seed: int) -> None:
    run(_PREPARE + _CHANGED_PACKETS, SECONDS, seed, WIRE.version, len(WIRE.messages))


_OTHER_USER = """
victims = Victims()
manager = victims.manager
pid = os.fork()
if pid == 0:
    code = 1
    try:
        os.setgid(65534)
        os.setuid(65534)
        s = connect()
        s.settimeout(30)
        try:
            s.send(b"x" * 256)
            refused = s.recv(256) == b""
        except OSError:
            refused = True
        assert refused, "another user was answered"
        for process in (manager, os.getppid()):
            for what in ("fd", "mem", "maps"):
                try:
                    path = f"/proc/{process}/{what}"
                    os.listdir(path) if what == "fd" else open(path).read(1)
                except OSError:
                    continue
                raise AssertionError(f"another user reads {path}")
        code = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(code)
assert os.waitpid(pid, 0)[1] == 0
victims.check()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_another_user_is_refused() -> None:
    run(_PREPARE + _OTHER_USER, 0, 0)


_STALLED = """
victims = Victims()
sockets = [connect() for _ in range(60)]
packet = struct.pack("<IHHI", 0x57544853, int(sys.argv[3]), 11, 1).ljust(256, b"\\0")
for s in sockets[:30]:  # ask, and never read; the others never say a word
    try:
        for _ in range(5000):
            s.send(packet)
    except OSError:
        continue
for i in range(200):
    victims.turn(i)
assert sharing.status()["manager_pid"] == victims.manager
time.sleep(6)
for s in sockets:
    s.settimeout(30)
    try:
        while s.recv(1000):
            pass
    except OSError:
        pass
    s.close()
victims.check()
"""


def test_clients_that_stall_or_never_read_hold_up_nobody() -> None:
    run(_PREPARE + _STALLED, 0, 0, WIRE.version)
