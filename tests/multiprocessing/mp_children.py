"""What the tests' child processes run; importable under every start method."""

from __future__ import annotations

import os
import time
from typing import Any

import shmtensor as st
import shmtensor.multiprocessing


def put_and_leave(queue: Any, how: str) -> None:
    """Send a list of tensors and end at once."""
    base = st.arange(1000, dtype=st.float32)
    message = [base, base[10:20], st.ones(3, 4, dtype=st.float64).t()]
    if how == "pipe":
        queue.send(message)
    else:
        queue.put(message)
    if how == "queue":
        queue.close()
        queue.join_thread()
    os._exit(0)


def echo(inbox: Any, outbox: Any) -> None:
    """Send everything back until None comes."""
    while True:
        item = inbox.get()
        if item is None:
            return
        outbox.put(item)


def add_one(inbox: Any, outbox: Any) -> None:
    """Add one to what comes, in place, and say so."""
    inbox.get().add_(1)
    outbox.put("done")


def add_to_argument(tensor: Any) -> None:
    """Add one in place."""
    tensor.add_(1)


def check_aliases(inbox: Any, outbox: Any) -> None:
    """Report whether two messages' tensors are one memory."""
    first = inbox.get()
    second = inbox.get()
    a, b = first
    a[0] = 42
    outbox.put((b.data_ptr() == a.data_ptr(), float(second[0]), second.data_ptr() == a.data_ptr()))


def hold(inbox: Any, outbox: Any) -> None:
    """Keep what comes until killed."""
    kept = []
    while True:
        kept.append(inbox.get())
        outbox.put(len(kept))


def double(tensor: Any) -> Any:
    """For pools."""
    return tensor * 2


def report_strategy(outbox: Any) -> None:
    """Send the strategy that this child has."""
    from shmtensor.multiprocessing import get_sharing_strategy

    outbox.put(get_sharing_strategy())


def sleep() -> None:
    """Do nothing for long."""
    time.sleep(60)


def report_settings(outbox: Any) -> None:
    """Send what this child has inherited."""
    from shmtensor.multiprocessing import get_sharing_strategy, reductions

    session = os.environ["SHMTENSOR_MANAGER"]
    outbox.put((get_sharing_strategy(), reductions.shares_numpy(), session))


def add_all(tensors: Any, total: Any) -> None:
    """Add all elements to *total*."""
    for tensor in tensors:
        total.add_(tensor.sum())
