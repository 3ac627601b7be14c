"""Shows sessions, their processes and what these hold, over and over.

With the package `rich` installed and a terminal, the screen is redrawn in place; otherwise each
look is printed below the last one. Ends with Ctrl-C, or after --count looks. The look stops nobody.

columns
  USED, MEMORY, LEASES   as in `shmtensor ls`; LEASES counts messages under way
  FREED/S                blocks given back each second since the last look
  CPU                    processor time a process used since the last look, in percent of one core
  HOLDS, ALONE, SLABS    bytes of storages it uses, of these nobody else uses, of the slabs it owns
  MESSAGES, WAITING      messages in a queue and its bound; messages that wait in processes for room
  PUT/S                  messages put into it each second since the last look

exit status
  0    --count looks were shown
  1    failed: the named session does not exist
  2    wrong use
  130  ended by Ctrl-C
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import ExitStack
from typing import Any

from shmtensor._cli._common import (
    add_session_argument,
    chosen_sessions,
    seconds,
    size_text,
    table,
)
from shmtensor.inspect import Picture, Queue, Session
from shmtensor.inspect.processes import command_of, cpu_seconds

SUMMARY = "live view of sessions and what processes hold"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
    parser.add_argument(
        "-i", "--interval", type=seconds, default=1.0, metavar="S", help="seconds between looks"
    )
    parser.add_argument(
        "-n", "--count", type=int, default=0, metavar="N", help="end after N looks (default: never)"
    )
    parser.add_argument("--plain", action="store_true", help="do not use rich")


class _Looks:
    """The last look at each session, to make rates of differences."""

    def __init__(self) -> None:
        self._pictures: dict[str, Picture] = {}
        self._puts: dict[tuple[str, int], tuple[float, int]] = {}
        self._cpu: dict[tuple[int, int], tuple[float, float]] = {}

    def freed_per_s(self, session: Session, picture: Picture) -> float:
        before = self._pictures.get(session.name)
        self._pictures[session.name] = picture
        if before is None or picture.at_s <= before.at_s or before.world != picture.world:
            return 0.0
        return max(picture.n_reclaimed - before.n_reclaimed, 0) / (picture.at_s - before.at_s)

    def put_per_s(self, session: Session, queue: Queue, now_s: float) -> float:
        key = (session.name, queue.block)
        before_s, before = self._puts.get(key, (now_s, queue.n_put))
        self._puts[key] = (now_s, queue.n_put)
        return ((queue.n_put - before) % 2**32) / (now_s - before_s) if now_s > before_s else 0.0

    def cpu_percent(self, pid: int, start: int, now_s: float) -> float:
        used = cpu_seconds(pid)
        before_s, before = self._cpu.get((pid, start), (now_s, used))
        self._cpu[pid, start] = (now_s, used)
        return 100 * (used - before) / (now_s - before_s) if now_s > before_s else 0.0


def _session_lines(session: Session, looks: _Looks) -> list[str]:
    picture = session.look()
    limit = f" of {size_text(picture.limit_bytes)}" if picture.limit_bytes else ""
    lines = [
        f"session {session.name}  {len(picture.clients)} processes  "
        f"used {size_text(picture.used_bytes)} in {picture.n_used}  "
        f"slabs {size_text(picture.granted_bytes)}{limit}  "
        f"memory {size_text(picture.resident_bytes)}  leases {picture.n_leases} "
        f"({picture.n_stranded} blocks stranded)  "
        f"freed/s {looks.freed_per_s(session, picture):.0f}"
    ]
    clients = sorted(picture.clients, key=lambda c: -c.held_bytes)
    rows = [
        [
            c.pid,
            f"{looks.cpu_percent(c.pid, c.start, picture.at_s):.0f}%",
            size_text(c.held_bytes),
            c.n_held,
            size_text(c.sole_bytes),
            size_text(c.slab_bytes),
            command_of(c.pid),
        ]
        for c in clients
    ]
    heads = [">PID", ">CPU", ">HOLDS", ">BLOCKS", ">ALONE", ">SLABS", "COMMAND"]
    processes = table(heads, rows, indent="  ") if rows else []
    return lines + processes + _queue_lines(session, picture, looks)


def _queue_lines(session: Session, picture: Picture, looks: _Looks) -> list[str]:
    rows = []
    for queue in session.queues():
        bound = f" of {queue.max_messages}" if queue.max_messages else ""
        rows.append(
            [
                queue.block,
                f"{queue.n_messages}{bound}",
                queue.n_pending,
                f"{looks.put_per_s(session, queue, picture.at_s):.0f}",
                f"{size_text(queue.used_bytes)} of {size_text(queue.capacity_bytes)}",
                len(queue.holders),
            ]
        )
    heads = [">QUEUE", ">MESSAGES", ">WAITING", ">PUT/S", ">BYTES", ">PROCESSES"]
    return table(heads, rows, indent="  ") if rows else []


def _screen(arguments: argparse.Namespace, looks: _Looks) -> str:
    with chosen_sessions(arguments) as sessions:
        if not sessions:
            return "no session"
        return "\n\n".join("\n".join(_session_lines(s, looks)) for s in sessions)


def _live(stack: ExitStack, plain: bool) -> Any:
    """Return the live display of rich, or None."""
    if plain or not sys.stdout.isatty():
        return None
    try:
        from rich.live import Live  # optional, so not at the top
    except ImportError:
        return None
    return stack.enter_context(Live(screen=True, auto_refresh=False))


def run(arguments: argparse.Namespace) -> int:
    """Look until told to stop."""
    looks = _Looks()
    shown = 0
    with ExitStack() as stack:
        live = _live(stack, arguments.plain)
        while True:
            text = _screen(arguments, looks)
            if live is not None:
                from rich.text import Text  # there when live is

                live.update(Text(text, no_wrap=True), refresh=True)
            else:
                print(("" if shown == 0 else "\n") + text, flush=True)
            shown += 1
            if arguments.count and shown >= arguments.count:
                return 0
            time.sleep(arguments.interval)
