"""How the processes of a group find each other, by the text of an ``init_method``.

Source:
    torch.distributed.rendezvous.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote, urlparse

from shmtensor.distributed._backend import default_pg_timeout
from shmtensor.distributed._file_store import FileStore
from shmtensor.distributed._stores import Store
from shmtensor.distributed._tcp_store import TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

_Found = tuple[Store, int, int]
_handlers: dict[str, Callable[..., Iterator[_Found]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[_Found]]) -> None:
    """Add a scheme.

    Args:
        scheme: The text before ``://``.
        handler: Called as ``handler(url, timeout=...)``; yields a store, a rank and a size.

    Raises:
        RuntimeError: The scheme is taken.

    Source:
        torch.distributed.register_rendezvous_handler.
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(
    url: str,
    rank: int = -1,
    world_size: int = -1,
    timeout: timedelta = default_pg_timeout,
    **options: Any,
) -> Iterator[_Found]:
    """Return an iterator; its first item is a store, a rank and a size.

    Args:
        url: ``env://``, ``tcp://host:port?rank=0&world_size=2`` or ``file:///path?...``.
        rank: Instead of the url's.
        world_size: Instead of the url's.
        timeout: How long to wait for the store.
        options: Accepted.

    Raises:
        RuntimeError: There is no handler for the scheme.
        ValueError: Something is missing.

    Source:
        torch.distributed.rendezvous.
    """
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parts = urlparse(url)
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    query = dict(parse_qsl(parts.query))
    if rank != -1:
        query["rank"] = str(rank)
    if world_size != -1:
        query["world_size"] = str(world_size)
    rest = "&".join(f"{key}={value}" for key, value in query.items())
    return _handlers[parts.scheme](parts._replace(query=rest).geturl(), timeout=timeout)


def _error(scheme: str, text: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {text}")


def _number(text: str, scheme: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _error(scheme, f"{what} is not a number: {text!r}") from None


def _asked(url: str, scheme: str) -> tuple[int, int]:
    query = dict(parse_qsl(urlparse(url).query))
    if "rank" not in query:
        raise _error(scheme, "rank parameter missing")
    if "world_size" not in query:
        raise _error(scheme, "world size parameter missing")
    return _number(query["rank"], scheme, "rank"), _number(
        query["world_size"], scheme, "world size"
    )


def _tcp(url: str, timeout: timedelta = default_pg_timeout) -> Iterator[_Found]:
    parts = urlparse(url)
    try:
        port = parts.port
    except ValueError as error:
        raise _error("tcp", f"port number: {error}") from None
    if port is None:
        raise _error("tcp", "port number missing")
    rank, world_size = _asked(url, "tcp")
    yield _tcp_store(parts.hostname or "localhost", port, rank, world_size, timeout)


def _tcp_store(host: str, port: int, rank: int, world_size: int, timeout: timedelta) -> _Found:
    # A launcher may keep the store itself; then all ranks are clients.
    is_master = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    store = TCPStore(
        host, port, world_size, is_master, timeout, wait_for_workers=False, multi_tenant=True
    )
    return store, rank, world_size


def _file(url: str, timeout: timedelta = default_pg_timeout) -> Iterator[_Found]:
    parts = urlparse(url)
    if not parts.path:
        raise _error("file", "path missing")
    rank, world_size = _asked(url, "file")
    yield FileStore(unquote(parts.path), world_size), rank, world_size


def _env(url: str, timeout: timedelta = default_pg_timeout) -> Iterator[_Found]:
    query = dict(parse_qsl(urlparse(url).query))

    def variable(name: str) -> str:
        value = os.environ.get(name)
        if value is None:
            raise _error("env", f"environment variable {name} expected, but not set")
        return value

    rank = _number(query.get("rank") or variable("RANK"), "env", "RANK")
    size = _number(query.get("world_size") or variable("WORLD_SIZE"), "env", "WORLD_SIZE")
    host = variable("MASTER_ADDR")
    port = _number(variable("MASTER_PORT"), "env", "MASTER_PORT")
    yield _tcp_store(host, port, rank, size, timeout)


register_rendezvous_handler("tcp", _tcp)
register_rendezvous_handler("env", _env)
register_rendezvous_handler("file", _file)
