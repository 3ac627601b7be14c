"""System calls and allocations that fail, one after another: errors, and nothing else.

A sample here; ``make stress`` takes every single call. Not covered: kills at named steps
(test_crash).
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import native
import pytest
import waiting

HERE = Path(__file__).parent
SAMPLE = 37
#: So many loops share the calls of a whole one: they spend their time waiting for managers.
N_LOOPS = 6
ROLES = ("client", "manager")
#: How the call fails; see faults.c.
KINDS = ("fail", "fails", "eintr", "kill")


@pytest.fixture(scope="module")
def faulty_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("faulty")
    native.build(directory, faults=True)
    return directory


def _loop(directory: Path, role: str, kind: str, first: int, step: int) -> int:
    command = [sys.executable, HERE / "fault_loop.py", directory, role, kind]
    result = subprocess.run(
        [*map(str, command), str(first), str(step), "5000"],
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_F")},
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return int(result.stdout)


def _loops(directory: Path, role: str, kind: str, first: int, step: int) -> int:
    """As `_loop`, shared out."""
    with ThreadPoolExecutor(N_LOOPS) as threads:
        loops = [
            threads.submit(_loop, directory, role, kind, first + i * step, N_LOOPS * step)
            for i in range(N_LOOPS)
        ]
        return sum(loop.result() for loop in loops)


@pytest.mark.parametrize(("role", "kind"), [("client", "fails"), ("manager", "fail")])
def test_some_failing_calls_are_errors_and_leave_nothing(
    role: str, kind: str, faulty_directory: Path
) -> None:
    assert _loops(faulty_directory, role, kind, SAMPLE // 2, SAMPLE) > 3


@pytest.mark.stress
@pytest.mark.timeout(1600)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_failing_call_is_an_error_and_leaves_nothing(
    role: str, kind: str, faulty_directory: Path
) -> None:
    came = _loops(faulty_directory, role, kind, 1, 1)
    assert came > (50 if kind == "eintr" else 150)


_WITHOUT_PAGES = """
import ctypes, native, sys
from pathlib import Path
from native_ack import AckRing
from native_ring import DONE, EMPTY, FAILED, check_message, message

CAPACITY, LONG = 252 << 10, 30_000
owner = native.Native(Path(sys.argv[1]), int(sys.argv[2]))
no_pages = ctypes.c_int.in_dll(owner.lib, "shmt_fault_no_pages")

def refused(call):
    no_pages.value = 1
    result = call()
    no_pages.value = 0
    return result

# What has pages takes messages; a message that needs more is refused, and nothing else happens.
ring = AckRing(owner)
small, long = message(1, 10), message(2, LONG)
assert refused(lambda: ring.put(small)) == DONE
assert refused(lambda: ring.put(long)) == FAILED
text = owner.lib.shmt_error_message().decode()
assert "unable to allocate shared memory: tried" in text, text
assert ring.n_left() == 1
assert ring.put(long) == DONE
assert refused(lambda: ring.put(message(3, 10))) == DONE  # some pages more came with those
for seq in (1, 2, 3):
    assert check_message(ring.get()[1]) == seq

# The ring of what is not acknowledged yet: the message stays in the queue.
assert ring.put(long) == DONE
assert refused(ring.deliver)[0] == FAILED
result, data, _, number, deliveries = ring.deliver()
assert (result, check_message(data), deliveries) == (DONE, 2, 1)
ring.acknowledge(number)

# A message that goes back is written where it was.
ring = AckRing(owner)
block = owner.new(1000).fill(7)
assert ring.put(message(5, 200), (block,)) == DONE
del block
number = ring.deliver()[3]
refused(lambda: ring.let_go(number))
assert ring.n_left() == 1
result, data, blocks, number, deliveries = ring.deliver()
assert (result, check_message(data), deliveries) == (DONE, 5, 2)
assert [b.value() for b in blocks] == [7]
ring.acknowledge(number)
assert ring.get(wait=False)[0] == EMPTY
"""


def test_a_ring_for_whose_messages_there_are_no_pages_loses_none(faulty_directory: Path) -> None:
    session = (os.getpid() << 42) | 1 << 39
    program = [sys.executable, "-c", _WITHOUT_PAGES, str(faulty_directory), str(session)]
    env = dict(os.environ, PYTHONPATH=os.pathsep.join([str(HERE), *sys.path]))
    result = subprocess.run(
        program, env=env, capture_output=True, text=True, timeout=100, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]


_WITHOUT_MEMFD = """
import native, os, signal, sys
from pathlib import Path
n = native.Native(Path(sys.argv[1]), int(sys.argv[2]))
kept = n.new(100_000).fill(3)
paths = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
links = [os.readlink(path) for path in paths if os.path.islink(path)]
assert sum(link.startswith("/dev/shm/#") for link in links) == 2, links
native.work(n)
os.kill(n.status()["manager_pid"], signal.SIGKILL)
native.work(n)
assert kept.value() == 3
"""


def test_without_memfd_create_everything_works(faulty_directory: Path) -> None:
    """Files without a name in /dev/shm stand in, and none of them stays."""
    before = set(os.listdir("/dev/shm"))
    session = (os.getpid() << 42) | 1 << 40
    program = [sys.executable, "-c", _WITHOUT_MEMFD, str(faulty_directory), str(session)]
    env = dict(os.environ, SHMTENSOR_FAULT="any,lack:memfd_create,0,-", PYTHONPATH=str(HERE))
    result = subprocess.run(
        program, env=env, capture_output=True, text=True, timeout=100, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert waiting.nothing_new_in_dev_shm(before)
