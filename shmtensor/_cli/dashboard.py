"""Serves a page about live sessions to a browser on this machine, until Ctrl-C.

The page shows processes and what they hold, the blocks of the arena as a map, queues with their
rates, and published names; with --run also the curve of a training run. It changes nothing and
stops no process.

It listens at 127.0.0.1, or where --host says, and answers only requests that carry the token of the
printed address. The token is new each time, or is that of --token-file. For programs: /state.json,
and /metrics in Prometheus's text format, with the header "Authorization: Bearer TOKEN". /healthz
needs no token: it says "ok", or status 503 when the session of --session has no manager.

exit status
  0  ended by Ctrl-C
  1  failed: the named session does not exist
  2  wrong usage, no address of this machine, or the port is in use
"""

from __future__ import annotations

import argparse
import os

from shmtensor._cli._common import add_owner_argument, add_session_argument, chosen_sessions
from shmtensor._cli._http import add_server_options, open_server, port, url_to_print
from shmtensor.dashboard import Observer

__all__ = ["SUMMARY", "configure", "run"]

SUMMARY = "show live sessions in a browser"


def _folder(text: str) -> str:
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"there is no folder {text!r}")
    return text


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
    add_owner_argument(parser)
    parser.add_argument(
        "-p",
        "--port",
        type=port,
        default=0,
        metavar="N",
        help="listen at this port (default: any)",
    )
    add_server_options(parser.add_argument)
    parser.add_argument(
        "--run",
        dest="folder",
        type=_folder,
        metavar="FOLDER",
        help="show curve.csv of this folder of a run: losses and metrics over the seconds",
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    with chosen_sessions(arguments):
        pass  # raises when the named one does not exist
    observer = Observer(arguments.session, arguments.folder, arguments.owner)
    with open_server("dashboard", observer, arguments, arguments.port) as server:
        try:
            print(f"shmtensor dashboard: {url_to_print(server, arguments)}", flush=True)
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
