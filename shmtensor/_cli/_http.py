"""What the sub-commands that answer HTTP share: their options, and how they open the server."""

from __future__ import annotations

import argparse
import errno
import os
import re
import socket
import stat
import sys
from collections.abc import Callable

from shmtensor.dashboard import Observer, Server

__all__ = ["add_server_options", "has_server_options", "open_server", "port", "url_to_print"]

_LOOPBACK = "127.0.0.1"
_MOST_TOKEN = 200


def port(text: str) -> int:
    """Parse the number of a port, 0 included."""
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


def add_server_options(add: Callable[..., object]) -> None:
    """Add ``--host``, ``--allow-host`` and ``--token-file`` by a parser's or group's method."""
    add(
        "--host",
        default=_LOOPBACK,
        metavar="ADDRESS",
        help="listen at this address instead of 127.0.0.1; other machines then reach it, and "
        "nothing is encrypted",
    )
    add(
        "--allow-host",
        dest="names",
        action="append",
        default=[],
        metavar="NAME",
        help="also answer requests whose Host header has this name; may be repeated",
    )
    add(
        "--token-file",
        dest="token",
        type=_token,
        metavar="FILE",
        help="read the token from this file, which only its owner may read",
    )


def has_server_options(arguments: argparse.Namespace) -> bool:
    """Whether one of the options of `add_server_options` was given."""
    return arguments.host != _LOOPBACK or bool(arguments.names) or arguments.token is not None


def open_server(
    command: str, observer: Observer, arguments: argparse.Namespace, number: int
) -> Server:
    """Listen at port *number*.

    Raises:
        SystemExit: Status 2: the port is in use, or the address is none of this machine. The
            reason is on standard error.
    """
    host: str = arguments.host
    try:
        return Server(observer, number, arguments.token, host, arguments.names)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            why = f"{host} is not an IPv4 address of this machine"
        elif error.errno == errno.EADDRINUSE:
            why = f"port {number} is in use"
        elif error.errno == errno.EACCES:
            why = f"port {number} is not open to this user"
        else:
            raise
    print(f"shmtensor {command}: {why}", file=sys.stderr)
    raise SystemExit(2)


def url_to_print(server: Server, arguments: argparse.Namespace, path: str = "/") -> str:
    """Return the address of *path*; a token that comes from a file stays out of logs."""
    return server.url(path, with_token=arguments.token is None)
