"""What the other process does in tests of lend() and cow(); importable by spawned children."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any


def _try(call: Callable[[], object]) -> str:
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return "done"


def read_lent(inbox: Any, outbox: Any) -> None:
    t = inbox.recv()
    outbox.send(
        (t.tolist(), t.is_shared(), t.stride(), t.storage_offset(), t.numpy().flags.writeable)
    )
    outbox.send([_try(lambda: t.add_(1)), _try(lambda: t.__setitem__(0, 3)), _try(t.zero_)])
    outbox.send(_try(lambda: outbox.send(t)))
    inbox.recv()
    outbox.send(t.tolist())


def write_privately(inbox: Any, outbox: Any) -> None:
    t = inbox.recv()
    t[0] = 5
    outbox.send((t.tolist(), t.is_shared()))


def write_past_everything(inbox: Any, outbox: Any) -> None:
    address = inbox.recv().data_ptr()
    outbox.send("received")
    ctypes.memset(address, 0, 1)


def receive_all_modes(inbox: Any, outbox: Any) -> None:
    got = inbox.recv()
    got["own"][0].add_(1)
    got["shared"].add_(2)
    outbox.send(tuple(t.tolist() for t in (got["shared"], got["own"][0], got["lent"])))


def describe(inbox: Any, outbox: Any) -> None:
    t = inbox.recv()
    outbox.send((tuple(t.shape), t.requires_grad, t.is_meta))
