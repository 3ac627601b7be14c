"""Helpers of the sub-commands that take part in a service: joining it, and finding a name there."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator

from shmtensor._boundary.service import Handle
from shmtensor._cli._common import add_owner_argument
from shmtensor.service import Service
from shmtensor.service._names import storages_of

__all__ = ["add_service_arguments", "existing", "service_of"]

_MOST_NAMES = 5


class _Running(Service):
    """A service that runs already: a tool starts none."""

    def _make_handle(self) -> Handle:
        self._made = made = Handle(self._name, self._path, self._owner, may_start=False)
        return made


def add_service_arguments(parser: argparse.ArgumentParser) -> None:
    """Give a sub-command ``--service`` and ``--owner``."""
    parser.add_argument(
        "-s",
        "--service",
        metavar="SERVICE",
        help="name of the service, or the path of its socket (default: $SHMTENSOR_SERVICE, or "
        '"default")',
    )
    add_owner_argument(parser)


def service_of(arguments: argparse.Namespace) -> Service:
    """Return the service that ``--service`` names. It is joined when it is first needed."""
    name: str | None = arguments.service or None
    path = name if name is not None and "/" in name else None
    return _Running(name, socket=path, owner=arguments.owner)


@contextlib.contextmanager
def existing(service: Service, name: str, kind: str) -> Iterator[None]:
    """Keep a name until the end of the block, so that whatever opens it there makes nothing.

    Args:
        service: The service that has the name.
        name: What the user gave.
        kind: What it must stand for.

    Raises:
        LookupError: The service has no such name; the text has some that it has.
        ValueError: The name stands for something else.
        ManagerError: The service does not run.
    """
    service._check_name(name)
    held = storages_of(service, name, kind)
    if held is None:
        names = sorted(n for n, entry in service.list().items() if entry.kind == kind)
        more = ", …" if len(names) > _MOST_NAMES else ""
        known = f"; it has: {', '.join(map(repr, names[:_MOST_NAMES]))}{more}" if names else ""
        raise LookupError(f"service {service._name!r} has no {kind} {name!r}{known}")
    yield
    held.clear()
