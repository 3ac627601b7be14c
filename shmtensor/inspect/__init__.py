"""Inspects sessions of shared memory from outside: which processes are in them and what they hold.

Nothing here joins a session, stops a process, or keeps memory alive.

    for session in inspect.open_sessions():
        with session:
            snapshot = session.snapshot()
            print(session.name, snapshot.used_bytes, [c.pid for c in snapshot.clients])

`current` opens the session of this process, for ``find_stranded`` and similar functions.
"""

from __future__ import annotations

from shmtensor.inspect.leaks import IdleHolder, Stranded, find_idle_holders, find_stranded
from shmtensor.inspect.machine import Check, check_machine
from shmtensor.inspect.metrics import Json, as_prometheus, as_rows
from shmtensor.inspect.sessions import (
    Block,
    Client,
    Published,
    Queue,
    Session,
    Snapshot,
    Unreadable,
    current,
    find_sessions,
    live_addresses,
    open_sessions,
    orphan_numbers,
)
from shmtensor.inspect.topics import Event, Server, Topic

__all__ = [
    "Block",
    "Check",
    "Client",
    "Event",
    "IdleHolder",
    "Json",
    "Published",
    "Queue",
    "Server",
    "Session",
    "Snapshot",
    "Stranded",
    "Topic",
    "Unreadable",
    "as_prometheus",
    "as_rows",
    "check_machine",
    "current",
    "find_idle_holders",
    "find_sessions",
    "find_stranded",
    "live_addresses",
    "open_sessions",
    "orphan_numbers",
]
