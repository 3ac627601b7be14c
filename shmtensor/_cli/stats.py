"""Prints the figures of all sessions for programs, or for people.

  --json         a list with one object for each session; byte figures are numbers of bytes
  --prometheus   Prometheus's text format, for a node exporter's textfile collector:
                 shmtensor stats --prometheus > shmtensor.prom.tmp && mv shmtensor.prom.tmp …

Without an option, each line shows one figure with its unit. Memory in use and limits are shown
separately, because reserved addresses are not memory.

exit status
  0  done, also when there is no session
  1  failed: the named session does not exist
  2  wrong usage
"""

from __future__ import annotations

import argparse
from typing import Any

from shmtensor._cli._common import (
    add_owner_argument,
    add_session_argument,
    chosen_sessions,
    count,
    print_json,
    size_text,
    styled,
    title,
)
from shmtensor.inspect import as_prometheus, as_rows

SUMMARY = "print the figures of all sessions"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
    add_owner_argument(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON")
    form.add_argument("--prometheus", action="store_true", help="print Prometheus's text format")


def _lines(row: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the figures of a session for people, each with a heading."""

    def blocks(nbytes: str, n: str) -> str:
        return f"{size_text(row[nbytes])} in {count(row[n], 'block')}"

    limit = size_text(row["limit_bytes"]) if row["limit_bytes"] else "none"
    slabs = f"{size_text(row['granted_bytes'])} in {count(row['n_slabs'], 'slab')}"
    return [
        ("manager", f"process {row['manager_pid']}" if row["manager_pid"] else "none"),
        ("processes", str(row["n_clients"])),
        ("in use", blocks("used_bytes", "n_used")),
        ("free, kept ready", blocks("free_bytes", "n_free")),
        ("free, no memory", count(row["n_cold"], "block")),
        ("memory occupied", size_text(row["resident_bytes"])),
        ("messages", f"{row['n_leases']} under way in pipes and sockets"),
        ("of these unopened", f"{blocks('stranded_bytes', 'n_stranded')} kept by nothing else"),
        ("kept in queues", blocks("queued_bytes", "n_queued")),
        ("given back so far", count(row["n_reclaimed"], "block")),
        ("allotted to slabs", f"{slabs}, {row['n_orphan_slabs']} without owner"),
        ("limit of slabs", limit),
        ("address range", f"{size_text(row['arena_bytes'])} reserved, no memory"),
    ]


def run(arguments: argparse.Namespace) -> int:
    """Print the figures."""
    with chosen_sessions(arguments) as sessions:
        rows = as_rows(sessions)
        titles = [title(session) for session in sessions]
    if arguments.json:
        print_json(rows)
    elif arguments.prometheus:
        print(as_prometheus(rows), end="")
    else:
        for heading, row in zip(titles, rows, strict=True):
            print(styled(heading, "bold"))
            for subject, figures in _lines(row):
                print(f"  {subject:<17}  {figures}")
    return 0
