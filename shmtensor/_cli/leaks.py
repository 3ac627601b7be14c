"""Searches for shared memory that no process seems to use.

Two kinds are shown:

  stranded   Blocks that only unopened messages keep: the receiver died, or does not read its pipe.
             `shmtensor gc` frees them, and so does the end of the session.
  idle       Processes that are the only holders of memory, and used no processor time while they
             were watched. Only the program itself can free that memory.

WHERE is the end of the file name and the line that made the block, if the program runs with
SHMTENSOR_TRACE_ALLOC=1 in its environment. Otherwise it is the program's label or command line.

A message that is read late looks like a stranded one. So give --older a time that is longer than
any of your messages takes.

exit status
  0  nothing found
  1  failed
  2  wrong usage
  3  something was found
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import asdict
from typing import Any

from shmtensor._cli._common import (
    add_json_argument,
    add_owner_argument,
    add_session_argument,
    chosen_sessions,
    count,
    identity,
    print_json,
    seconds,
    size_text,
    styled,
    table,
    title,
    whole,
)
from shmtensor.inspect import IdleHolder, Session, Stranded, find_idle_holders, find_stranded
from shmtensor.inspect.processes import printable

SUMMARY = "show memory that no process seems to use"

_MANY = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
    add_owner_argument(parser)
    parser.add_argument(
        "--older",
        type=seconds,
        default=10.0,
        metavar="S",
        help="messages sent more than S seconds ago (default: 10)",
    )
    parser.add_argument(
        "--watch",
        type=seconds,
        default=1.0,
        metavar="S",
        help="watch processes for S seconds (default: 1)",
    )
    parser.add_argument(
        "--min-bytes",
        type=whole,
        default=1 << 20,
        metavar="N",
        help="skip processes that alone hold less than N bytes (default: 1 MiB)",
    )
    add_json_argument(parser)


def _print_stranded(session: Session, found: list[Stranded]) -> None:
    nbytes = sum(leak.block.nbytes for leak in found)
    what = f"{count(len(found), 'block')}, {size_text(nbytes)}"
    are = "is" if len(found) == 1 else "are"
    text = f"{title(session)}: {what}, {are} kept by unopened messages only"
    print(styled(text, "yellow"))
    rows = [
        [
            leak.block.block,
            size_text(leak.block.nbytes),
            leak.block.n_leases,
            f"{leak.age_s:.0f} s",
            leak.owner_pid or "gone",
            printable(leak.block.site) or leak.command,
        ]
        for leak in found[:_MANY]
    ]
    heads = [">BLOCK", ">BYTES", ">MESSAGES", ">SENT AGO", ">MADE BY", "WHERE"]
    print(*table(heads, rows, indent="  "), sep="\n")
    if len(found) > _MANY:
        print(f"  … and {len(found) - _MANY} more")


def _print_sites(idle: list[tuple[Session, IdleHolder]]) -> None:
    """Print where the memory was made that idle processes alone hold, most bytes first."""
    rows: list[list[object]] = []
    for session, holder in idle:
        made: Counter[str] = Counter()
        for block in session.blocks():
            if block.site and block.holders == (holder.client.client,):
                made[block.site] += block.nbytes
        rows += [
            [holder.client.pid, size_text(nbytes), printable(site)]
            for site, nbytes in made.most_common(5)
        ]
    if rows:
        print(*table([">PID", ">BYTES", "MADE IN"], rows, indent="  "), sep="\n")


def _print_idle(idle: list[tuple[Session, IdleHolder]], watched_s: float) -> None:
    text = f"processes that hold memory alone and did nothing for {watched_s:g} s"
    print(styled(text, "yellow"))
    rows = [
        [
            holder.client.pid,
            size_text(holder.client.alone_bytes),
            holder.client.n_alone,
            holder.state,
            session.name,
            holder.command,
        ]
        for session, holder in idle
    ]
    heads = [">PID", ">ALONE", ">BLOCKS", "STATE", "SESSION", "RUNS"]
    print(*table(heads, rows, indent="  "), sep="\n")
    _print_sites(idle)


def _values(
    stranded: list[tuple[Session, list[Stranded]]], idle: list[tuple[Session, IdleHolder]]
) -> dict[str, Any]:
    """Return what was found, for JSON."""
    return {
        "stranded": [
            {**identity(session), **asdict(leak)} for session, found in stranded for leak in found
        ],
        "idle": [{**identity(session), **asdict(holder)} for session, holder in idle],
    }


def run(arguments: argparse.Namespace) -> int:
    """Print what was found."""
    with chosen_sessions(arguments) as sessions:
        each = [(session, find_stranded(session, arguments.older)) for session in sessions]
        stranded = [(session, found) for session, found in each if found]
        if not arguments.json:
            for session, found in stranded:
                _print_stranded(session, found)
        idle = find_idle_holders(sessions, arguments.min_bytes, arguments.watch)
        if arguments.json:
            print_json(_values(stranded, idle))
        elif idle:
            _print_idle(idle, arguments.watch)
        elif not stranded:
            print("nothing found")
    return 3 if stranded or idle else 0
