"""A manager that is stopped while it starts: nobody waits for it for ever, and others not at all.

Not covered: one that is stopped later (test_members).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import waiting

import shmtensor

# It stops once, and is the real manager afterwards.
_MANAGER = """#!/bin/sh
folder=$(dirname "$0")
if rm "$folder/token" 2> /dev/null; then
  echo $$ > "$folder/pid.new"
  mv "$folder/pid.new" "$folder/pid"
  kill -STOP $$
fi
exec {real} "$@"
"""

_PREPARE = """
import os, signal, sys, threading
from pathlib import Path
from waiting import process_state, until

folder = Path(sys.argv[1])

def stopped():
    "The pid of the manager, once it has stopped."
    until((folder / "pid").exists)
    pid = int((folder / "pid").read_text())
    until(lambda: process_state(pid) == "T")
    return pid

def has_children():
    try:
        return os.waitpid(-1, os.WNOHANG) or True
    except ChildProcessError:
        return False
"""


def _run(native_directory: Path, folder: Path, program: str) -> None:
    manager = folder / "shmtensor-manager"
    manager.write_text(_MANAGER.format(real=native_directory / "shmtensor-manager"))
    manager.chmod(0o755)
    (folder / "libshm.so").symlink_to(native_directory / "libshm.so")
    (folder / "token").touch()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_M")}
    root = Path(shmtensor.__file__).parents[1]
    environment["PYTHONPATH"] = waiting.python_path(Path(__file__).parent, root)
    done = subprocess.run(
        [sys.executable, "-c", _PREPARE + program, folder],
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stderr


_OTHERS = """
import native

n = native.Native(folder)
made = []
thread = threading.Thread(target=lambda: made.append(n.new(1000).fill(7)))
thread.start()
pid = stopped()
child = os.fork()  # takes all locks
if child == 0:
    paths = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    links = [os.readlink(path) for path in paths if os.path.islink(path)]
    os._exit(any("socket:" in link for link in links))  # one would keep the session's name
assert os.waitpid(child, 0)[1] == 0
assert not made
os.kill(pid, signal.SIGCONT)
thread.join()
assert made[0].value() == 7
assert not has_children()
"""


@pytest.mark.check
def test_other_threads_fork_while_a_manager_is_stopped_that_starts(
    native_directory: Path, tmp_path: Path
) -> None:
    _run(native_directory, tmp_path, _OTHERS)


_INTERRUPTED = """
import shmtensor as st
from shmtensor import _C

_C.lib.shmt_sharing_configure(os.fsencode(folder / "shmtensor-manager"), 0, 0)

def interrupt():
    stopped()
    os.kill(os.getpid(), signal.SIGINT)

thread = threading.Thread(target=interrupt)
thread.start()
try:
    st.ones(3, shared=True)
    raise AssertionError("not interrupted")
except KeyboardInterrupt:
    pass
thread.join()
assert not has_children()
assert st.ones(3, shared=True).sum() == 3
"""


def test_start_of_a_manager_can_be_interrupted(native_directory: Path, tmp_path: Path) -> None:
    _run(native_directory, tmp_path, _INTERRUPTED)


_GIVEN_UP = """
import native

n = native.Native(folder)
try:
    n.new(1000)
    raise AssertionError("no error")
except native.NativeError as error:
    assert "did not start within 30000 ms (is it stopped?)" in str(error), error
assert not has_children()
assert n.new(1000).fill(7).value() == 7
"""


_FORK = """
import native, time

def has_other_threads(pid):
    "They keep the manager's connections a moment longer."
    try:
        return os.listdir(f"/proc/{pid}/task") != [str(pid)]
    except FileNotFoundError:
        return False

(folder / "token").unlink()
n = native.Native(folder)
held = n.new(1000).fill(7)
(folder / "token").touch()
manager = n.status()["manager_pid"]
os.kill(manager, signal.SIGKILL)
until(lambda: process_state(manager) in ("", "Z") and not has_other_threads(manager))
begun = time.monotonic()
child = os.fork()
if child == 0:
    os._exit(held.value() != 7)
assert (folder / "pid").exists()
assert time.monotonic() - begun < 15  # two seconds, and not the thirty of other calls
assert os.waitpid(child, 0)[1] == 0
assert not has_children()
assert n.new(1000).fill(8).value() == 8
"""


@pytest.mark.check
def test_fork_waits_not_long_for_a_manager_that_does_not_start(
    native_directory: Path, tmp_path: Path
) -> None:
    _run(native_directory, tmp_path, _FORK)


@pytest.mark.stress
def test_manager_that_does_not_start_is_killed(native_directory: Path, tmp_path: Path) -> None:
    _run(native_directory, tmp_path, _GIVEN_UP)
