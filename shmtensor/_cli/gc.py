"""Frees what only unopened messages keep, and returns idle shared memory to the kernel.

Leases of messages sent more than --older seconds ago are ended. A receiver that opens such a
message after all gets a HandleError, never another tensor's bytes. Blocks that a process holds
stay.

exit status
  0  done
  1  failed: the named session does not exist, or has no manager to do it
  2  wrong use
"""

from __future__ import annotations

import argparse
import sys

from shmtensor._cli._common import add_session_argument, chosen_sessions, seconds, size_text
from shmtensor.errors import ManagerError
from shmtensor.inspect import find_stranded

SUMMARY = "free what unopened messages keep, return idle memory"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
    parser.add_argument(
        "--older",
        type=seconds,
        default=60.0,
        metavar="S",
        help="messages sent more than S seconds ago (default: 60)",
    )
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="say what would be freed, and free nothing"
    )


def run(arguments: argparse.Namespace) -> int:
    """Free and report."""
    failed = False
    with chosen_sessions(arguments) as sessions:
        for session in sessions:
            stranded = find_stranded(session, arguments.older)
            nbytes = sum(leak.block.nbytes for leak in stranded)
            what = f"{len(stranded)} blocks, {size_text(nbytes)}, of unopened messages"
            if arguments.dry_run:
                idle = session.look().free_bytes
                print(f"session {session.name}: would free {what}, and {size_text(idle)} idle")
                continue
            try:
                n_leases = session.gc(arguments.older)
                occupied = session.trim()
            except ManagerError as error:
                print(f"shmtensor: session {session.name}: {error}", file=sys.stderr)
                failed = True
                continue
            ended = f"ended {n_leases} leases; {size_text(occupied)} still occupied"
            print(f"session {session.name}: freed {what}, {ended}")
    return 1 if failed else 0
