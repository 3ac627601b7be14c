"""Finds memory that nobody seems to use: unopened messages, and idle processes that hold memory."""

from __future__ import annotations

import time
from dataclasses import dataclass

from shmtensor.inspect.processes import cpu_seconds, is_running, state_of
from shmtensor.inspect.sessions import Block, Client, Session

__all__ = ["IdleHolder", "Stranded", "find_idle_holders", "find_stranded"]


@dataclass(frozen=True)
class Stranded:
    """A block that only unopened messages keep.

    Attributes:
        block: The block.
        age_s: Seconds since the last of these messages was sent.
        owner_pid: The process that made the block; 0: it has ended.
        command: What that process runs, as `Client.what`.
    """

    block: Block
    age_s: float
    owner_pid: int
    command: str


@dataclass(frozen=True)
class IdleHolder:
    """A process that alone holds memory, and used no processor time while it was watched.

    Attributes:
        client: The process and what it holds.
        state: The kernel's letter for its state; T: stopped.
        command: What it runs, as `Client.what`.
    """

    client: Client
    state: str
    command: str


def find_stranded(session: Session, older_s: float) -> list[Stranded]:
    """Find blocks that only messages older than *older_s* seconds keep, the oldest first."""
    snapshot = session.snapshot()
    makers = {c.client: c for c in snapshot.clients if is_running(c.pid, c.start)}
    found = []
    for block in session.blocks():
        age_s = block.sent_ms / 1000
        if block.is_stranded and age_s >= older_s:
            maker = makers.get(block.owner)
            pid, what = (maker.pid, maker.what) if maker is not None else (0, "?")
            found.append(Stranded(block, age_s, pid, what))
    return sorted(found, key=lambda leak: -leak.age_s)


def find_idle_holders(
    sessions: list[Session], min_bytes: int, watch_s: float
) -> list[tuple[Session, IdleHolder]]:
    """Find processes that alone hold *min_bytes* or more, and are idle for *watch_s* seconds."""
    watched = [
        (session, client, cpu_seconds(client.pid))
        for session in sessions
        for client in session.snapshot().clients
        if client.alone_bytes >= min_bytes and is_running(client.pid, client.start)
    ]
    if not watched:
        return []
    time.sleep(watch_s)
    found = []
    for session, before, used_s in watched:
        after = session.snapshot().client(before.client)
        if after is None or (after.pid, after.start) != (before.pid, before.start):
            continue
        if cpu_seconds(after.pid) == used_s and after.alone_bytes >= min_bytes:
            holder = IdleHolder(after, state_of(after.pid), after.what)
            found.append((session, holder))
    return sorted(found, key=lambda item: -item[1].client.alone_bytes)
