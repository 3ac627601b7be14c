"""Prints how often, and how much, is published in a topic of a service, every second.

The command subscribes like any other program. When it is too slow, it loses messages, and its rates
count only those that arrived. In a topic with overflow "block" publishers wait for it.

columns
  MESSAGES/S  messages that arrived each second, over the last --window seconds
  MB/S        millions of bytes of their tensors, texts and bytes each second; nothing is copied
  LOST        messages that this command has lost so far

exit status
  0    --count lines were printed
  1    failed: there is no such service or topic
  2    wrong usage
  130  ended by Ctrl-C
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from queue import Empty
from typing import Any

from shmtensor._cli._common import table, whole
from shmtensor._cli._messages import Unreadable, look_at_next
from shmtensor._cli._services import add_service_arguments, existing, service_of
from shmtensor._cli._shown import nbytes_of
from shmtensor.service import Subscription

SUMMARY = "print the rate of messages in a topic"

_HEADS = (">MESSAGES/S", ">      MB/S", ">    LOST")
_INTERVAL_S = 1.0


def _seconds(text: str) -> int:
    n = whole(text)
    if n == 0:
        raise argparse.ArgumentTypeError("expected 1 second or more, got '0'")
    return n


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("topic", metavar="TOPIC", help="its name in the service")
    add_service_arguments(parser)
    parser.add_argument(
        "--window",
        type=_seconds,
        default=1,
        metavar="N",
        help="rates over the last N seconds (default: 1)",
    )
    parser.add_argument(
        "-n",
        "--count",
        type=whole,
        default=0,
        metavar="N",
        help="end after N lines (default: never)",
    )


def _arrivals(messages: Subscription[Any], end_s: float) -> tuple[int, int]:
    """Take messages until a time on the clock of `time.monotonic`; return number and bytes."""
    n = nbytes = 0
    while (left_s := end_s - time.monotonic()) > 0:
        try:
            nbytes += look_at_next(messages, nbytes_of, left_s)
        except Empty:
            break
        except Unreadable:  # it has arrived
            pass
        n += 1
    return n, nbytes


def _line(cells: tuple[object, ...]) -> str:
    """Return a row of the table, whose columns have the widths of their heads."""
    return table([f">{'':{len(head) - 1}}" for head in _HEADS], [cells])[1]


def run(arguments: argparse.Namespace) -> int:
    """Print lines until the user leaves, or as many as --count says."""
    service = service_of(arguments)
    with existing(service, arguments.topic, "topic"):
        topic = service.Topic(arguments.topic)
    window: deque[tuple[float, int, int]] = deque(maxlen=arguments.window)
    n_lines = 0
    with topic.subscribe() as messages:
        print(table(_HEADS, [])[0], flush=True)
        begin_s = time.monotonic()
        while not arguments.count or n_lines < arguments.count:
            n, nbytes = _arrivals(messages, begin_s + _INTERVAL_S)
            now_s = time.monotonic()
            window.append((now_s - begin_s, n, nbytes))
            begin_s = now_s
            time_s, all_n, all_bytes = map(sum, zip(*window, strict=True))
            mb = f"{all_bytes / time_s / 1e6:.2f}"
            print(_line((f"{all_n / time_s:.1f}", mb, messages.lost)), flush=True)
            n_lines += 1
    return 0
