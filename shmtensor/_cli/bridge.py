"""Forwards topics, values and calls between a service of this machine and one of another.

One bridge runs on each machine. One of them listens; the other connects, and tries again until it
succeeds. Name on both what they share. A line on standard output says when the link comes up and
goes down.

    here   shmtensor bridge --listen tcp/0.0.0.0:7447 --topic frames --value weights --call double
    there  shmtensor bridge --connect tcp/HERE:7447 --topic frames --remote-value weights
           --remote-call double

With --status, it prints what the running bridges of a service have counted; with --metrics, the
same in Prometheus's text format.

Anybody who reaches the port can take part. To keep strangers out, give Zenoh a file with TLS,
certificates or access control (--config). Without one, use only networks that you trust.

exit status
  0    ended by SIGTERM or Ctrl-C; --status: all bridges have answered
  1    failed: there is no such service, the address is taken, a name stands for something else, or
       eclipse-zenoh is not installed; --status: there is no bridge, or one does not answer
  2    wrong usage
"""

from __future__ import annotations

import argparse
import contextlib
import queue
import signal
import sys
import time
from collections.abc import Iterator
from typing import Any

from shmtensor._cli._common import add_json_argument, count, print_json, size_text, table
from shmtensor._cli._services import add_service_arguments, service_of
from shmtensor._cli.serve import nbytes as _nbytes
from shmtensor.bridge import Bridge
from shmtensor.bridge._bridge import MOST_BYTES, STATUS_PREFIX
from shmtensor.bridge._counters import as_prometheus, is_status
from shmtensor.errors import CallError, ManagerError, WaitTimeoutError
from shmtensor.inspect.processes import printable
from shmtensor.service import Service

SUMMARY = "forward topics, values and calls to another machine"

_ANSWER_S = 5.0
# A script, or systemd, starts `shmtensor serve` and the bridge side by side.
_SERVICE_S = 3.0

