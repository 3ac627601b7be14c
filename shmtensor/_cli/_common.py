"""Helpers of the sub-commands that inspect sessions: choosing sessions, printing tables."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pwd
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from shmtensor.inspect import Check, Server, Session, Snapshot, Topic, Unreadable, find_sessions
from shmtensor.inspect.processes import printable
from shmtensor.inspect.sessions import select

__all__ = [
    "add_json_argument",
    "add_owner_argument",
    "add_session_argument",
    "check_lines",
    "chosen_sessions",
    "count",
    "identity",
    "messages_text",
    "print_json",
    "queue_lines",
    "queue_values",
    "seconds",
    "size_text",
    "styled",
    "table",
    "title",
    "topic_lines",
    "whole",
]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}
_VERDICTS = {"ok": "green", "bad": "red"}


def add_session_argument(parser: argparse.ArgumentParser) -> None:
    """Give a sub-command ``--session``."""
    parser.add_argument(
        "-s",
        "--session",
        metavar="SESSION",
        default="",
        help="only this session: its name or the beginning of it, its manager's address or process "
        "id, the name or socket path of a service, or the id of a process in it (default: all "
        "sessions of this user)",
    )


def add_owner_argument(parser: argparse.ArgumentParser) -> None:
    """Give a sub-command that only looks ``--owner``."""
    parser.add_argument(
        "--owner",
        metavar="USER",
        type=_uid,
        help="sessions of this user (name or number) instead of your own: services of a group to "
        "which you belong (shmtensor serve --group)",
    )


def _uid(text: str) -> int:
    if text.isascii() and text.isdigit():
        if int(text) >= (1 << 32) - 1:
            raise argparse.ArgumentTypeError(f"no user has the number {text}")
        return int(text)
    try:
        return pwd.getpwnam(text).pw_uid
    except KeyError:
        raise argparse.ArgumentTypeError(f"there is no user {text!r}") from None


def add_json_argument(parser: argparse.ArgumentParser) -> None:
    """Give a sub-command ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON")


@contextlib.contextmanager
def chosen_sessions(
    arguments: argparse.Namespace, already_named: set[str] | None = None
) -> Iterator[list[Session]]:
    """Yield the sessions that ``--session`` selects, and close them afterwards.

    Without the option, managers that cannot be read are named on standard error, one on a line.

    Args:
        arguments: Arguments of the command.
        already_named: Addresses of such managers that were named before; new ones are added.

    Raises:
        LookupError: No session matches the option, or the one that does cannot be read.
    """
    wanted: str = arguments.session
    owner: int | None = vars(arguments).get("owner")
    opened, refused = find_sessions(wanted, owner)
    try:
        chosen = select(opened, wanted)
        if not chosen and owner not in (None, os.geteuid()):
            raise LookupError(_no_service_of(owner, wanted))
        if wanted and not chosen:
            raise LookupError(_why_not(wanted, refused))
        already_named = set() if already_named is None else already_named
        for manager in refused:
            if not wanted and manager.address not in already_named:
                print(f"shmtensor: skipped {_of_another(manager)}", file=sys.stderr)
                already_named.add(manager.address)
        yield chosen
    finally:
        for session in opened:
            session.close()


def _of_another(manager: Unreadable) -> str:
    version = "its manager may be of another version"
    return f"session {manager.name}: {version}: {printable(manager.reason)}"


def _no_service_of(owner: int | None, wanted: str) -> str:
    named = f" is {wanted!r}" if wanted else ""
    return f"no service of user {owner} that you may join{named} (shmtensor serve --group)"


def _why_not(wanted: str, refused: list[Unreadable]) -> str:
    name = wanted.removeprefix("@").lower()
    for manager in refused:
        if manager.address == name or manager.name.startswith(name):
            return f"cannot read {_of_another(manager)}"
    if "/" in wanted:
        return _why_no_socket(os.path.abspath(wanted))
    return f"this user has no session {wanted!r} (shmtensor ls shows them)"


def _why_no_socket(path: str) -> str:
    if not os.path.exists(path):
        return f"there is no socket {path}"
    if not stat.S_ISSOCK(os.stat(path).st_mode):
        return f"{path} is not a socket"
    return f"no manager listens at {path}; shmtensor serve --socket {path} starts one"


def seconds(text: str) -> float:
    """Parse a duration argument: seconds, zero or more."""
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value < 2**31:
        raise argparse.ArgumentTypeError(f"expected seconds, 0 or more, got {text!r}")
    return value


