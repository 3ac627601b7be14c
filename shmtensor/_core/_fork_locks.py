"""Locks between threads that a forked child finds free.

Note [Locks of threads across fork]
A forked child has one thread. A lock that another thread of its parent held would stay taken in it
for ever. So every lock between threads that outlives a call comes from here, in one of two kinds:

- `module_lock` guards a module's own state, in short sections that wait for nothing. The thread
  that forks takes it first, so the child finds the state whole.
- `free_in_child` is for locks of objects, under which a thread may wait (for a reply, for room). A
  fork does not wait for them: the child finds them free, and the object in its parent's state of
  that moment. So such an object knows by `os.getpid` or a fork handler what is its parent's alone:
  connections, threads.

``make lint`` finds other locks. Those of the C core: Note [Mutexes across fork] in
``csrc/os/mutex.h``.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, TypeVar

__all__ = ["free_in_child", "module_lock"]

_T = TypeVar("_T")

_module_locks: list[Any] = []  # in the order in which a fork takes them
_taken: list[Any] = []  # by the thread that forks
_object_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def module_lock() -> Any:
    """Make a lock that the thread that forks takes before each fork, and releases after it.

    Under it nothing is waited for, not even the start of a thread, and no other lock from here is
    taken. It is an `RLock`, since a signal handler may fork under it.
    """
    lock = threading.RLock()
    _module_locks.append(lock)
    return lock


def free_in_child(lock: _T) -> _T:
    """Return *lock*, a `Lock`, `RLock`, `Condition` or `Event`; each forked child finds it free.

    What an `Event` says stays; nobody waits for it, or for a `Condition`.
    """
    _object_locks.add(lock)
    return lock


def _before() -> None:
    for lock in _module_locks:
        lock.acquire()
        _taken.append(lock)


def _after() -> None:
    # The list first: when the first lock is free, another thread may fork.
    mine, _taken[:] = _taken[::-1], []
    for lock in mine:
        lock.release()


def _in_child() -> None:
    _after()
    for lock in list(_object_locks):
        lock._at_fork_reinit()


os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_in_child)
