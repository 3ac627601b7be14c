"""Looks for shared memory that nobody seems to use.

Two kinds are shown:

  stranded   Blocks that only unopened messages keep: the receiver died, or never reads its pipe.
             `shmtensor gc` frees them; so does the end of the session.
  idle       Processes that hold memory alone and used no processor time while they were watched.
             Only their program can let go of it.

WHERE is the end of the file name and the line that made the block, if its program runs with
SHMTENSOR_TRACE_ALLOC=1 in the environment, and else its command line.

A message that is merely slow to be read looks like a stranded one: give --older a time that none
of your messages takes.

exit status
  0  nothing found
  1  failed
  2  wrong use
  3  something was found
"""

from __future__ import annotations

import argparse
from collections import Counter

from shmtensor._cli._common import (
    add_session_argument,
    chosen_sessions,
    seconds,
    size_text,
    table,
)
from shmtensor.inspect import IdleHolder, Session, find_idle_holders, find_stranded

SUMMARY = "memory that nobody seems to use"

_MANY = 50


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
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
        type=int,
        default=1 << 20,
        metavar="N",
        help="leave out processes that hold less than N bytes alone (default: 1 MiB)",
    )


def _print_stranded(session: Session, older_s: float) -> bool:
    found = find_stranded(session, older_s)
    if not found:
        return False
    nbytes = sum(leak.block.nbytes for leak in found)
    what = f"{len(found)} blocks, {size_text(nbytes)}"
    print(f"session {session.name}: {what}, are kept by unopened messages only")
    rows = [
        [
            leak.block.block,
            size_text(leak.block.nbytes),
            leak.block.n_leases,
            f"{leak.age_s:.0f} s",
            leak.owner_pid or "gone",
            leak.block.site or leak.command,
        ]
        for leak in found[:_MANY]
    ]
    heads = [">BLOCK", ">BYTES", ">MESSAGES", ">SENT AGO", ">MADE BY", "WHERE"]
    print(*table(heads, rows, indent="  "), sep="\n")
    if len(found) > _MANY:
        print(f"  … and {len(found) - _MANY} more")
    return True


def _print_sites(idle: list[tuple[Session, IdleHolder]]) -> None:
    """Print where the memory that idle processes hold alone was made, most bytes first."""
    rows: list[list[object]] = []
    for session, holder in idle:
        made: Counter[str] = Counter()
        for block in session.blocks():
            if block.site and block.holders == (holder.client.client,):
                made[block.site] += block.nbytes
        rows += [
            [holder.client.pid, size_text(nbytes), site] for site, nbytes in made.most_common(5)
        ]
    if rows:
        print(*table([">PID", ">BYTES", "MADE IN"], rows, indent="  "), sep="\n")


def run(arguments: argparse.Namespace) -> int:
    """Print what was found."""
    with chosen_sessions(arguments) as sessions:
        stranded = [_print_stranded(session, arguments.older) for session in sessions]
        idle = find_idle_holders(sessions, arguments.min_bytes, arguments.watch)
        if idle:
            print(f"processes that hold memory alone and did nothing for {arguments.watch:g} s")
            rows = [
                [
                    holder.client.pid,
                    size_text(holder.client.sole_bytes),
                    holder.client.n_sole,
                    holder.state,
                    session.name,
                    holder.command,
                ]
                for session, holder in idle
            ]
            heads = [">PID", ">ALONE", ">BLOCKS", "STATE", "SESSION", "COMMAND"]
            print(*table(heads, rows, indent="  "), sep="\n")
            _print_sites(idle)
    if any(stranded) or idle:
        return 3
    print("nothing found")
    return 0