def whole(text: str) -> int:
    """Parse a whole number, zero or more."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, got {text!r}")
    return int(text)


def size_text(nbytes: int) -> str:
    """Return a size such as "512 B" or "1.5 MiB", with at most one digit after the point."""
    value, unit = float(nbytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{nbytes} B" if unit == "B" else f"{value:.1f} {unit}"


def count(n: int, what: str) -> str:
    """Return "1 block", "2 blocks", "2 processes"."""
    plural = what + ("es" if what.endswith("s") else "s")
    return f"{n} {what if n == 1 else plural}"


def styled(text: str, style: str) -> str:
    """Return *text* in a colour or weight, if standard output is a terminal and allows it."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if plain or not sys.stdout.isatty():
        return text
    return f"\033[{_STYLES[style]}m{text}\033[0m"


def title(session: Session) -> str:
    """Return "session 0123456789abcdef" with the name of its service, or what it runs."""
    of = f"service {printable(session.service)}" if session.service else session.snapshot().program
    return f"session {session.name}" + (f" ({of})" if of else "")


def identity(session: Session) -> dict[str, Any]:
    """Return the fields that identify a session in JSON."""
    return {
        "session": session.name,
        "service": session.service,
        "address": session.address,
        "manager_pid": session.manager_pid(),
    }


def print_json(value: Any, indent: int | None = 2) -> None:
    """Print a value as JSON; with *indent* None on one line."""
    print(json.dumps(value, indent=indent), flush=True)


def check_lines(check: Check, width: int) -> list[str]:
    """Return the line of a check, its name padded to *width*, and the line of its advice if any."""
    verdict = styled(f"{check.verdict:<4}", _VERDICTS.get(check.verdict, "yellow"))
    line = f"{verdict}  {check.name:<{width}}  {check.found}"
    return [line, f"{'':<{width + 8}}{check.advice}"] if check.advice else [line]


def table(
    heads: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "", width: int = 0
) -> list[str]:
    """Return lines of aligned columns. A column whose head begins with ``>`` is aligned right.

    Lines are cut to *width* characters, unless that is 0.
    """
    right = [head.startswith(">") for head in heads]
    texts = [[head.lstrip(">") for head in heads], *[[str(cell) for cell in row] for row in rows]]
    widths = [max(len(row[i]) for row in texts) for i in range(len(heads))]
    lines = []
    for row in texts:
        cells = [
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ]
        line = (indent + "  ".join(cells)).rstrip()
        lines.append(line if not width or len(line) <= width else line[: width - 1] + "…")
    return [styled(lines[0], "bold"), *lines[1:]]


def messages_text(n: int, most: int, is_full: bool) -> str:
    """Return how many messages a queue has, of how many it may have, and whether it is full."""
    return f"{n}{f' of {most}' if most else ''}{', full' if is_full else ''}"


def queue_values(session: Session, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Return the session's queues for JSON, with the ids of the processes that made them."""
    pids = {c.client: c.pid for c in snapshot.clients}
    names = session.names_of_queues()
    return [
        {
            **asdict(q),
            "name": names.get(q.block),
            "is_full": q.is_full,
            "made_by": pids.get(q.owner),
        }
        for q in session.queues()
    ]


def queue_lines(session: Session, snapshot: Snapshot) -> list[str]:
    """Return a table of the session's queues; no lines: it has none."""
    who = {c.client: c.who for c in snapshot.clients}
    names = session.names_of_queues()
    rows = []
    for q in session.queues():
        messages = messages_text(q.n_messages, q.max_messages, q.is_full)
        waiting = f" + {q.n_pending}" if q.n_pending else ""
        held = f"{size_text(q.used_bytes)} of {size_text(q.capacity_bytes)}"
        made = who.get(q.owner, "gone")
        unacked = f"{q.n_unacknowledged}{f', {q.n_dead_letters} dead' if q.n_dead_letters else ''}"
        name = printable(names.get(q.block, ""))
        rows.append([q.block, f"{messages}{waiting}", unacked, q.n_put, held, made, name])
    heads = [">QUEUE", ">MESSAGES", ">UNACKED", ">PUT", ">BYTES", ">MADE BY", "NAME"]
    return table(heads, rows, indent="  ") if rows else []


def topic_lines(topics: dict[str, Topic], servers: dict[str, Server], width: int = 0) -> list[str]:
    """Return a table of topics and one of servers; no lines: there are none.

    Lines are cut to *width* characters, unless that is 0.
    """
    topic_rows = [
        [printable(name), t.n_subscribers, t.n_published, f"{t.lag} of {t.depth}", t.n_lost]
        for name, t in sorted(topics.items())
    ]
    server_rows = [
        [
            printable(name),
            f"{s.n_waiting}{f' of {s.max_waiting}' if s.max_waiting else ''}",
            s.n_requests,
        ]
        for name, s in sorted(servers.items())
    ]
    heads = ["TOPIC", ">SUBSCRIBERS", ">PUBLISHED", ">LAG", ">LOST"]
    lines = table(heads, topic_rows, indent="  ", width=width) if topic_rows else []
    if server_rows:
        heads = ["SERVER", ">WAITING", ">REQUESTS"]
        lines += table(heads, server_rows, indent="  ", width=width)
    return lines
