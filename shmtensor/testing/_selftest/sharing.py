"""Tensors between processes: every start method, and a process that is killed.

This section's process is the first of a session of its own.
"""

from __future__ import annotations

import os
import queue
import signal
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import shmtensor as T
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing
from shmtensor.inspect import Session
from shmtensor.testing._selftest.section import Trial, close, same

__all__ = ["CHECKS"]

_TIMEOUT_S = 60.0
_N = 100_000


def _double(tasks: Any, results: Any, shared: T.Tensor) -> None:
    """Write into *shared*, then send back twice what comes, until None comes."""
    shared += 1
    for x in iter(tasks.get, None):
        results.put((x * 2, os.getpid()))


def _keep(tasks: Any, results: Any) -> None:
    """Take one tensor and keep it until killed."""
    kept = tasks.get()
    results.put((kept.sum().item(), os.getpid()))
    time.sleep(_TIMEOUT_S)


def _flood(results: Any) -> None:
    """Put messages until killed."""
    while True:
        results.put(T.ones(64))


def _queues(method: str) -> str:
    context: Any = mp.get_context(method)
    tasks, results = context.Queue(), context.Queue()
    shared = T.zeros(_N, shared=True)
    child = context.Process(target=_double, args=(tasks, results, shared), daemon=True)
    child.start()
    try:
        sent = T.arange(_N, dtype=T.float64)
        for size in (1, 100, _N):
            tasks.put(sent[:size])
            back, pid = results.get(timeout=_TIMEOUT_S)
            same("values that came back", back.equal(sent[:size] * 2), True)
            same("sender", pid, child.pid)
            same("the tensor that came back is shared", back.is_shared(), True)
        tasks.put(None)
        child.join(_TIMEOUT_S)
        same("exit status", child.exitcode, 0)
        close("the child's writes in the parent's memory", shared, 1.0, 0.0)
    finally:
        child.kill()
        child.join()
        for q in (tasks, results):
            q.close()
    return "queues there and back, writes in place"


def _wait(what: str, happened: Callable[[], bool], timeout_s: float = 10.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not happened():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {timeout_s:g} s")
        time.sleep(0.02)


def _killed_holder() -> str:
    context = mp.get_context("spawn")
    tasks, results = context.Queue(), context.Queue()
    child = context.Process(target=_keep, args=(tasks, results), daemon=True)
    child.start()
    try:
        sent = T.ones(_N, shared=True)
        tasks.put(sent)
        same("what the child read", results.get(timeout=_TIMEOUT_S), (float(_N), child.pid))
        nbytes = sent.nbytes
        del sent  # from here on only the child holds it
        with _own_session() as session:
            before = session.snapshot()
            same("the child is in the session", child.pid in [c.pid for c in before.clients], True)
            os.kill(child.pid or 0, signal.SIGKILL)
            child.join(_TIMEOUT_S)
            same("exit status", child.exitcode, -signal.SIGKILL)
            limit = before.used_bytes - nbytes
            _wait("freeing what it held", lambda: session.snapshot().used_bytes <= limit)
            gone = [c.pid for c in session.snapshot().clients]
            same("the child is in the session", child.pid in gone, False)
    finally:
        child.kill()
        child.join()
        for q in (tasks, results):
            q.close()
    return f"{nbytes:,} bytes were freed"


def _killed_writer() -> str:
    context = mp.get_context("spawn")
    results = context.Queue()
    child = context.Process(target=_flood, args=(results,), daemon=True)
    child.start()
    try:
        close("message", results.get(timeout=_TIMEOUT_S), 1.0, 0.0)
        os.kill(child.pid or 0, signal.SIGKILL)
        child.join(_TIMEOUT_S)
        n = 1
        while True:
            try:
                close("message", results.get(timeout=0.2), 1.0, 0.0)
                n += 1
            except queue.Empty:
                break
        results.put("still works")
        same("next message", results.get(timeout=_TIMEOUT_S), "still works")
    finally:
        child.kill()
        child.join()
        results.close()
    return f"{n:,} whole messages before the kill, then the queue went on"


def _modes() -> str:
    original = T.zeros(8, shared=True)
    receiver, sender = mp.Pipe(duplex=False)
    with receiver, sender:
        sender.send(mp.lend(original))
        lent = receiver.recv()
        original[0] = 7
        same("a lent tensor follows its owner", lent[0].item(), 7.0)
        sender.send(mp.cow(original))
        copy = receiver.recv()
        copy[1] = 5
        same("a copy-on-write tensor leaves its owner alone", original[1].item(), 0.0)
    return "read-only and copy-on-write"


def _own_session() -> Session:
    return Session(sharing.session_name().removeprefix("@"))


def _session() -> str:
    T.zeros(1, shared=True)
    with _own_session() as session:
        members = [c.pid for c in session.snapshot().clients]
        same("this process is in the session", os.getpid() in members, True)
        return f"manager {session.manager_pid()}, session {session.name}"


CHECKS = [
    Trial("session", _session),
    *(Trial(f"queues, {m}", partial(_queues, m)) for m in ("fork", "spawn", "forkserver")),
    Trial("lend and cow", _modes),
    Trial("killed holder", _killed_holder),
    Trial("killed writer", _killed_writer),
]
