"""Frees blocks that only unopened messages keep, and returns idle shared memory to the kernel.

It ends the leases of messages that were sent more than --older seconds ago. A receiver that opens
such a message later gets a HandleError, never another tensor's bytes. Blocks that a process holds
stay.

It acts on the session that --session names, or on all sessions with --all. Without either it asks
for confirmation, which needs a terminal.

exit status
  0  done
  1  failed: the named session does not exist, or has no manager to do it
  2  wrong usage: no session was named, and there is no terminal
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from shmtensor._cli._common import (
    add_json_argument,
    add_session_argument,
    chosen_sessions,
    count,
    identity,
    print_json,
    seconds,
    size_text,
    title,
)
from shmtensor.errors import ManagerError
from shmtensor.inspect import Session, find_stranded

SUMMARY = "free blocks of unopened messages, return idle memory"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
    parser.add_argument("-a", "--all", action="store_true", help="all sessions, without asking")
    parser.add_argument(
        "--older",
        type=seconds,
        default=60.0,
        metavar="S",
        help="messages sent more than S seconds ago (default: 60)",
    )
    parser.add_argument(
        "-n", "--dry-run", action="store_true", help="show what would be freed, and free nothing"
    )
    add_json_argument(parser)


def _agrees(sessions: list[Session]) -> bool:
    """Ask at the terminal whether to act on all these sessions."""
    for session in sessions:
        print(f"{title(session)}, {count(len(session.snapshot().clients), 'process')}")
    these = count(len(sessions), "session")
    print(f"End messages and free memory of {these}? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _free(session: Session, arguments: argparse.Namespace) -> dict[str, Any]:
    """Free, unless it is a dry run. Returns what was found and done, for JSON.

    Raises:
        ManagerError: There is no manager to do it.
    """
    stranded = find_stranded(session, arguments.older)
    done: dict[str, Any] = {
        **identity(session),
        "n_blocks": len(stranded),
        "nbytes": sum(leak.block.nbytes for leak in stranded),
        "idle_bytes": session.snapshot().free_bytes,
        "is_dry_run": arguments.dry_run,
    }
    if not arguments.dry_run:
        done["n_leases"] = session.gc(arguments.older)
        done["resident_bytes"] = session.trim()
    return done


def _text(done: dict[str, Any]) -> str:
    what = f"{count(done['n_blocks'], 'block')}, {size_text(done['nbytes'])}, of unopened messages"
    if done["is_dry_run"]:
        return f"would free {what}, and {size_text(done['idle_bytes'])} idle"
    occupied = f"{size_text(done['resident_bytes'])} still occupied"
    return f"freed {what}, ended {count(done['n_leases'], 'lease')}; {occupied}"


def run(arguments: argparse.Namespace) -> int:
    """Free and report."""
    is_asked = not (arguments.session or arguments.all or arguments.dry_run)
    can_ask = sys.stdin.isatty() and sys.stdout.isatty() and not arguments.json
    if is_asked and not can_ask:
        print("shmtensor: gc: name a session with --session, or give --all", file=sys.stderr)
        return 2
    rows, failed = [], False
    with chosen_sessions(arguments) as sessions:
        if is_asked and sessions and not _agrees(sessions):
            return 0
        for session in sessions:
            try:
                rows.append(_free(session, arguments))
            except ManagerError as error:
                print(f"shmtensor: {title(session)}: {error}", file=sys.stderr)
                failed = True
                continue
            if not arguments.json:
                print(f"{title(session)}: {_text(rows[-1])}")
    if arguments.json:
        print_json(rows)
    return 1 if failed else 0
