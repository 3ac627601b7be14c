"""What the page shows, as values that JSON can hold: sessions, and one of them in detail.

An `Observer` keeps its last now at each session, from which rates are computed. However many
browsers ask, it looks at most twice a second, and one at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from shmtensor import __version__
from shmtensor._core._fork_locks import free_in_child
from shmtensor.dashboard.arena import Blocks, map_of
from shmtensor.dashboard.curves import read_curve
from shmtensor.errors import ManagerError
from shmtensor.inspect import (
    Client,
    Json,
    Queue,
    Session,
    Snapshot,
    Unreadable,
    as_prometheus,
    as_rows,
    find_sessions,
)
from shmtensor.inspect.processes import cpu_seconds, printable
from shmtensor.inspect.sessions import select

__all__ = ["Observer"]

#: Most rows of each table in an answer; the counts beside them are of all.
MAX_ROWS = 200
_SHOWN_ELSEWHERE = ("queue", "server", "topic", "event")  # kinds of names with a table of their own
# An answer serves all requests within this time, and within three times what it took.
_FRESH_S = 0.4


@dataclass(frozen=True)
class _Counters:
    """The counters of a session at one moment, by queue and by process."""

    at_s: float
    n_reclaimed: int
    put: dict[int, tuple[int, int]]
    published: dict[str, int]
    requests: dict[str, int]
    cpu_s: dict[tuple[int, int], float]


class _Answer:
    """A computed text, and until when it is fresh."""

    def __init__(self, value: Any, began_s: float) -> None:
        now_s = time.monotonic()
        self.value = value
        self.until_s = now_s + max(_FRESH_S, 3 * (now_s - began_s))


class Observer:
    """Looks at sessions for the page.

    Args:
        wanted: Which sessions, as in `inspect.open_sessions`; empty: all of this user.
        folder: Show ``curve.csv`` of this folder of a run; None: no run.
        owner: Id of the user whose sessions are shown, as in `inspect.open_sessions`.
    """

    def __init__(
        self, wanted: str = "", folder: str | None = None, owner: int | None = None
    ) -> None:
        self._wanted = wanted
        self._owner = owner
        self._folder = folder
        self._lock = free_in_child(threading.Lock())
        self._counters: dict[str, _Counters] = {}
        self._answers: dict[str | None, _Answer] = {}
        self._metrics: _Answer | None = None
        self._health: _Answer | None = None

    def state(self, name: str | None = None) -> dict[str, Any]:
        """Return the figures of all sessions, and details.

        Args:
            name: Return details of this session; empty or unknown: those of the one with
                most bytes in use. None: those of all sessions.
        """
        with self._lock:
            began_s = time.monotonic()
            answer = self._answers.get(name)
            if answer is None or answer.until_s <= began_s:
                old = [key for key, a in self._answers.items() if a.until_s <= began_s]
                for key in old:
                    del self._answers[key]
                answer = self._answers[name] = _Answer(self._compute(name), began_s)
            value: dict[str, Any] = answer.value
            return value

    def metrics(self) -> str:
        """Return the figures of all sessions in Prometheus's text format."""
        with self._lock:
            began_s = time.monotonic()
            if self._metrics is None or self._metrics.until_s <= began_s:
                with self._sessions() as (sessions, _):
                    rows = [row for session in sessions for row in _rows(session)]
                self._metrics = _Answer(as_prometheus(rows), began_s)
            text: str = self._metrics.value
            return text

    def is_well(self) -> bool:
        """Whether a manager of the wanted sessions answers; always, if all sessions are wanted."""
        if not self._wanted:
            return True
        with self._lock:
            began_s = time.monotonic()
            if self._health is None or self._health.until_s <= began_s:
                with self._sessions() as (sessions, _):
                    answers = any(session.manager_pid() for session in sessions)
                self._health = _Answer(answers, began_s)
            return bool(self._health.value)

    @contextmanager
    def _sessions(self) -> Iterator[tuple[list[Session], list[Unreadable]]]:
        opened, refused = find_sessions(self._wanted, self._owner)
        try:
            yield select(opened, self._wanted), [] if self._wanted else refused
        finally:
            for session in opened:
                session.close()

    def _compute(self, name: str | None) -> dict[str, Any]:
        with self._sessions() as (sessions, refused):
            snapshots = [(session, session.snapshot()) for session in sessions]
            chosen = {session.name for session in sessions}
            if name is not None and name not in chosen:
                most = max(
                    snapshots, key=lambda p: (p[1].used_bytes, len(p[1].clients)), default=None
                )
                name = most[0].name if most else None
            rows = []
            for session, snapshot in snapshots:
                row = _figures(session, snapshot)
                if name is None or session.name == name:
                    try:
                        row |= self._details(session, snapshot)
                    except ManagerError:  # it ended meanwhile
                        continue
                rows.append(row)
        self._counters = {key: now for key, now in self._counters.items() if key in chosen}
        return {
            "version": __version__,
            "at": time.time(),
            "sessions": rows,
            "unreadable": [
                {"session": printable(u.name), "reason": printable(u.reason)} for u in refused
            ],
            "curve": None if self._folder is None else read_curve(self._folder),
        }

    def _details(self, session: Session, snapshot: Snapshot) -> dict[str, Any]:
        blocks, names = Blocks.of(session), session.names()
        topics, servers, events = session.topics(), session.servers(), session.events()
        of_servers = {b for name in servers if name in names for b in names[name].blocks[:1]}
        queues = [q for q in session.queues() if q.block not in of_servers]
        titles = session.names_of_queues()
        plain = {name: p for name, p in names.items() if p.kind not in _SHOWN_ELSEWHERE}
        clients = sorted(snapshot.clients, key=lambda c: -c.held_bytes)
        before = self._counters.get(session.name)
        now = self._counters[session.name] = _Counters(
            snapshot.at_s,
            snapshot.n_reclaimed,
            {q.block: (q.n_put, q.n_messages) for q in queues},
            {name: t.n_published for name, t in topics.items()},
            {name: s.n_requests for name, s in servers.items()},
            {(c.pid, c.start): cpu_seconds(c.pid) for c in clients[:MAX_ROWS]},
        )
        if before is not None and before.at_s >= now.at_s:
            before = None
        leases = blocks.leases_by_owner()
        who = {c.client: c.who for c in snapshot.clients}
        return {
            "freed_per_s": _rate(before, now, max(now.n_reclaimed - before.n_reclaimed, 0))
            if before
            else None,
            "clients": [_client(c, leases, before, now) for c in clients[:MAX_ROWS]],
            "pids": {c.client: c.pid for c in snapshot.clients},
            "who": who,
            "queues": [
                {**_queue(q, before, now), "name": printable(titles.get(q.block, ""))}
                for q in queues[:MAX_ROWS]
            ],
            "n_queues": len(queues),
            "topics": [
                {
                    **asdict(t),
                    "name": printable(name),
                    "published_per_s": _named_rate(before, now, "published", name, 2**64),
                }
                for name, t in sorted(topics.items())[:MAX_ROWS]
            ],
            "n_topics": len(topics),
            "servers": [
                {
                    **asdict(s),
                    "name": printable(name),
                    "requests_per_s": _named_rate(before, now, "requests", name, 2**32),
                }
                for name, s in sorted(servers.items())[:MAX_ROWS]
            ],
            "n_servers": len(servers),
            "events": [
                {"name": printable(name), "is_set": e.is_set}
                for name, e in sorted(events.items())[:MAX_ROWS]
            ],
            "n_events": len(events),
            "names": [
                {
                    "name": printable(name),
                    "version": p.version,
                    "nbytes": p.nbytes,
                    "pid": p.pid,
                    "publisher": who.get(p.publisher, "gone"),
                    "age_s": p.age_s,
                    "persists": p.persists,
                    "n_blocks": len(set(p.blocks)),
                }
                for name, p in sorted(plain.items())[:MAX_ROWS]
            ],
            "n_names": len(plain),
            "map": map_of(blocks),
        }


