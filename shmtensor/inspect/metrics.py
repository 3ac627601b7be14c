"""The figures of sessions for programs: as plain values, and in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TypeAlias, cast

from shmtensor.inspect.sessions import Session

__all__ = ["Json", "as_prometheus", "as_rows"]

#: A value that JSON can hold.
Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


#: A metric's name, type, help text, and the field of a session's snapshot with its value.
_SESSION_METRICS = (
    ("clients", "gauge", "Processes in the session.", "n_clients"),
    ("used_blocks", "gauge", "Blocks in use.", "n_used"),
    ("used_bytes", "gauge", "Bytes of the storages in use.", "used_bytes"),
    ("free_bytes", "gauge", "Bytes of free blocks that still have memory.", "free_bytes"),
    ("granted_bytes", "gauge", "Bytes covered by slabs.", "granted_bytes"),
    ("resident_bytes", "gauge", "Memory that the session occupies.", "resident_bytes"),
    ("limit_bytes", "gauge", "Limit of the bytes covered by slabs; 0: none.", "limit_bytes"),
    ("leases", "gauge", "Unopened messages with tensors in pipes and sockets.", "n_leases"),
    ("stranded_blocks", "gauge", "Blocks that only unopened messages keep.", "n_stranded"),
    ("stranded_bytes", "gauge", "Bytes that only unopened messages keep.", "stranded_bytes"),
    ("queued_blocks", "gauge", "Blocks kept by messages in queues.", "n_queued"),
    ("queued_bytes", "gauge", "Bytes of blocks kept by messages in queues.", "queued_bytes"),
    ("orphan_slabs", "gauge", "Slabs of processes that have ended.", "n_orphan_slabs"),
)
_CLIENT_METRICS = (
    ("client_held_bytes", "gauge", "Bytes of the storages a process uses.", "held_bytes"),
    ("client_held_blocks", "gauge", "Blocks a process uses.", "n_held"),
    ("client_alone_bytes", "gauge", "Bytes that only this process uses.", "alone_bytes"),
    ("client_slab_bytes", "gauge", "Bytes of the slabs a process owns.", "slab_bytes"),
)


_NAME_METRICS = (
    ("name_version", "counter", "Version of a published name.", "version"),
    ("name_bytes", "gauge", "Bytes of the tensors of a published name.", "nbytes"),
    ("name_age_seconds", "gauge", "Time since a name was published last.", "age_s"),
)
_QUEUE_METRICS = (
    ("queue_messages", "gauge", "Messages in a queue.", "n_messages"),
    ("queue_pending_messages", "gauge", "Messages that wait for room in a queue.", "n_pending"),
    (
        "queue_unacknowledged_messages",
        "gauge",
        "Messages that were taken from a queue and not acknowledged yet.",
        "n_unacknowledged",
    ),
    (
        "queue_dead_letters_total",
        "counter",
        "Messages that a queue dropped, as they were delivered in vain too often.",
        "n_dead_letters",
    ),
    ("queue_used_bytes", "gauge", "Bytes of the messages in a queue.", "used_bytes"),
    ("queue_put_total", "counter", "Messages ever put into a queue.", "n_put"),
)
_TOPIC_METRICS = (
    ("topic_subscribers", "gauge", "Subscribers of a topic.", "n_subscribers"),
    ("topic_published_total", "counter", "Messages published in a topic.", "n_published"),
    ("topic_lost_total", "counter", "Messages that a subscriber had no room for.", "n_lost"),
    ("topic_lag", "gauge", "Most messages that wait for a subscriber of a topic.", "lag"),
)
_SERVER_METRICS = (
    ("server_waiting", "gauge", "Requests that no server has taken yet.", "n_waiting"),
    ("server_requests_total", "counter", "Requests to the servers of a name.", "n_requests"),
)


def as_rows(sessions: Iterable[Session]) -> list[dict[str, Json]]:
    """Return the figures of *sessions* as values that JSON can hold: a dictionary for each."""
    return [_row(session) for session in sessions]


def _row(session: Session) -> dict[str, Json]:
    snapshot = session.snapshot()
    row = asdict(snapshot)
    del row["at_s"], row["incarnation"]
    clients = [
        {**fields, "command": client.what}
        for fields, client in zip(row["clients"], snapshot.clients, strict=True)
    ]
    names = [
        {"name": name, "version": p.version, "nbytes": p.nbytes, "age_s": p.age_s}
        for name, p in sorted(session.names().items())
    ]
    return {
        **row,
        "session": session.name,
        "address": session.address,
        "manager_pid": session.manager_pid(),
        "n_clients": len(clients),
        "clients": clients,
        "queues": [asdict(queue) for queue in session.queues()],
        "names": names,
        "topics": [{"name": name, **asdict(t)} for name, t in sorted(session.topics().items())],
        "servers": [{"name": name, **asdict(s)} for name, s in sorted(session.servers().items())],
    }


def _label(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _labels(row: Mapping[str, Json], **further: Json) -> str:
    """Return the labels of a session's metric: the session, its service, and *further* ones."""
    labels = {"session": row["session"], "service": row["service"], **further}
    return ",".join(f"{name}={_label(str(value))}" for name, value in labels.items())


def _parts(row: Mapping[str, Json], name: str) -> list[Mapping[str, Json]]:
    return cast("list[Mapping[str, Json]]", row[name])


def as_prometheus(rows: Iterable[Mapping[str, Json]]) -> str:
    """Return the rows of `as_rows` in Prometheus's text format, version 0.0.4."""
    rows = list(rows)
    lines = []
    for name, kind, text, field in _SESSION_METRICS:
        lines += [f"# HELP shmtensor_{name} {text}", f"# TYPE shmtensor_{name} {kind}"]
        for row in rows:
            lines.append(f"shmtensor_{name}{{{_labels(row)}}} {row[field]}")
    for name, kind, text, field in _CLIENT_METRICS:
        lines += [f"# HELP shmtensor_{name} {text}", f"# TYPE shmtensor_{name} {kind}"]
        for row in rows:
            for client in _parts(row, "clients"):
                labels = _labels(row, pid=client["pid"], command=client["command"])
                lines.append(f"shmtensor_{name}{{{labels}}} {client[field]}")
    for name, kind, text, field in _QUEUE_METRICS:
        lines += [f"# HELP shmtensor_{name} {text}", f"# TYPE shmtensor_{name} {kind}"]
        for row in rows:
            for queue in _parts(row, "queues"):
                labels = _labels(row, block=queue["block"])
                lines.append(f"shmtensor_{name}{{{labels}}} {queue[field]}")
    for metrics, part in (
        (_NAME_METRICS, "names"),
        (_TOPIC_METRICS, "topics"),
        (_SERVER_METRICS, "servers"),
    ):
        for name, kind, text, field in metrics:
            lines += [f"# HELP shmtensor_{name} {text}", f"# TYPE shmtensor_{name} {kind}"]
            for row in rows:
                for named in _parts(row, part):
                    labels = _labels(row, name=named["name"])
                    lines.append(f"shmtensor_{name}{{{labels}}} {named[field]}")
    return "\n".join(lines) + "\n"
