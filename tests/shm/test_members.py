"""Members of a session without a manager: it is stopped or killed at the worst moment.

Not covered: processes killed at the steps of the protocol (test_crash).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import native
import pytest

_PREPARE = """
import os, signal, sys, time
import native
from pathlib import Path
from waiting import until

n = native.Native(Path(sys.argv[1]))
manager = n.status()["manager_pid"]
go, done = os.pipe(), os.pipe()

def child(work):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(go[1])
            work()
            code = 0
        finally:
            os._exit(code)
    os.close(go[0])
    return pid

def end(pid):
    assert os.waitpid(pid, 0)[1] == 0
"""


def _run(directory: Path, program: str, before: str = "", **environment: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", before + _PREPARE + program, directory],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent), **environment},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]


_FORK_BESIDE_STOPPED_MANAGER = """
import gc
inherited = [n.new(size).fill(7) for size in (1000, 100_000, 3_000_000)]
others = [n.new(size) for size in (1000, 100_000)]  # their slabs are there: no request below

def work():
    global inherited
    os.read(go[0], 1)  # by now the parent has let go of all, and used what was free
    assert [b.value() for b in inherited] == [7, 7, 7]
    handle = inherited[1].handle()
    os.write(done[1], handle)
    os.read(go[0], 1)
    del inherited
    gc.collect()

os.kill(manager, signal.SIGSTOP)
try:
    pid = child(work)
    del inherited
    filled = [n.new(size).fill(9) for size in (1000, 100_000) for _ in range(5)]
finally:
    os.kill(manager, signal.SIGCONT)
os.write(go[1], b"x")
assert n.open(os.read(done[0], 56)).value() == 7
os.write(go[1], b"x")
end(pid)
assert n.status()["n_leases"] == 0
until(lambda: n.status()["n_clients"] == 1)
"""


@pytest.mark.check
def test_child_forked_beside_a_stopped_manager_keeps_what_it_inherits(
    native_directory: Path,
) -> None:
    _run(native_directory, _FORK_BESIDE_STOPPED_MANAGER)


_FORK_BESIDE_STOPPED_MANAGERS = """
import subprocess
other = \"\"\"
import os, sys, native
from pathlib import Path
n = native.Native(Path(sys.argv[1]))
kept = n.new(1000).fill(5)
os.write(1, n.status()["manager_pid"].to_bytes(8, "little") + kept.handle())
sys.stdin.read()
\"\"\"
inherited = [n.new(1000).fill(7)]
managers, others = [], []
for i in range(6):
    others.append(subprocess.Popen([sys.executable, "-c", other, sys.argv[1]],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    answer = others[-1].stdout.read(8 + 56)
    managers.append(int.from_bytes(answer[:8], "little"))
    inherited.append(n.open(answer[8:]))

def work():
    os.read(go[0], 1)
    assert [b.value() for b in inherited] == [7] + [5] * 6

for pid in managers[:5]:
    os.kill(pid, signal.SIGSTOP)
try:
    begun = time.monotonic()
    pid = child(work)
    took = time.monotonic() - begun
finally:
    for stopped in managers[:5]:
        os.kill(stopped, signal.SIGCONT)
assert took < 5 * 2, took  # a wait for each of the five takes two seconds at least
os.write(go[1], b"x")
end(pid)
for process in others:
    process.communicate()
"""


def test_fork_beside_several_stopped_managers_waits_once(native_directory: Path) -> None:
    _run(native_directory, _FORK_BESIDE_STOPPED_MANAGERS)


_KILLED_BESIDE_STOPPED_MANAGER = """
import subprocess
kept = n.new(1000).fill(5)
token = Path(os.environ["TOKEN"])
worker = f\"\"\"
import os, signal, sys, native
from pathlib import Path
n = native.Native(Path(sys.argv[1]), {n.session})
inherited = n.new(100_000).fill(7)
os.kill({manager}, signal.SIGSTOP)
Path({str(token)!r}).touch()
os.fork()
\"\"\"
armed = {**os.environ, "SHMTENSOR_FAILPOINT": os.environ["POINT"] + ":" + str(token)}
try:
    result = subprocess.run([sys.executable, "-c", worker, sys.argv[1]], env=armed, timeout=60)
finally:
    os.kill(manager, signal.SIGCONT)
assert result.returncode == -9 and not token.exists()
until(lambda: n.status()["n_clients"] == 1)
assert kept.value() == 5
"""


@pytest.mark.parametrize("point", native.failpoints("stopped"))
def test_kill_beside_a_stopped_manager_leaves_no_number(
    point: str, native_directory: Path, tmp_path: Path
) -> None:
    _run(native_directory, _KILLED_BESIDE_STOPPED_MANAGER, POINT=point, TOKEN=str(tmp_path / "t"))


_FORWARD_AFTER_KILL = """
made = n.new(5000, as_file=True).fill(3)
handle = made.handle()
later = n.new(6000, as_file=True).fill(4)
unread = later.handle()

def work():
    got = n.open(handle)
    os.write(done[1], b"x")
    os.read(go[0], 1)  # its maker has dropped it, the manager is dead
    assert got.value() == 3
    os.write(done[1], got.handle())
    os.read(go[0], 1)

pid = child(work)
os.read(done[0], 1)
del made, later
os.kill(manager, signal.SIGKILL)
os.write(go[1], b"x")
assert n.open(os.read(done[0], 56)).value() == 3
assert n.open(unread).value() == 4
os.write(go[1], b"x")
end(pid)
assert n.status()["manager_pid"] != manager
until(lambda: n.status()["n_leases"] == 0)
"""


@pytest.mark.check
def test_file_of_a_gone_maker_is_forwarded_after_the_manager_was_killed(
    native_directory: Path,
) -> None:
    _run(native_directory, _FORWARD_AFTER_KILL)


# The handler that was registered first runs last before a fork: the child has its number then.
_STOP_BEFORE_FORK = """
import ctypes, os, signal
to_stop = []

@ctypes.PYFUNCTYPE(None)
def stop():
    for pid in to_stop:
        os.kill(pid, signal.SIGSTOP)

assert ctypes.PyDLL(None).__register_atfork(stop, None, None, None) == 0
"""


def test_file_of_a_child_that_no_manager_has_heard_of_is_found(native_directory: Path) -> None:
    program = _FORWARD_AFTER_KILL.replace("pid = child", "to_stop.append(manager)\npid = child")
    _run(native_directory, program, before=_STOP_BEFORE_FORK)


_DESCRIPTORS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
before = len(os.listdir("/proc/self/fd"))
blocks = [n.new(5000, as_file=True).fill(i % 256) for i in range(200)]
assert len(os.listdir("/proc/self/fd")) <= before + 17
assert [b.value() for b in blocks] == [i % 256 for i in range(200)]
del blocks
assert len(os.listdir("/proc/self/fd")) <= before
"""


def test_files_take_a_bounded_number_of_descriptors(native_directory: Path) -> None:
    _run(native_directory, _DESCRIPTORS)
