"""Serves a page about live sessions to a browser on this machine, until Ctrl-C.

The page shows processes and what they hold, the blocks of the arena as a map, queues with their
rates, and published names; with --run also the curve of a training run. It changes nothing and
stops no process.

It listens at 127.0.0.1 only, and answers only requests that carry the token of the printed
address. The token is new each time. For programs: /state.json, and /metrics in Prometheus's text
format, with the header "Authorization: Bearer TOKEN".

exit status
  0  ended by Ctrl-C
  1  failed: the named session does not exist
  2  wrong usage, or the port is in use
"""

from __future__ import annotations

import argparse
import errno
import os
import sys

from shmtensor._cli._common import add_session_argument, chosen_sessions
from shmtensor.dashboard import Observer, Server

__all__ = ["SUMMARY", "configure", "run"]

SUMMARY = "show live sessions in a browser"


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def _folder(text: str) -> str:
    if not os.path.isdir(text):
        raise argparse.ArgumentTypeError(f"there is no folder {text!r}")
    return text


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_session_argument(parser)
    parser.add_argument(
        "-p",
        "--port",
        type=_port,
        default=0,
        metavar="N",
        help="listen at this port (default: any)",
    )
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
    try:
        server = Server(Observer(arguments.session, arguments.folder), arguments.port)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is in use" if error.errno == errno.EADDRINUSE else "is not open to this user"
        print(f"shmtensor dashboard: port {arguments.port} {why}", file=sys.stderr)
        return 2
    with server:
        try:
            print(f"shmtensor dashboard: {server.url}", flush=True)
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
