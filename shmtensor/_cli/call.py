"""Calls a server of a service with a JSON value, and prints the answer as JSON.

Tensors in the answer are nested lists; one of more than 1000 elements is its dtype, shape and first
elements. Anything else that JSON cannot express is a string, as Python writes it.

    shmtensor call double '[1, 2, 3]' --timeout 5

In your own service the answer may be a pickle; opening it runs the server's code.

exit status
  0    the server has answered
  1    failed: there is no such service or server, or the value cannot be sent
  2    wrong usage, or the value is not JSON
  3    no answer came in --timeout seconds
  4    the server was killed, or dropped the request
  5    the server has answered with an error
  130  ended by Ctrl-C
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from shmtensor._cli._common import print_json, seconds
from shmtensor._cli._services import add_service_arguments, existing, service_of
from shmtensor._cli._shown import cut, json_value
from shmtensor.errors import RemoteError, ServerLostError, WaitTimeoutError
from shmtensor.multiprocessing._user_errors import text_of
from shmtensor.service._calls import Client

SUMMARY = "call a server with a JSON value"

_LATE, _LOST, _REFUSED = 3, 4, 5
_MOST_OF_IT = 40


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        given = text if len(text) <= _MOST_OF_IT else text[: _MOST_OF_IT - 1] + "…"
        raise argparse.ArgumentTypeError(f"expected JSON, got {given!r}: {error}") from None


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("name", metavar="NAME", help="the server's name in the service")
    parser.add_argument("value", metavar="JSON", type=_json, help="what to ask")
    add_service_arguments(parser)
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="S",
        help="wait at most S seconds for the answer (default: as long as it takes)",
    )


def _failed(text: object, status: int) -> int:
    print(f"shmtensor: {cut(str(text))}", file=sys.stderr)
    return status


def _call(client: Client, arguments: argparse.Namespace) -> int:
    name = arguments.name
    try:
        answer = client.call(arguments.value, arguments.timeout)
    except BaseException as error:
        if isinstance(error.__cause__, RemoteError):  # the server's own, of whatever class
            return _failed(f"{name!r} answered with {text_of(error)}", _REFUSED)
        if isinstance(error, RemoteError):
            text = str(error).removeprefix(f"{name!r}: ").partition("\n\n")[0]
            return _failed(f"{name!r} answered: {text}", _REFUSED)
        if isinstance(error, ServerLostError):
            return _failed(error, _LOST)
        if isinstance(error, WaitTimeoutError):
            return _failed(error, _LATE)
        if isinstance(error, TypeError):  # the value cannot be sent, or the answer not be read
            return _failed(error, 1)
        raise
    print_json(json_value(answer), indent=None)
    return 0


def run(arguments: argparse.Namespace) -> int:
    """Call, and print the answer."""
    service = service_of(arguments)
    with existing(service, arguments.name, "server"):
        client = service.Client(arguments.name)
    with client:
        return _call(client, arguments)
