"""Labels of child processes for the command-line tools: the name, and the function it runs.

The command line does not tell: a spawned child's only says that it is one, and a forked child has
its parent's.
"""

from __future__ import annotations

import contextlib
from multiprocessing import process, util
from typing import Any

from shmtensor._boundary.sharing import set_label
from shmtensor.multiprocessing._stdlib import call_in_spawned, target_of

__all__ = ["label_children", "label_this"]


def label_this(runs: object = None) -> None:
    """Label this process if `multiprocessing` started it.

    Args:
        runs: The function that it runs; None: the target of its process object.
    """
    if process.parent_process() is None:
        return
    # A program's own objects may raise when their names are read; the process must start anyway.
    with contextlib.suppress(Exception):
        current: Any = process.current_process()
        set_label(f"{current.name}: {_name_of(runs or _task(current))}")


def _task(current: Any) -> object:
    """The target, or the class of the process object, which then defines `run`."""
    target: object = target_of(current)
    return type(current) if target is None else target


def _name_of(runs: Any) -> str:
    """A short name of a callable, which need not be a function."""
    runs = getattr(runs, "func", runs)  # of a functools.partial
    name = getattr(runs, "__qualname__", None) or type(runs).__qualname__
    return str(name).rpartition("<locals>.")[2]


def label_children() -> None:
    """Label the children that start from now on, and this process if it is a child."""
    util.register_after_fork(label_children, lambda _: label_this())
    call_in_spawned(label_this)
    label_this()
