"""Prints the figures of all sessions for programs, or for people.

  --json         a list with one object for each session; byte figures are numbers of bytes
  --prometheus   Prometheus's text format, for a node exporter's textfile collector:
                 shmtensor stats --prometheus > shmtensor.prom.tmp && mv shmtensor.prom.tmp …

Without either, one figure on a line.

exit status
  0  done, also when there is no session
  1  failed: the named session does not exist
  2  wrong use
"""

from __future__ import annotations

import argparse
import json

from shmtensor._cli._common import add_session_argument, chosen_sessions
from shmtensor.inspect import as_prometheus, snapshot

SUMMARY = "figures of all sessions, for programs"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="as JSON")
    form.add_argument("--prometheus", action="store_true", help="as Prometheus text")


def run(arguments: argparse.Namespace) -> int:
    """Print the figures."""
    with chosen_sessions(arguments) as sessions:
        rows = snapshot(sessions)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    elif arguments.prometheus:
        print(as_prometheus(rows), end="")
    else:
        for row in rows:
            print(f"session {row['session']}")
            for name, value in row.items():
                if name not in ("session", "clients", "queues"):
                    print(f"  {name:<16} {value}")
    return 0
