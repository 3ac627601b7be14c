"""What the tools show of a child process: its name, and what it runs.

The command line of a spawned child says only that it is one, and a forked child has its parent's.
"""

from __future__ import annotations

import contextlib
from multiprocessing import context, process, util
from typing import Any

from shmtensor._boundary.sharing import set_label

__all__ = ["label_children", "label_this"]


def label_this(runs: object = None) -> None:
    """Label this process, unless nobody started it through `multiprocessing`.

    Args:
        runs: The function it runs; None: the target of its process object.
    """
    if process.parent_process() is None:
        return
    # Whatever a program's own objects do when they are asked: the process is to begin.
    with contextlib.suppress(Exception):
        current: Any = process.current_process()
        set_label(f"{current.name}: {_name_of(runs or _task(current))}")


def _task(current: Any) -> object:
    """The target, or the class that has a `run` of its own."""
    target: object = getattr(current, "_target", None)
    return type(current) if target is None else target


def _name_of(runs: Any) -> str:
    """Its name, short, as far as it has one: a program may make anything callable."""
    runs = getattr(runs, "func", runs)  # of a functools.partial
    name = getattr(runs, "__qualname__", None) or type(runs).__qualname__
    return str(name).rpartition("<locals>.")[2]


def label_children() -> None:
    """Label the children that begin from now on, and this process if it is one."""
    util.register_after_fork(label_children, lambda _: label_this())
    spawned: Any = context.SpawnProcess
    before = spawned._after_fork

    def begin() -> None:
        before()
        label_this()

    # A spawned child makes no calls for children of a fork; this is their place.
    spawned._after_fork = staticmethod(begin)
    label_this()
