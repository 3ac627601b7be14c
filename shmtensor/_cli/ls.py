"""Lists this user's sessions of shared memory, the processes in them, and their blocks.

A session is a program and its descendants that share tensors, or the clients of a named service.
The command stops no process and joins no session.

columns of a session
  SESSION    its name, as in SHMTENSOR_MANAGER
  MANAGER    process id of its manager; "-" when it was killed and none was needed since
  PROCS      processes in it
  BLOCKS     blocks in use; each holds one storage
  USED       bytes of these storages
  MEMORY     memory that the session occupies, including idle memory
  LEASES     unopened messages with tensors in pipes and sockets
  SERVICE    name of a service, or the path of its socket

columns of a process
  PID        process id; "#" and a number: it is in another pid namespace
  HOLDS      bytes and number of the storages that it uses
  ALONE      of these, the storages that no other process uses
  MADE       storages in use, by any process, that it made
  RUNS       a child's name in multiprocessing and its function; otherwise the command line

columns of a published name of a service, with --names or --session
  VERSION    of its value; it grows with each publication
  BYTES      of its tensors
  AGE        since it was published

columns of a topic or server, with --names or --session
  LAG        most messages that wait for one subscriber, and how many may
  LOST       messages that subscribers had no room for, of all subscribers there ever were
  WAITING    requests that no server has taken yet
  REQUESTS   requests ever made

columns of a queue, with --queues
  QUEUE      number of its block; `shmtensor holders block:N` shows which processes have it open
  MESSAGES   messages in it, and the bound; "full": who puts next waits; "+ n": n messages wait in
             processes for room
  PUT        messages ever put into it
  BYTES      bytes of the messages in it, and how many there is room for

exit status
  0  done, also when there is no session
  1  the named session does not exist, or cannot be read
  2  wrong usage
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from shmtensor._cli._common import (
    add_json_argument,
    add_owner_argument,
    add_session_argument,
    chosen_sessions,
    identity,
    print_json,
    queue_lines,
    queue_values,
    size_text,
    table,
    topic_lines,
)
from shmtensor.inspect import Published, Session, Snapshot
from shmtensor.inspect.processes import printable

SUMMARY = "list sessions, their processes and blocks"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
    add_owner_argument(parser)
    parser.add_argument("-q", "--quiet", action="store_true", help="show no processes")
    parser.add_argument("-N", "--names", action="store_true", help="show published names too")
    parser.add_argument("-Q", "--queues", action="store_true", help="show queues too")
    parser.add_argument("-b", "--blocks", action="store_true", help="show blocks in use too")
    add_json_argument(parser)


def _session_row(session: Session, snapshot: Snapshot) -> list[object]:
    return [
        session.name,
        session.manager_pid() or "-",
        len(snapshot.clients),
        snapshot.n_used,
        size_text(snapshot.used_bytes),
        size_text(snapshot.resident_bytes),
        snapshot.n_leases,
        printable(session.service),
    ]


def _process_lines(snapshot: Snapshot) -> list[str]:
    rows = [
        [
            "fork" if c.is_forking else c.who,
            f"{size_text(c.held_bytes)} in {c.n_held}",
            f"{size_text(c.alone_bytes)} in {c.n_alone}",
            f"{size_text(c.made_bytes)} in {c.n_made}",
            c.what,
        ]
        for c in snapshot.clients
    ]
    return table([">PID", ">HOLDS", ">ALONE", ">MADE", "RUNS"], rows, indent="  ")


def _name_lines(names: dict[str, Published], snapshot: Snapshot) -> list[str]:
    who = {c.client: c.who for c in snapshot.clients}
    rows = [
        [
            printable(name),
            p.kind,
            p.version,
            size_text(p.nbytes),
            f"{p.age_s:.0f} s",
            who.get(p.publisher, "gone") + (", persists" if p.persists else ""),
        ]
        for name, p in sorted(names.items())
    ]
    return table(["NAME", "KIND", ">VERSION", ">BYTES", ">AGE", "PUBLISHED BY"], rows, indent="  ")


def _block_lines(session: Session, snapshot: Snapshot) -> list[str]:
    who = {0: "name", **{c.client: c.who for c in snapshot.clients}}
    rows = [
        [
            b.block,
            size_text(b.nbytes),
            "queue" if b.is_queue else "file" if b.is_file else "arena",
            who.get(b.owner, "-") if b.owner else "-",
            b.n_leases + b.n_queued,
            " ".join(who.get(h, f"#{h}") for h in b.holders) or "-",
            printable(b.site),
        ]
        for b in session.blocks()
    ]
    return table(
        [">BLOCK", ">BYTES", "KIND", ">MADE BY", ">MESSAGES", "HELD BY", "MADE IN"],
        rows,
        indent="  ",
    )


def _values(session: Session, snapshot: Snapshot, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return a session for JSON, with the lists that the options select."""
    row = {**asdict(snapshot), **identity(session), "n_clients": len(snapshot.clients)}
    del row["at_s"], row["incarnation"], row["clients"]
    if not arguments.quiet:
        row["clients"] = [{**asdict(c), "command": c.command} for c in snapshot.clients]
    if arguments.queues:
        row["queues"] = queue_values(session, snapshot)
    if arguments.names or arguments.session:
        row["names"] = [{"name": n, **asdict(p)} for n, p in sorted(session.names().items())]
        row["topics"] = {name: asdict(topic) for name, topic in session.topics().items()}
        row["servers"] = {name: asdict(server) for name, server in session.servers().items()}
    if arguments.blocks:
        row["blocks"] = [asdict(block) for block in session.blocks()]
    return row


def run(arguments: argparse.Namespace) -> int:
    """Print the tables."""
    heads = ["SESSION", ">MANAGER", ">PROCS", ">BLOCKS", ">USED", ">MEMORY", ">LEASES", "SERVICE"]
    with chosen_sessions(arguments) as sessions:
        snapshots = [session.snapshot() for session in sessions]
        pairs = list(zip(sessions, snapshots, strict=True))
        if arguments.json:
            print_json([_values(session, snapshot, arguments) for session, snapshot in pairs])
            return 0
        rows = [_session_row(s, p) for s, p in pairs]
        head, *session_lines = table(heads, rows)
        print(head)
        for line, (session, snapshot) in zip(session_lines, pairs, strict=True):
            print(line)
            if not arguments.quiet and snapshot.clients:
                print(*_process_lines(snapshot), sep="\n")
            names = session.names() if arguments.names or arguments.session else {}
            lines = _name_lines(names, snapshot) if names else []
            lines += topic_lines(session.topics(), session.servers()) if names else []
            if lines:
                print(*lines, sep="\n")
            if arguments.queues:
                print(*queue_lines(session, snapshot), sep="\n")
            if arguments.blocks and snapshot.n_used:
                print(*_block_lines(session, snapshot), sep="\n")
    return 0
