"""Prints what is published in a topic of a service, a line for each message.

The command subscribes like any other program, after the topic's history. Tensors and arrays are
shown by dtype, shape and first elements, everything else as Python writes it. Control characters
are escaped. A line is cut to the width of the terminal, or to 200 characters. With --json each line
is the whole message; tensors of more than 1000 elements are their dtype, shape and first elements.
What JSON cannot express is a string, as Python writes it; after a million items comes "…".

When the command is too slow, it loses messages, and says on standard error how many. In a topic
with overflow "block" it loses none; then publishers wait for it, even for your terminal.

In your own service messages may be pickles; opening one runs code of whoever published it.

exit status
  0    --count messages were printed
  1    failed: there is no such service or topic
  2    wrong usage
  130  ended by Ctrl-C
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from shmtensor._cli._common import add_json_argument, count, print_json, whole
from shmtensor._cli._services import add_service_arguments, existing, service_of
from shmtensor._cli._shown import cut, json_value, shown
from shmtensor.errors import ShmTensorError
from shmtensor.service import Subscription

SUMMARY = "print what is published in a topic"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("topic", metavar="TOPIC", help="its name in the service")
    add_service_arguments(parser)
    parser.add_argument(
        "-n",
        "--count",
        type=whole,
        default=0,
        metavar="N",
        help="end after N messages (default: never)",
    )
    add_json_argument(parser)


class _Unreadable:
    """A message that this process cannot make a value of."""

    def __init__(self, error: Exception) -> None:
        self._text = f"(cannot be read: {type(error).__name__}: {error})"

    def __repr__(self) -> str:
        return self._text


def _next(messages: Subscription[Any]) -> Any:
    try:
        return messages.get()
    except (ShmTensorError, MemoryError):
        raise
    except Exception as error:  # whatever unpickling raises: classes that are not here, and more
        return _Unreadable(error)


def run(arguments: argparse.Namespace) -> int:
    """Print messages until the user leaves, or as many as --count says."""
    service = service_of(arguments)
    with existing(service, arguments.topic, "topic"):
        topic = service.Topic(arguments.topic)
    lost = n = 0
    with topic.subscribe() as messages:
        while not arguments.count or n < arguments.count:
            value = _next(messages)
            n += 1
            if messages.lost > lost:
                were = "was" if messages.lost - lost == 1 else "were"
                text = f"{count(messages.lost - lost, 'message')} {were} lost"
                print(f"shmtensor: {text}; {topic.depth} can wait here", file=sys.stderr)
                lost = messages.lost
            if arguments.json:
                print_json(json_value(value), indent=None)
            else:
                print(cut(repr(value)) if type(value) is _Unreadable else shown(value), flush=True)
    return 0
