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
import json
import sys
from typing import Any

from shmtensor._cli._common import add_json_argument, count, whole
from shmtensor._cli._messages import Unreadable, look_at_next
from shmtensor._cli._services import add_service_arguments, existing, service_of
from shmtensor._cli._shown import cut, json_value, shown
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


def _json(value: Any) -> str:
    return json.dumps(json_value(value))


def _next_line(messages: Subscription[Any], is_json: bool) -> str:
    """Wait for a message, and return its line."""
    try:
        return look_at_next(messages, _json if is_json else shown)
    except Unreadable as error:  # classes that are not here, and more
        text = f"(cannot be read: {error})"
        return json.dumps(text) if is_json else cut(text)


def run(arguments: argparse.Namespace) -> int:
    """Print messages until the user leaves, or as many as --count says."""
    service = service_of(arguments)
    with existing(service, arguments.topic, "topic"):
        topic = service.Topic(arguments.topic)
    lost = n = 0
    with topic.subscribe() as messages:
        while not arguments.count or n < arguments.count:
            line = _next_line(messages, arguments.json)
            n += 1
            if messages.lost > lost:
                were = "was" if messages.lost - lost == 1 else "were"
                text = f"{count(messages.lost - lost, 'message')} {were} lost"
                print(f"shmtensor: {text}; {topic.depth} can wait here", file=sys.stderr)
                lost = messages.lost
            print(line, flush=True)
    return 0
