"""What the other process does in tests of lend() and cow(); importable by spawned children."""

from __future__ import annotations

import ctypes
import faulthandler
import warnings
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

import shmtensor as T
from shmtensor.multiprocessing import cow, lend


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


def look_for_a_way_to_write(inbox: Any, outbox: Any) -> None:
    t = inbox.recv()
    warnings.simplefilter("ignore")
    arrays = [t.numpy(), np.asarray(t), np.from_dlpack(t)]
    over = [T.from_numpy(a) for a in arrays] + [T.as_tensor(arrays[0]), T.asarray(arrays[0])]
    over += [T.from_dlpack(t), T.frombuffer(memoryview(t).cast("B"), dtype=t.dtype)]
    over += [T.zeros(4).set_(t.untyped_storage(), 0, (4,)), t.data, t.detach(), t.share_memory_()]
    weight = T.ones(4, requires_grad=True)
    weight.grad = t
    storage = t.untyped_storage()
    ways: list[Callable[[], object]] = [
        storage._share_fd_,
        storage._share_filename_,
        lambda: ForkingPickler.dumps(t),
        lambda: ForkingPickler.dumps(storage),
        lambda: ForkingPickler.dumps([t, t]),
        lambda: ForkingPickler.dumps(lend(t)),
        lambda: ForkingPickler.dumps(cow(t)),
        lambda: storage.resize_(1000),
        lambda: t.resize_(1000),
        lambda: T.mm(T.ones(2, 2), T.ones(2, 2), out=t.view(2, 2)),
        lambda: (weight * 2).sum().backward(),
    ]
    ways += [lambda way=way: way.add_(1) for way in over]  # type: ignore[misc]
    ways += [lambda way=way: way.copy_(T.ones(4)) for way in over]  # type: ignore[misc]
    outbox.send([_try(way) for way in ways])
    outbox.send([a.flags.writeable for a in arrays] + [not memoryview(t).readonly])


def write_privately(inbox: Any, outbox: Any) -> None:
    t = inbox.recv()
    t[0] = 5
    outbox.send((t.tolist(), t.is_shared()))


def write_past_everything(inbox: Any, outbox: Any) -> None:
    address = inbox.recv().data_ptr()
    faulthandler.disable()  # the signal is what is wanted
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