def _rows(session: Session) -> list[dict[str, Json]]:
    try:
        return as_rows([session])
    except ManagerError:  # it ended meanwhile
        return []


def _figures(session: Session, snapshot: Snapshot) -> dict[str, Any]:
    row = asdict(snapshot)
    for key in ("at_s", "incarnation", "clients"):
        del row[key]
    return {
        **row,
        "session": session.name,
        "service": printable(session.service),
        "program": snapshot.program,
        "manager_pid": session.manager_pid(),
        "n_clients": len(snapshot.clients),
    }


def _rate(before: _Counters, now: _Counters, n: float) -> float:
    return n / (now.at_s - before.at_s)


def _named_rate(
    before: _Counters | None, now: _Counters, what: str, name: str, modulus: int
) -> float | None:
    """Return how fast the counter of a name grows; None at the first look at it."""
    earlier: dict[str, int] = getattr(before, what, {})
    if before is None or name not in earlier:
        return None
    n_new = (getattr(now, what)[name] - earlier[name]) % modulus
    # Another topic or server of the same name may have begun to count.
    return _rate(before, now, n_new if n_new < modulus // 2 else 0)


def _client(
    client: Client, leases: dict[int, int], before: _Counters | None, now: _Counters
) -> dict[str, Any]:
    key = (client.pid, client.start)
    cpu = None
    if before is not None and key in before.cpu_s:
        cpu = 100 * _rate(before, now, max(now.cpu_s[key] - before.cpu_s[key], 0.0))
    return {
        **asdict(client),
        "label": printable(client.label),
        "what": client.what,
        "command": client.command,
        "who": client.who,
        "n_leases": leases.get(client.client, 0),
        "cpu_percent": cpu,
    }


def _queue(queue: Queue, before: _Counters | None, now: _Counters) -> dict[str, Any]:
    """Return a queue with its rates; they are None at the first now."""
    put = got = None
    if before is not None and queue.block in before.put:
        n_put, n_messages = before.put[queue.block]
        n_new = (queue.n_put - n_put) % 2**32
        # The counter of another queue in the same block may be below the last one's.
        n_new = n_new if n_new < 2**31 else 0
        put = _rate(before, now, n_new)
        got = _rate(before, now, max(n_new + n_messages - queue.n_messages, 0))
    holders = list(queue.holders)
    return {
        **asdict(queue),
        "holders": holders[:MAX_ROWS],
        "n_holders": len(holders),
        "is_full": queue.is_full,
        "put_per_s": put,
        "got_per_s": got,
    }
