"""A worker, the parent or the manager is killed: the others go on, and in the end nothing is left.

Not covered: every single step of the protocol (tests/shm/test_crash), random instants
(tests/stress).
"""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import waiting
from mp_scripts import users_of

_FAMILY = """
import os, sys, time
import shmtensor as st
import shmtensor.multiprocessing as mp
import mp_children
from shmtensor._boundary import sharing

if __name__ == "__main__":
    context = mp.get_context(sys.argv[1])
    there, back = context.SimpleQueue(), context.SimpleQueue()
    child = context.Process(target=mp_children.hold, args=(there, back))
    child.start()
    model = st.full((100_000,), 2.0).share_memory_()
    for i in range(20):
        there.put(st.zeros(10_000))
        back.get()
    there.put(model)
    back.get()
    print(os.environ["SHMTENSOR_MANAGER"], os.getpid(), child.pid, flush=True)
    print(sharing.status()["manager_pid"], flush=True)
    for line in sys.stdin:
        if line == "status\\n":
            print(sharing.status()["resident_bytes"], sharing.status()["n_clients"], flush=True)
        elif line == "work\\n":
            fresh = [st.full((1000,), float(i)).share_memory_() for i in range(10)]
            grand = context.Process(target=mp_children.add_to_argument, args=(fresh[3],))
            grand.start()
            grand.join()
            assert grand.exitcode == 0
            print(fresh[3][0].item(), model.sum().item(), flush=True)
        else:
            child.kill()
            child.join()
            break
"""


def _start(scripts: Any, method: str) -> tuple[Any, str, int, int, int]:
    family = scripts(_FAMILY, method)
    session, parent, child = family.line().split()
    return family, session, int(parent), int(child), int(family.line())


def _wait_until_nobody_uses(session: str) -> None:
    waiting.until(lambda: not users_of(session), lambda: users_of(session))


@pytest.mark.check
def test_killed_worker_leaves_no_memory_and_no_client(scripts: Any) -> None:
    family, session, _, child, _ = _start(scripts, "fork")
    os.kill(child, signal.SIGKILL)

    def is_alone() -> bool:
        family.say("status")
        resident, clients = map(int, family.line().split())
        # What stays is the parent's: the model of 400 kB and two queues of 256 KiB.
        return clients == 1 and resident < 600_000 + 2 * 256 * 1024

    waiting.until(is_alone)
    family.say("work")
    assert family.line() == "4.0 200000.0"
    family.say("end")
    family.finish()
    _wait_until_nobody_uses(session)


def test_killed_parent_leaves_nothing_once_its_child_ends(scripts: Any) -> None:
    _, session, parent, child, manager = _start(scripts, "fork")
    os.kill(parent, signal.SIGKILL)
    waiting.until(lambda: not waiting.runs(parent))
    assert manager in users_of(session)  # the child still holds tensors
    os.kill(child, signal.SIGKILL)
    _wait_until_nobody_uses(session)


def test_killed_manager_is_replaced_and_data_stays_whole(scripts: Any) -> None:
    family, session, _, _, manager = _start(scripts, "spawn")
    os.kill(manager, signal.SIGKILL)
    family.say("work")
    assert family.line() == "4.0 200000.0"
    family.say("end")
    family.finish()
    _wait_until_nobody_uses(session)


@pytest.mark.check
def test_everybody_killed_at_once_leaves_nothing(scripts: Any) -> None:
    _, session, parent, child, manager = _start(scripts, "fork")
    for pid in (manager, child, parent):
        os.kill(pid, signal.SIGKILL)
    _wait_until_nobody_uses(session)


def test_stopped_manager_does_not_stop_mapped_data(scripts: Any) -> None:
    family, session, _, _, manager = _start(scripts, "fork")
    os.kill(manager, signal.SIGSTOP)
    try:
        family.say("work")  # forks, so it waits for the manager a while, and goes on without
        time.sleep(0.5)
    finally:
        os.kill(manager, signal.SIGCONT)
    assert family.line() == "4.0 200000.0"
    family.say("end")
    family.finish()
    _wait_until_nobody_uses(session)


_HOSTILE = """
import os, random, socket, sys
name = "\\0" + sys.argv[1][1:]
rng = random.Random(3)
for turn in range(300):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(name)
    try:
        for _ in range(rng.randint(1, 4)):
            data = bytearray(os.urandom(rng.choice((0, 1, 80, 256, 256, 256, 1000))))
            if len(data) == 256:
                # A header that is right, so that the rest is looked at.
                data[:8] = b"SHTW\\1\\0" + bytes([rng.randint(0, 20), rng.choice((0, 0, 0, 128))])
            s.send(data)
    except OSError:
        pass
    s.close()
"""


def test_random_bytes_at_the_socket_change_nothing_for_others(scripts: Any) -> None:
    family, session, _, _, manager = _start(scripts, "fork")
    n_descriptors = len(os.listdir(f"/proc/{manager}/fd"))
    scripts(_HOSTILE, session).finish()
    deadline = time.monotonic() + 60
    while len(os.listdir(f"/proc/{manager}/fd")) > n_descriptors:
        assert time.monotonic() < deadline, "connections of strangers stay open"
        time.sleep(0.05)
    family.say("work")
    assert family.line() == "4.0 200000.0"
    family.say("status")
    assert family.line().endswith(" 2")
    family.say("end")
    family.finish()
    _wait_until_nobody_uses(session)


_STRANGER = """
import socket, struct, sys
name, session = "\\0" + sys.argv[1][1:], int(sys.argv[1].rpartition("-")[2], 16)
for kind in range(64):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(name)
    head = struct.pack("<IHHIiIIQ", 0x57544853, 1, kind, 1, 0, 0, 0, session)
    s.send(head.ljust(256, b"\\0"))
    s.settimeout(0.05)
    try:
        s.recv(256)
    except OSError:
        pass
    s.close()
"""


def test_no_message_of_a_stranger_ends_the_manager(scripts: Any) -> None:
    family, session, _, _, manager = _start(scripts, "fork")
    scripts(_STRANGER, session).finish()
    os.kill(manager, 0)
    family.say("work")
    assert family.line() == "4.0 200000.0"
    family.say("end")
    family.finish()
    _wait_until_nobody_uses(session)
