"""Runs a service of named tensors in the foreground, until SIGTERM or Ctrl-C.

Programs use it through `shmtensor.service.Service(NAME)`. It runs as this user and serves this
user's processes, or also those of a group. When processes can join, it prints a line on standard
output and tells systemd that it is ready (NOTIFY_SOCKET, for Type=notify). systemd may pass it the
socket (LISTEN_FDS).

exit status
  0  ended by SIGTERM or Ctrl-C
  1  failed: another one runs, or the socket cannot be bound
  2  wrong usage
  3  there is not enough memory
  4  the manager could not start
"""

from __future__ import annotations

import argparse
import grp
import os
import stat

from shmtensor.service import Service

__all__ = ["SUMMARY", "configure", "run"]

SUMMARY = "run a service of named tensors"

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _nbytes(text: str) -> int:
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
        type=_nbytes,
        default=0,
        help="most memory of the whole service, in bytes or with K, M, G, T; 0: no limit",
    )
    parser.add_argument(
        "--client-limit-bytes",
        metavar="N",
        type=_nbytes,
        default=0,
        help="most memory that one process may allocate; 0: no limit",
    )


def _check_directory(path: str, gid: int | None) -> None:
    """Make the socket's directory, or check that other users cannot enter it."""
    directory = os.path.dirname(os.path.abspath(path))
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


def run(arguments: argparse.Namespace) -> int:
    """Become the manager. Returns only when that fails."""
    service = Service(arguments.name, socket=arguments.socket)
    if arguments.socket is not None:
        _check_directory(arguments.socket, arguments.group)
    service._handle.serve(
        arguments.limit_bytes,
        arguments.client_limit_bytes,
        -1 if arguments.group is None else arguments.group,
    )
    return 1
