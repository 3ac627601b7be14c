"""Serves a page about live sessions to a browser on this machine, until Ctrl-C.

The page shows processes and what they hold, the blocks of the arena as a map, queues with their
rates, and published names; with --run also the curve of a training run. It changes nothing and
stops no process.

It listens at 127.0.0.1, or where --host says, and answers only requests that carry the token of the
printed address. The token is new each time, or is that of --token-file. For programs: /state.json,
and /metrics in Prometheus's text format, with the header "Authorization: Bearer TOKEN"; /healthz
says "ok" to everybody, without a token.

exit status
  0  ended by Ctrl-C
  1  failed: the named session does not exist
  2  wrong usage, no address of this machine, or the port is in use
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import socket
import stat
import sys

from shmtensor._cli._common import add_session_argument, chosen_sessions
from shmtensor.dashboard import Observer, Server

__all__ = ["SUMMARY", "configure", "run"]

SUMMARY = "show live sessions in a browser"

_MOST_TOKEN = 200


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def _token(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            token = file.read(_MOST_TOKEN + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error}") from None
    if mode & 0o077:
        raise argparse.ArgumentTypeError(f"{path} has mode {mode:o}: others may read it; chmod 600")
    if len(token) > _MOST_TOKEN or not re.fullmatch(r"[\w.~-]{16,}", token, re.ASCII):
        raise argparse.ArgumentTypeError(
            f"{path} needs 16 to {_MOST_TOKEN} letters, digits and any of - . _ ~, nothing else"
        )
    return token


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
        "--host",
        default="127.0.0.1",
        help="listen at this address instead of 127.0.0.1; other machines then reach it, and "
        "nothing is encrypted",
    )
    parser.add_argument(
        "--token-file",
        dest="token",
        type=_token,
        metavar="FILE",
        help="read the token from this file, which only its owner may read",
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
        observer = Observer(arguments.session, arguments.folder)
        server = Server(observer, arguments.port, arguments.token, arguments.host)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            print(
                f"shmtensor dashboard: {arguments.host} is not an address of this machine",
                file=sys.stderr,
            )
            return 2
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is in use" if error.errno == errno.EADDRINUSE else "is not open to this user"
        print(f"shmtensor dashboard: port {arguments.port} {why}", file=sys.stderr)
        return 2
    with server:
        try:
            # A token that comes from a file stays out of logs.
            url = server.url if arguments.token is None else server.url.partition("?")[0]
            print(f"shmtensor dashboard: {url}", flush=True)
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0
