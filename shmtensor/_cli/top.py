"""Shows sessions, their processes and what these hold, live.

On a terminal, with the package `rich` installed, the screen is redrawn in place. Otherwise each
snapshot is printed below the last one; with --json each snapshot is one line. If there is no
session, the command waits for one. It ends with q, Ctrl-C, or after --count snapshots. It stops no
process.

keys
  m, c, p                order by held memory, by processor time, by process id
  space                  freeze the screen; again: continue
  arrows, PgUp, PgDn     scroll, as do j, k, b, f; Home and End, or g and G, go to the ends
  q                      leave

columns
  USED, MEMORY, LEASES   as in `shmtensor ls`; LEASES counts unopened messages
  FREED/S                blocks freed each second since the last snapshot
  CPU                    percent of one core that a process used since the last snapshot
  HOLDS, ALONE, SLABS    bytes of the storages it uses, of those only it uses, of the slabs it owns
  MESSAGES, WAITING      messages in a queue and its bound, and "full" if whoever puts next waits;
                         messages that wait in processes for room
  PUT/S                  messages put into the queue each second since the last snapshot
  NAME                   of a named queue, or of the server whose requests it holds
  LAG, LOST, WAITING     of topics and servers, as in `shmtensor ls`

exit status
  0    --count snapshots were shown
  1    failed: the named session does not exist
  2    wrong usage
  130  ended by Ctrl-C
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from shmtensor._cli._common import (
    add_json_argument,
    add_owner_argument,
    add_session_argument,
    chosen_sessions,
    count,
    identity,
    messages_text,
    print_json,
    seconds,
    size_text,
    styled,
    table,
    title,
    topic_lines,
    whole,
)
from shmtensor._cli._live import LiveView
from shmtensor.inspect import Queue, Server, Session, Snapshot, Topic
from shmtensor.inspect.processes import cpu_seconds, printable

SUMMARY = "show sessions and what processes hold, live"

_ORDERS = {"m": "memory", "c": "cpu", "p": "pid"}  # by the key that chooses it
_ORDER_KEYS: dict[str, Callable[[dict[str, Any]], float]] = {
    "memory": lambda client: -client["held_bytes"],
    "cpu": lambda client: -client["cpu_percent"],
    "pid": lambda client: client["pid"],
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
    add_owner_argument(parser)
    parser.add_argument(
        "-i", "--interval", type=seconds, default=1.0, metavar="S", help="seconds between snapshots"
    )
    parser.add_argument(
        "-n",
        "--count",
        type=whole,
        default=0,
        metavar="N",
        help="end after N snapshots (default: never)",
    )
    parser.add_argument("--plain", action="store_true", help="do not use rich")
    parser.add_argument(
        "--sort",
        choices=list(_ORDERS.values()),
        default="memory",
        help="order of sessions and processes (default: memory, which is HOLDS)",
    )
    add_json_argument(parser)


class _Snapshots:
    """The last snapshot of each session, from which rates are computed."""

    def __init__(self) -> None:
        self._snapshots: dict[str, Snapshot] = {}
        self._puts: dict[tuple[str, int], tuple[float, int]] = {}
        self._cpu: dict[tuple[int, int], tuple[float, float]] = {}

    def freed_per_s(self, session: Session, snapshot: Snapshot) -> float:
        before = self._snapshots.get(session.name)
        self._snapshots[session.name] = snapshot
        if (
            before is None
            or snapshot.at_s <= before.at_s
            or before.incarnation != snapshot.incarnation
        ):
            return 0.0
        return max(snapshot.n_reclaimed - before.n_reclaimed, 0) / (snapshot.at_s - before.at_s)

    def put_per_s(self, session: Session, queue: Queue, now_s: float) -> float:
        key = (session.name, queue.block)
        before_s, before = self._puts.get(key, (now_s, queue.n_put))
        self._puts[key] = (now_s, queue.n_put)
        n_new = (queue.n_put - before) % 2**32
        # The counter of another queue in the same block may be below the last one's.
        n_new = n_new if n_new < 2**31 else 0
        return n_new / (now_s - before_s) if now_s > before_s else 0.0

    def cpu_percent(self, pid: int, start: int, now_s: float) -> float:
        used = cpu_seconds(pid)
        before_s, before = self._cpu.get((pid, start), (now_s, used))
        self._cpu[pid, start] = (now_s, used)
        return 100 * (used - before) / (now_s - before_s) if now_s > before_s else 0.0


def _values(session: Session, before: _Snapshots) -> dict[str, Any]:
    """A snapshot of a session, with the rates since the last one."""
    snapshot = session.snapshot()
    now_s = snapshot.at_s
    row = {**asdict(snapshot), **identity(session), "n_clients": len(snapshot.clients)}
    row["freed_per_s"] = before.freed_per_s(session, snapshot)
    row["clients"] = [
        {
            **asdict(c),
            "command": c.command,
            "what": c.what,
            "who": c.who,
            "cpu_percent": before.cpu_percent(c.pid, c.start, now_s),
        }
        for c in snapshot.clients
    ]
    names = session.names_of_queues()
    row["queues"] = [
        {
            **asdict(queue),
            "name": names.get(queue.block),
            "is_full": queue.is_full,
            "put_per_s": before.put_per_s(session, queue, now_s),
        }
        for queue in session.queues()
    ]
    row["topics"] = {name: asdict(topic) for name, topic in session.topics().items()}
    row["servers"] = {name: asdict(server) for name, server in session.servers().items()}
    return row


def _wrapped(items: list[str], indent: str, width: int) -> list[str]:
    """Lines of whole items, as many on one as *width* has room for."""
    lines: list[str] = []
    for item in items:
        if lines and len(lines[-1]) + 2 + len(item) <= width:
            lines[-1] += "  " + item
        else:
            lines.append(indent + item)
    return lines


def _ordered(clients: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    return sorted(clients, key=_ORDER_KEYS[order])


def _session_lines(name: str, row: dict[str, Any], width: int, order: str) -> list[str]:
    limit = f" of {size_text(row['limit_bytes'])}" if row["limit_bytes"] else ""
    items = [
        count(row["n_clients"], "process"),
        f"used {size_text(row['used_bytes'])} in {count(row['n_used'], 'block')}",
        f"slabs {size_text(row['granted_bytes'])}{limit}",
        f"memory {size_text(row['resident_bytes'])}",
        f"leases {row['n_leases']} ({count(row['n_stranded'], 'block')} stranded)",
        f"freed/s {row['freed_per_s']:.0f}",
    ]
    heading = name if not width or len(name) <= width else name[: width - 1] + "…"
    lines = [styled(heading, "bold"), *_wrapped(items, "  ", width or 80)]
    clients = _ordered(row["clients"], order)
    lines += _process_lines(clients, width) + _queue_lines(row["queues"], width)
    topics = {name: Topic(**fields) for name, fields in row.get("topics", {}).items()}
    servers = {name: Server(**fields) for name, fields in row.get("servers", {}).items()}
    return lines + topic_lines(topics, servers, width)


def _process_lines(clients: list[dict[str, Any]], width: int) -> list[str]:
    rows = [
        [
            c["who"],
            f"{c['cpu_percent']:.0f}%",
            size_text(c["held_bytes"]),
            c["n_held"],
            size_text(c["alone_bytes"]),
            size_text(c["slab_bytes"]),
            c["what"],
        ]
        for c in clients
    ]
    heads = [">PID", ">CPU", ">HOLDS", ">BLOCKS", ">ALONE", ">SLABS", "RUNS"]
    return table(heads, rows, indent="  ", width=width) if rows else []


def _queue_lines(queues: list[dict[str, Any]], width: int) -> list[str]:
    rows = [
        [
            q["block"],
            messages_text(q["n_messages"], q["max_messages"], q["is_full"]),
            q["n_pending"],
            f"{q['put_per_s']:.0f}",
            f"{size_text(q['used_bytes'])} of {size_text(q['capacity_bytes'])}",
            len(q["holders"]),
            printable(q["name"] or ""),
        ]
        for q in queues
    ]
    heads = [">QUEUE", ">MESSAGES", ">WAITING", ">PUT/S", ">BYTES", ">PROCESSES", "NAME"]
    lines = table(heads, rows, indent="  ", width=width) if rows else []
    # A queue that has no room for what is put holds somebody up.
    return [
        styled(line, "yellow") if i > 0 and queues[i - 1]["is_full"] else line
        for i, line in enumerate(lines)
    ]


def _rank(row: dict[str, Any], order: str) -> float:
    """Return where a session stands among the others: the least first."""
    if order == "memory":
        return -float(row["used_bytes"])
    if order == "cpu":
        return -sum(float(client["cpu_percent"]) for client in row["clients"])
    return min((client["pid"] for client in row["clients"]), default=0)


def _lines(titles: list[str], rows: list[dict[str, Any]], width: int, order: str) -> list[str]:
    lines: list[str] = []
    pairs = sorted(zip(titles, rows, strict=True), key=lambda pair: _rank(pair[1], order))
    for name, row in pairs:
        lines += [""] if lines else []
        lines += _session_lines(name, row, width, order)
    return lines


def _heading(rows: list[dict[str, Any]]) -> str:
    """Return the sums over all sessions, for the first line of the screen."""
    if not rows:
        return "no session; waiting for one"
    items = [
        time.strftime("%H:%M:%S"),
        count(len(rows), "session"),
        count(sum(row["n_clients"] for row in rows), "process"),
        f"used {size_text(sum(row['used_bytes'] for row in rows))}",
        f"memory {size_text(sum(row['resident_bytes'] for row in rows))}",
        f"freed/s {sum(row['freed_per_s'] for row in rows):.0f}",
    ]
    return styled("shmtensor top", "bold") + "  " + "  ".join(items)


class _Output:
    """Where snapshots go: redrawn in place, one below the other, or a line of JSON each."""

    def __init__(self, stack: ExitStack, arguments: argparse.Namespace) -> None:
        self._json: bool = arguments.json
        self._order: str = arguments.sort
        self._live = None if arguments.json or arguments.plain else _live(stack, arguments.sort)
        self._is_first = True
        self._said_none = False

    def show(self, titles: list[str], rows: list[dict[str, Any]], *, is_last: bool) -> None:
        """Print a snapshot; says only once that there is no session."""
        if self._json:
            for row in rows:
                row["clients"] = _ordered(row["clients"], self._order)
            print_json(rows, indent=None)
        elif self._live is not None:
            self._live.show(
                lambda width, order: (_heading(rows), _lines(titles, rows, width, order))
            )
        elif rows:
            # 0 where there is no terminal: nothing is cut then.
            width = shutil.get_terminal_size((0, 0)).columns
            lines = _lines(titles, rows, width, self._order)
            print(("" if self._is_first else "\n") + "\n".join(lines), flush=True)
            self._said_none = False
        elif not self._said_none:
            print("no session" if is_last else "no session; waiting for one", flush=True)
            self._said_none = True
        self._is_first = False

    def wait(self, interval_s: float) -> bool:
        """Wait for the next snapshot; False: the user wants to leave."""
        if self._live is not None:
            return self._live.wait(interval_s)
        time.sleep(interval_s)
        return True


def _live(stack: ExitStack, order: str) -> LiveView | None:
    """Return the screen; None: there is no terminal, or no rich."""
    has_screen = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if not has_screen or importlib.util.find_spec("rich") is None:
        return None
    return LiveView(stack, _ORDERS, order)


def run(arguments: argparse.Namespace) -> int:
    """Print snapshots until the user leaves, or as many as --count says."""
    before = _Snapshots()
    skipped: set[str] = set()
    shown = 0
    with ExitStack() as stack:
        output = _Output(stack, arguments)
        while True:
            shown += 1
            is_last = shown == arguments.count
            with chosen_sessions(arguments, skipped) as sessions:
                rows = [_values(session, before) for session in sessions]
                titles = [title(session) for session in sessions]
            output.show(titles, rows, is_last=is_last)
            if is_last or not output.wait(arguments.interval):
                return 0