_NAMES = (
    ("topic", "a topic, in both directions"),
    ("topic-out", "a topic whose messages go to the other machine"),
    ("topic-in", "a topic whose messages come from the other machine"),
    ("value", "a value that programs of this machine publish"),
    ("call", "a name whose servers are on this machine"),
    ("remote-value", "a value that programs of the other machine publish"),
    ("remote-call", "a name whose servers are on the other machine"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    add_service_arguments(parser)
    where = parser.add_argument_group("the link")
    for option, text in (
        ("connect", "where the other bridge listens"),
        ("listen", "where to listen"),
    ):
        where.add_argument(
            f"--{option}",
            action="append",
            default=[],
            metavar="ADDRESS",
            help=f"{text}: tcp/HOST:PORT",
        )
    where.add_argument(
        "--config", metavar="FILE", help="configuration of Zenoh: TLS, access control, routers"
    )
    where.add_argument(
        "--pair",
        default="default",
        metavar="NAME",
        help="name of this pair of bridges, the same on both, if one Zenoh network has several "
        "(default: %(default)s)",
    )
    where.add_argument(
        "--max-bytes",
        type=_nbytes,
        default=MOST_BYTES,
        metavar="N",
        help="most bytes of a message, also with K, M, G (default: 256M)",
    )
    names = parser.add_argument_group("what is shared; each may be given several times")
    for option, text in _NAMES:
        names.add_argument(f"--{option}", action="append", default=[], metavar="NAME", help=text)
    names.add_argument(
        "--prefix", default="", help="put this before all these names, on this machine only"
    )
    looks = parser.add_argument_group("looking at running bridges")
    looks.add_argument("--status", action="store_true", help="print their counters, and end")
    looks.add_argument(
        "--metrics", action="store_true", help="the same in Prometheus's text format"
    )
    add_json_argument(looks)  # type: ignore[arg-type]


# --- running --------------------------------------------------------------------------------------


@contextlib.contextmanager
def _signals_into(changes: queue.SimpleQueue[bool | None]) -> Iterator[None]:
    """Put None into the queue when SIGTERM or SIGINT comes; its `put` may interrupt another one."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(n, lambda number, frame: changes.put(None)) for n in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def _say(text: str) -> None:
    print(f"shmtensor: {text}", flush=True)


def _join(service: Service) -> None:
    """Join the service, which may be starting just now.

    Raises:
        ManagerError: It did not come, or refuses this process.
    """
    end_s = time.monotonic() + _SERVICE_S
    while True:
        try:
            return service._handle.join(True)
        except ManagerError:
            if time.monotonic() > end_s:
                raise
        time.sleep(0.05)


def _run(arguments: argparse.Namespace, service: Service) -> int:
    changes: queue.SimpleQueue[bool | None] = queue.SimpleQueue()
    bridge = Bridge(
        service,
        connect=arguments.connect,
        listen=arguments.listen,
        topics=arguments.topic,
        topics_out=arguments.topic_out,
        topics_in=arguments.topic_in,
        values=arguments.value,
        calls=arguments.call,
        remote_values=arguments.remote_value,
        remote_calls=arguments.remote_call,
        prefix=arguments.prefix,
        pair=arguments.pair,
        config=arguments.config,
        max_bytes=arguments.max_bytes,
        on_change=changes.put,
    )
    _join(service)
    with _signals_into(changes), bridge:
        _say(f"bridge {bridge.status().id} waits for its partner")
        while (is_up := changes.get()) is not None:
            bridge.wait_up(0)  # raises what has ended it
            _say(f"the link is {'up' if is_up else 'down'}")
    return 0


# --- looking --------------------------------------------------------------------------------------


def _statuses(service: Service) -> list[dict[str, Any]]:
    """Ask the bridges of a service.

    Raises:
        LookupError: There is none.
        CallError: One does not answer, or with something else.
    """
    names = sorted(
        name
        for name, entry in service.list().items()
        if entry.kind == "server" and name.startswith(STATUS_PREFIX)
    )
    if not names:
        raise LookupError(f"service {service._name!r} has no bridge; shmtensor bridge starts one")
    answers = []
    for name in names:
        with service.Client(name) as client:
            try:
                answer = client.call(None, _ANSWER_S)
            except WaitTimeoutError:
                raise CallError(f"{name!r} does not answer") from None
        if not is_status(answer):
            raise CallError(f"{name!r} has answered with what is no status of a bridge")
        answers.append(answer)
    return answers


_HEADS = (
    "KIND",
    "NAME",
    ">SENT",
    ">BYTES",
    ">RECEIVED",
    ">BYTES",
    ">LOST",
    ">SKIPPED",
    ">REFUSED",
    ">DAMAGED",
    ">UNDER WAY",
)


def _row(row: dict[str, Any]) -> list[object]:
    return [
        printable(row["kind"]),
        printable(row["name"]),
        row["n_sent"],
        size_text(row["sent_bytes"]),
        row["n_received"],
        size_text(row["received_bytes"]),
        row["n_lost"],
        row["n_skipped"],
        row["n_refused"],
        row["n_damaged"],
        row["n_under_way"],
    ]


def _lines(status: dict[str, Any]) -> list[str]:
    link = f"up, to {printable(status['partner'])}" if status["is_up"] else "down"
    came_up = f"came up {count(status['n_ups'], 'time')}"
    lines = [f"bridge {printable(status['id'])} (process {status['pid']}): {link}; {came_up}"]
    if status["waiting"] and not status["is_up"]:
        others = printable(", ".join(status["waiting"]))
        lines.append(f"  others are there, with other partners: {others}")
    if status["n_damaged"]:
        lines.append(f"  {status['n_damaged']} frames refused: {printable(status['last_error'])}")
    if status["n_dropped"]:
        lines.append(f"  {status['n_dropped']} greetings dropped: too many came at once")
    lines += table(_HEADS, [_row(row) for row in status["names"]], indent="  ")
    lines += [
        f"  {printable(row['name'])}: {printable(row['last_error'])}"
        for row in status["names"]
        if row["last_error"]
    ]
    return lines


def _look(arguments: argparse.Namespace, service: Service) -> int:
    statuses = _statuses(service)
    if arguments.metrics:
        print(as_prometheus(statuses), end="")
    elif arguments.json:
        print_json(statuses)
    else:
        print("\n".join(line for status in statuses for line in _lines(status)))
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Be a bridge until SIGTERM or Ctrl-C, or look at those that run."""
    looks = arguments.status or arguments.metrics or arguments.json
    if not looks and not (arguments.connect or arguments.listen or arguments.config):
        print("shmtensor bridge: expected --connect, --listen or --config", file=sys.stderr)
        return 2
    service = service_of(arguments)
    if looks:
        return _look(arguments, service)
    try:
        return _run(arguments, service)
    except ModuleNotFoundError as error:
        print(f"shmtensor: {error}", file=sys.stderr)
        return 1
