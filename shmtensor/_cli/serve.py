"""Runs a service of named tensors in the foreground, until SIGTERM or Ctrl-C.

Programs use it through `shmtensor.service.Service(NAME)`. It runs as this user and serves this
user's processes, or also those of a group. When processes can join, it prints a line on standard
output and tells systemd that it is ready (NOTIFY_SOCKET, for Type=notify). systemd may pass it the
socket (LISTEN_FDS).

With --metrics PORT, a process beside it answers HTTP as `shmtensor dashboard` does, for this
service alone: /metrics in Prometheus's text format, and /healthz without a token.

exit status
  0  ended by SIGTERM or Ctrl-C
  1  failed: another one runs, or the socket cannot be bound
  2  wrong usage, the machine has no address --host, or the port of --metrics is in use
  3  there is not enough memory
  4  the manager could not start
"""

from __future__ import annotations

import argparse
import contextlib
import grp
import os
import signal
import stat
import sys
from typing import NoReturn

from shmtensor._boundary import process
from shmtensor._cli._http import (
    add_server_options,
    has_server_options,
    open_server,
    port,
    url_to_print,
)
from shmtensor.dashboard import Observer, Server
from shmtensor.service import Service

__all__ = ["SUMMARY", "configure", "nbytes", "run"]

SUMMARY = "run a service of named tensors"

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def nbytes(text: str) -> int:
    number = text.rstrip("kKmMgGtT")
    unit = text[len(number) :].lower()
    if not number.isascii() or not number.isdigit() or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"expected bytes such as 1000000 or 4G, got {text!r}")
    value = int(number) * _UNITS[unit]
    if value >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text} is above {(1 << 63) - 1} bytes")
    return value


def _gid(text: str) -> int:
    if text.isascii() and text.isdigit():
        if int(text) >= (1 << 32) - 1:
            raise argparse.ArgumentTypeError(f"no group has the number {text}")
        return int(text)
    try:
        return grp.getgrnam(text).gr_gid
    except KeyError:
        raise argparse.ArgumentTypeError(f"there is no group {text!r}") from None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``shmtensor serve``."""
    parser.add_argument(
        "--name", default="default", help="name of the service (default: %(default)s)"
    )
    parser.add_argument(
        "--socket",
        metavar="PATH",
        help="listen at this path, in a directory that nobody else may enter, instead of at an "
        "abstract name; processes in other network namespaces can reach a path",
    )
    parser.add_argument(
        "--group", metavar="G", type=_gid, help="let members of this group (name or number) join"
    )
    parser.add_argument(
        "--limit-bytes",
        metavar="N",
        type=nbytes,
        default=0,
        help="most memory of the whole service, in bytes or with K, M, G, T; 0: no limit",
    )
    parser.add_argument(
        "--client-limit-bytes",
        metavar="N",
        type=nbytes,
        default=0,
        help="most memory that one process may allocate; 0: no limit",
    )
    group = parser.add_argument_group("metrics over HTTP")
    group.add_argument(
        "--metrics", metavar="PORT", type=port, help="answer at this port; 0: any free one"
    )
    add_server_options(group.add_argument)


def _check_place(path: str, gid: int | None) -> None:
    """Make the socket's directory, or check that other users cannot enter it.

    Raises:
        OSError: They can, the directory cannot be made, or the path is taken by something else.
    """
    directory = os.path.dirname(os.path.abspath(path))
    if os.path.exists(path) and not stat.S_ISSOCK(os.stat(path).st_mode):
        raise FileExistsError(f"serve: {path} exists and is not a socket")
    if not os.path.isdir(os.path.dirname(directory)):
        raise FileNotFoundError(f"serve: there is no directory for {directory}; make it first")
    if not os.path.isdir(directory):
        os.mkdir(directory, 0o700 if gid is None else 0o710)
        if gid is not None:
            os.chown(directory, -1, gid)
    found = os.stat(directory)
    allowed = 0o700 if gid is None else 0o750
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid != os.geteuid() or mode & ~allowed:
        raise PermissionError(
            f"serve: the directory {directory} has mode {mode:o} and user {found.st_uid}; a "
            f"socket in it needs mode {allowed:o} at most and user {os.geteuid()}"
        )


def _serve_beside(server: Server) -> None:
    """Answer HTTP in a child, which ends with this process and has nothing else open of it."""
    parent = os.getpid()
    if os.fork() == 0:
        _answer(server, parent)


def _answer(server: Server, parent: int) -> NoReturn:
    try:
        process.set_parent_death_signal(signal.SIGKILL)
        # The socket that systemd passed would keep clients waiting after the manager's end.
        for name in os.listdir("/proc/self/fd"):
            if int(name) not in (0, 1, 2, server.fileno()):
                with contextlib.suppress(OSError):  # that of the listing
                    os.close(int(name))
        if os.getppid() == parent:
            server.serve_forever()
    finally:
        os._exit(0)


def run(arguments: argparse.Namespace) -> int:
    """Become the manager. Returns only when that fails."""
    if arguments.metrics is None and has_server_options(arguments):
        print(
            "shmtensor serve: --host, --allow-host and --token-file need --metrics", file=sys.stderr
        )
        return 2
    service = Service(arguments.name, socket=arguments.socket)
    if arguments.socket is not None:
        _check_place(arguments.socket, arguments.group)
    if arguments.metrics is not None:
        observer = Observer(arguments.socket or arguments.name)
        server = open_server("serve", observer, arguments, arguments.metrics)
        print(f"shmtensor: metrics at {url_to_print(server, arguments, '/metrics')}", flush=True)
        _serve_beside(server)
    service._handle.serve(
        arguments.limit_bytes,
        arguments.client_limit_bytes,
        -1 if arguments.group is None else arguments.group,
    )
    return 1
