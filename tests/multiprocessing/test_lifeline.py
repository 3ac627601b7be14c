"""Children end with the process that started them, and with nothing else."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import shmtensor.multiprocessing as mp

METHODS = ("fork", "spawn", "forkserver")
WAIT_S = 60  # against hangs; nothing here takes long


@contextmanager
def _pidfd(pid: int) -> Iterator[int]:
    pidfd = os.pidfd_open(pid)
    try:
        yield pidfd
    finally:
        if not mp.connection.wait([pidfd], 0):
            os.kill(pid, signal.SIGKILL)
        os.close(pidfd)


def _ends(pidfd: int) -> bool:
    return bool(mp.connection.wait([pidfd], WAIT_S))


_STARTED_BY_A_THREAD = """
import os, sys, threading
import mp_spawn_targets as targets
import shmtensor.multiprocessing as mp

method, path = sys.argv[1:]
made = []

def start():
    made.append(mp.start_processes(
        targets.wait_for_file, (path,), nprocs=2, join=False, start_method=method))

if __name__ == "__main__":
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    print("the thread has ended", flush=True)
    assert made[0].join(timeout=0.5) is False
    open(path, "w").close()
    while not made[0].join():
        pass
    assert [p.exitcode for p in made[0].processes] == [0, 0]
    print("well")
"""


@pytest.mark.parametrize("method", METHODS)
def test_children_outlive_the_thread_that_started_them(
    scripts: Any, tmp_path: Path, method: str
) -> None:
    script = scripts(_STARTED_BY_A_THREAD, method, str(tmp_path / "go"))
    assert script.line() == "the thread has ended"
    assert script.finish() == "well\n"


_FAMILY = """
import os, sys, threading, time
import mp_spawn_targets as targets
import shmtensor.multiprocessing as mp

method, target, by, *more = sys.argv[1:]

def start():
    if "spawn()" in more:
        mp.start_processes(
            getattr(targets, target), nprocs=1, join=False, start_method=method)
    else:
        process = mp.get_context(method).Process(target=getattr(targets, target))
        process.start()

if __name__ == "__main__":
    if by == "a thread":
        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
    else:
        start()
    if "a forked child lives on" in more:
        input()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            time.sleep(1000)
        print(pid, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("by", ["main", "a thread"])
@pytest.mark.parametrize("how", ["sleeps", "stopped", "in C code"])
def test_a_child_ends_with_its_parent(scripts: Any, method: str, by: str, how: str) -> None:
    hold = "_hold_the_interpreter" if how == "in C code" else "_sleep"
    script = scripts(_FAMILY, method, f"end_with_parent_and{hold}", by)
    pid = int(script.line())
    with _pidfd(pid) as pidfd:
        if how == "stopped":
            os.kill(pid, signal.SIGSTOP)
        script.process.kill()
        script.process.wait()
        assert _ends(pidfd)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("by", ["main", "a thread"])
def test_a_child_of_spawn_ends_with_its_parent(scripts: Any, method: str, by: str) -> None:
    script = scripts(_FAMILY, method, "announce_and_sleep", by, "spawn()")
    with _pidfd(int(script.line())) as pidfd:
        script.process.kill()
        script.process.wait()
        assert _ends(pidfd)


@pytest.mark.check
def test_a_stopped_parent_is_not_dead(scripts: Any) -> None:
    script = scripts(_FAMILY, "fork", "end_with_parent_and_sleep", "main")
    with _pidfd(int(script.line())) as pidfd:
        os.kill(script.process.pid, signal.SIGSTOP)
        assert mp.connection.wait([pidfd], 0.3) == []
        os.kill(script.process.pid, signal.SIGCONT)
        script.process.kill()
        script.process.wait()
        assert _ends(pidfd)


def test_what_the_parent_forks_does_not_keep_its_other_children(scripts: Any) -> None:
    script = scripts(
        _FAMILY, "fork", "end_with_parent_and_sleep", "a thread", "a forked child lives on"
    )
    child = int(script.line())
    script.say("fork")
    other = int(script.line())
    with _pidfd(child) as pidfd, _pidfd(other):
        script.process.kill()
        script.process.wait()
        assert _ends(pidfd)


_DIES_AT_ONCE = """
import os
import shmtensor.multiprocessing as mp

if __name__ == "__main__":
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:  # the parent: it starts a child, and dies before that has looked
        child = os.fork()
        if child == 0:
            os.read(r, 1)  # until the parent is dead
            mp.end_with_parent()
            os.write(1, b"lives on\\n")
            os._exit(0)
        os.write(1, b"%d\\n" % child)
        os._exit(0)
    os.close(r)
    os.waitpid(pid, 0)
    os.write(w, b"x")
    os.read(0, 1)
"""


@pytest.mark.check
def test_a_parent_that_died_before_the_child_looked(scripts: Any) -> None:
    script = scripts(_DIES_AT_ONCE)
    with _pidfd(int(script.line())) as pidfd:
        assert _ends(pidfd)
        script.say("end")
        assert script.finish() == ""


def test_a_first_process_has_no_parent_to_end_with(scripts: Any) -> None:
    script = scripts(
        """
import shmtensor.multiprocessing as mp
mp.end_with_parent()
print("well")
"""
    )
    assert script.finish() == "well\n"


def test_a_program_may_use_the_lifelines_number_for_a_file_of_its_own(scripts: Any) -> None:
    script = scripts(
        """
import os
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing import _lifeline

if os.fork() == 0:
    os._exit(0)
os.wait()
mine = _lifeline._mine
numbers = (mine.reader.fileno(), mine.writer.fileno())
for fd in numbers:
    os.close(fd)
for fd in numbers:
    os.dup2(1, fd)
if os.fork() == 0:
    assert all(os.fstat(fd) == os.fstat(1) for fd in numbers)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
assert all(os.fstat(fd) == os.fstat(1) for fd in numbers)
assert _lifeline._mine.is_whole()
print("well")
"""
    )
    assert script.finish() == "well\n"
