"""The standard `multiprocessing`, through whose messages tensors travel without being copied.

Everything of the standard package is here, the same objects; importing this package teaches its
pickler to send tensors and storages as handles of shared memory. A tensor that is sent moves into
shared memory once and stays there; receivers see the same bytes.

A handle that is under way keeps its memory, whatever happens to the sender; a receiver's hold
ends with the receiver, however it ends.
"""

from __future__ import annotations

import importlib
import multiprocessing
from multiprocessing import *  # noqa: F403
from typing import Any

from shmtensor._boundary import sharing as _sharing
from shmtensor.multiprocessing.reductions import init_reductions

__all__ = [
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    *multiprocessing.__all__,
]


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how new shared storages are made; those that exist keep what they are.

    Args:
        new_strategy: ``"file_system"``: blocks of a few large memory files, reused while warm;
            descriptors do not grow with the number of tensors. ``"file_descriptor"``: a sealed
            memory file for each storage. Spawned children inherit the choice.

    Raises:
        AssertionError: There is no such strategy.

    Source:
        torch.multiprocessing.set_sharing_strategy.
    """
    if new_strategy not in _sharing.STRATEGIES:
        raise AssertionError(
            f"invalid sharing strategy {new_strategy!r}, "
            f"expected one of {get_all_sharing_strategies()}"
        )
    _sharing.set_strategy(new_strategy)


def get_sharing_strategy() -> str:
    """Return the strategy in use.

    Source:
        torch.multiprocessing.get_sharing_strategy; the default here is ``"file_system"``, which
        works with any number of tensors.
    """
    return _sharing.get_strategy()


def get_all_sharing_strategies() -> set[str]:
    """Return the names of the strategies.

    Source:
        torch.multiprocessing.get_all_sharing_strategies.
    """
    return set(_sharing.STRATEGIES)


def __getattr__(name: str) -> Any:
    # The standard package's submodules (queues, pool, managers, ...) are this one's as well.
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return importlib.import_module(f"multiprocessing.{name}")
    except ModuleNotFoundError:
        pass
    try:
        return getattr(multiprocessing, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


init_reductions()
