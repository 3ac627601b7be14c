"""What nobody holds is freed without anybody's help: no later drop or death brings it about.

Each case is a process and a session of its own. The models (``model/``) found these interleavings.
Not covered: kills at each step (test_crash).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import native
import native_ring
import pytest
import waiting

LARGE = 3_000_000
_BLOCK = slice(48, 52)  # of a handle


def _wait_until_freed(owner: native.Native) -> None:
    waiting.until(lambda: owner.status()["resident_bytes"] <= LARGE // 2, owner.status)


def messages_of_a_ring_that_nobody_opened(owner: native.Native) -> None:
    ring = native_ring.Ring(owner)
    assert ring.put(b"", (owner.new(LARGE).fill(1),)) == native_ring.DONE
    ring.handle()  # in a message that nobody reads
    ring.close()
    waiting.let_the_manager_look()
    assert owner.status()["n_leases"] == 2
    assert owner.collect() == 1
    _wait_until_freed(owner)
    assert owner.status()["n_leases"] == 0


def idle_memory_of_a_manager_killed_in_its_sweep(owner: native.Native) -> None:
    block = owner.new(LARGE).fill(1)
    manager = owner.status()["manager_pid"]
    token = Path(os.environ["SHMTENSOR_FAILPOINT"].split(":", 1)[1])
    token.touch()
    del block
    waiting.until(lambda: not token.exists(), lambda: "the manager was not killed")
    _wait_until_freed(owner)
    assert owner.status()["manager_pid"] != manager


def block_whose_last_holder_was_not_the_last_bit(owner: native.Native) -> None:
    first = owner.new(LARGE)
    stale = first.handle(lease=False)
    del first
    go, ready, end = os.pipe(), os.pipe(), os.pipe()
    token = Path(os.environ["SHMTENSOR_FAILPOINT"].split(":", 1)[1])
    pid = os.fork()
    if pid == 0:
        os.environ["SHMTENSOR_FAILPOINT_STOPS"] = "1"
        os.read(go[0], 1)
        try:
            owner.open(stale)
        except native.NativeError:
            os.write(ready[1], b"x")
        os.close(end[1])
        os.read(end[0], 1)
        os._exit(0)
    second = owner.new(LARGE).fill(2)
    assert second.handle(lease=False)[_BLOCK] == stale[_BLOCK]
    token.touch()
    os.write(go[1], b"x")
    assert os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])
    del second  # the stopped process's bit is set
    waiting.let_the_manager_look()
    os.kill(pid, signal.SIGCONT)
    assert os.read(ready[0], 1) == b"x"
    try:
        _wait_until_freed(owner)
    finally:
        os.close(end[1])
        os.waitpid(pid, 0)


class _Mark(ctypes.Structure):
    _fields_ = [("n", ctypes.c_uint32), ("sending_level", ctypes.c_uint32)]


def block_of_a_message_that_was_given_up_when_nobody_held_it_any_more(owner: native.Native) -> None:
    begin = owner.lib.shmt__unsent_begin
    begin.restype = _Mark
    mark = begin(ctypes.c_bool(True))
    owner.new(LARGE).fill(1).handle()
    waiting.let_the_manager_look()  # it finds the lease
    assert owner.status()["n_leases"] == 1
    owner.lib.shmt__unsent_end(mark, 0)
    assert owner.status()["n_leases"] == 0
    _wait_until_freed(owner)


CASES: dict[Callable[[native.Native], None], str] = {
    messages_of_a_ring_that_nobody_opened: "",
    idle_memory_of_a_manager_killed_in_its_sweep: "trim_begun",
    block_whose_last_holder_was_not_the_last_bit: "hold_set",
    block_of_a_message_that_was_given_up_when_nobody_held_it_any_more: "",
}


@pytest.mark.check
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_is_freed(case: Callable[[native.Native], None], native_directory: Path) -> None:
    number = list(CASES).index(case)
    session = (os.getpid() << 42) | 1 << 39 | number
    with tempfile.TemporaryDirectory() as directory:
        point = f"{CASES[case]}:{directory}/token"
        result = subprocess.run(
            [sys.executable, __file__, str(native_directory), str(session), str(number)],
            env=dict(os.environ, SHMTENSOR_FAILPOINT=point),
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
    assert result.returncode == 0, result.stdout + result.stderr


_SENDER = """
import os, signal, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import inspect

class Made:
    "A tensor that is made while it is pickled: only the message has it."
    def __reduce__(self):
        return tuple, ([st.ones(1 << 20, shared=True)],)

def used_bytes():
    with inspect.current() as session:
        return session.snapshot().used_bytes

def ring(number, frame):
    assert used_bytes() >= 4 << 20
    raise TimeoutError

receiver, sender = mp.Pipe(duplex=False)
os.set_blocking(sender.fileno(), False)
for nbytes in (4096, 1):
    try:
        while True:
            os.write(sender.fileno(), bytes(nbytes))
    except BlockingIOError:
        pass
os.set_blocking(sender.fileno(), True)
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 3)  # the manager has looked by then
try:
    sender.send(Made())
except TimeoutError:
    print("given up", flush=True)
while used_bytes() >= 4 << 20:
    time.sleep(0.1)
print("freed")
"""


def test_tensor_of_a_send_that_a_handler_ended_is_freed() -> None:
    result = subprocess.run(
        [sys.executable, "-c", _SENDER], capture_output=True, text=True, timeout=100, check=False
    )
    assert (result.returncode, result.stdout) == (0, "given up\nfreed\n"), result.stderr


if __name__ == "__main__":
    list(CASES)[int(sys.argv[3])](native.Native(Path(sys.argv[1]), int(sys.argv[2])))
