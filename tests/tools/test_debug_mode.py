"""``SHMTENSOR_DEBUG=1``: freed memory is poisoned, blocks are checked, double releases named.

Each script runs in a process of its own, since the option is read when the library is loaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_HEAD = """
import ctypes, os
import shmtensor as T
import shmtensor.multiprocessing as mp
from multiprocessing.reduction import ForkingPickler

def bytes_at(address, n):
    return set(ctypes.string_at(address, n))
"""


def _run(script: str, debug: str = "1") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))}
    environment.pop("SHMTENSOR_MANAGER", None)
    environment["SHMTENSOR_DEBUG"] = debug
    return subprocess.run(
        [sys.executable, "-c", _HEAD + script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.check
@pytest.mark.parametrize("n", [1000, 100_000, 3_000_000])
def test_freed_shared_memory_is_poisoned(n: int) -> None:
    script = f"""
keep = T.zeros({n}, dtype=T.uint8, shared=True)  # the slab stays
t = T.full(({n},), 7, dtype=T.uint8, shared=True)
address = t.data_ptr()
del t
assert bytes_at(address, {n}) <= {{0xdb, 0}}  # 0: the manager has taken the pages by now
assert set(T.empty({n}, dtype=T.uint8, shared=True).tolist()) == {{0xdb}}
assert not T.zeros({n}, dtype=T.uint8, shared=True).any()
assert not keep.any()
"""
    done = _run(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif("SHMTENSOR_SANITIZER" in os.environ, reason="poisons by itself")
def test_freed_private_memory_is_poisoned() -> None:
    script = """
t = T.full((1000,), 7, dtype=T.uint8)
address = t.data_ptr()
del t
assert 7 not in bytes_at(address + 64, 900)
"""
    assert _run(script).returncode == 0


def test_receiver_that_lets_go_last_poisons() -> None:
    script = """
queue = mp.get_context("fork").SimpleQueue()
answer = mp.get_context("fork").SimpleQueue()

def child():
    t = queue.get()
    answer.put("held")
    queue.get()
    address = t.data_ptr()
    assert t.sum() == 7000
    del t
    answer.put(bytes_at(address, 1000))

process = mp.get_context("fork").Process(target=child)
process.start()
t = T.full((1000,), 7, dtype=T.uint8, shared=True)
queue.put(t)
answer.get()
del t
queue.put("go")
assert answer.get() <= {0xdb, 0}  # 0: the manager has taken the pages by now
process.join()
"""
    done = _run(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.check
def test_message_opened_twice_is_named() -> None:
    script = """
t = T.ones(3)
message = bytes(ForkingPickler.dumps(t))
assert ForkingPickler.loads(message).sum() == 3
try:
    ForkingPickler.loads(message)
except T.errors.HandleError as error:
    assert "its message was opened before" in str(error), error
else:
    raise AssertionError("opened twice")
assert t.sum() == 3
"""
    done = _run(script)
    assert done.returncode == 0, done.stderr
    without = _run(script, debug="0")
    assert "opened twice" in without.stderr


def test_double_release_is_named() -> None:
    script = """
t = T.ones(3).share_memory_()
storage = t.untyped_storage()
storage._shared_incref()
storage._shared_decref()
try:
    storage._shared_decref()
except RuntimeError as error:
    assert "released twice" in str(error), error
else:
    raise AssertionError("released twice")
"""
    done = _run(script)
    assert done.returncode == 0, done.stderr


def test_everyday_use_works_in_debug_mode() -> None:
    script = """
context = mp.get_context("spawn")
queue = context.Queue()
for i in range(50):
    queue.put({"a": T.full((100,), float(i)), "b": [T.ones(2, shared=True)]})
got = [queue.get() for _ in range(50)]
assert [int(g["a"][0]) for g in got] == list(range(50))
del got
queue.close()
queue.join_thread()
with mp.get_context("fork").Pool(2) as pool:
    got = pool.map(T.neg, [T.ones(3) * i for i in range(4)])
    assert [int(t[0]) for t in got] == [0, -1, -2, -3]
"""
    done = _run(script)
    assert (done.returncode, "released twice" in done.stderr) == (0, False), done.stderr
