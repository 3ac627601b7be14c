"""Calls in forked children."""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["register_after_fork"]


def register_after_fork(func: Callable[[], object]) -> None:
    """Call *func* in every child that is forked from now on, before anything else runs there.

    Source:
        torch.multiprocessing._atfork.register_after_fork.
    """
    os.register_at_fork(after_in_child=func)
