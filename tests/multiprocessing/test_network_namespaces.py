"""Members of one session in different network namespaces.

Managers listen on abstract sockets, which another network namespace does not see. A process that
enters one goes on with what it has, and no second manager may take the session's memory.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_NEW_NET = 0x40000000  # CLONE_NEWNET

_PREPARE = f"""
import ctypes, os, signal, sys, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing

def leave_network():
    assert ctypes.CDLL(None, use_errno=True).unshare({_NEW_NET}) == 0, ctypes.get_errno()

def churn():
    '''Use whatever memory is free, and let it go.'''
    return [st.full((n,), -1.0, shared=True) for n in (16, 1000, 100_000) for _ in range(50)]
"""


def _run(program: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k != "SHMTENSOR_MANAGER"}
    result = subprocess.run(
        [sys.executable, "-c", _PREPARE + program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]


def _may_unshare() -> bool:
    program = f"import ctypes; raise SystemExit(ctypes.CDLL(None).unshare({_NEW_NET}) != 0)"
    return subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


pytestmark = pytest.mark.skipif(not _may_unshare(), reason="no right to make a network namespace")


@pytest.mark.check
def test_a_member_goes_on_in_another_network_namespace() -> None:
    _run(
        """
def child(queue, back):
    x = queue.get()
    leave_network()
    x += 1
    churn()
    back.put(st.zeros(1 << 20, shared=True) + 5)
    y = queue.get()
    y *= 2
    back.put(y)

context = mp.get_context("fork")
queue, back = context.Queue(), context.Queue()
process = context.Process(target=child, args=(queue, back))
process.start()
x = st.zeros(1 << 20, shared=True)
queue.put(x)
assert (back.get() == 5).all()
assert (x == 1).all()
y = st.ones(3, shared=True)
queue.put(y)
back.get()
assert y.tolist() == [2, 2, 2]
process.join()
assert process.exitcode == 0
"""
    )


@pytest.mark.parametrize("first", ["child", "parent"])
def test_one_manager_follows_a_killed_one(first: str) -> None:
    """It runs where the first process needed one; the other cannot reach it, and harms nothing."""
    _run(
        f"""
FIRST = {first!r}

def attempt():
    '''Return the manager's process id; None: it cannot be reached.'''
    try:
        churn()  # the process may have enough memory of its own
        return sharing.status()["manager_pid"]
    except st.errors.ManagerError as error:
        assert "in another network namespace" in str(error), error
        return None

def child(queue, back):
    x = queue.get()
    leave_network()
    back.put("left")
    while queue.get(timeout=60) == "churn":
        assert (x == 3).all()
        back.put(attempt())

context = mp.get_context("fork")
queue, back = context.Queue(), context.Queue()
process = context.Process(target=child, args=(queue, back), daemon=True)
process.start()

def child_attempts():
    queue.put("churn")
    return back.get(timeout=60)

x = st.full((1 << 16,), 3.0, shared=True)
queue.put(x)
assert back.get(timeout=60) == "left"
manager = sharing.status()["manager_pid"]
first, second = (child_attempts, attempt) if FIRST == "child" else (attempt, child_attempts)
for _ in range(2):
    os.kill(manager, signal.SIGKILL)
    manager = first()
    assert manager is not None
    assert second() is None
    assert first() == manager
    assert (x == 3).all()
    first, second = second, first
queue.put("end")
process.join(60)
assert process.exitcode == 0, process.exitcode
assert (x == 3).all()
"""
    )
