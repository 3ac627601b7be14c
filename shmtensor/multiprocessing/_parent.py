"""Ending a process with the one that started it, however that one ends."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import connection, process

from shmtensor._boundary.process import set_parent_death_signal

__all__ = ["end_with_parent"]


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent ends; does nothing in a first process.

    The parent is the process that asked for this one. The thread that did so is to live as long as
    its process, as the kernel looks at threads. Where a fork server stands between, which lives as
    long as its children, a thread of this process looks after the parent.
    """
    parent = process.parent_process()
    if parent is None:
        return
    if parent.pid == os.getppid():
        set_parent_death_signal(signal.SIGKILL)
        if os.getppid() == parent.pid:
            return
    if not parent.is_alive():  # it died before the lines above
        os._exit(1)
    threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
