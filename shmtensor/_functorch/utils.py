"""Small parts that libraries import.

Source:
    torch._functorch.utils.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import shmtensor

__all__ = [
    "argnums_t",
    "enable_single_level_autograd_function",
    "exposed_in",
    "unwrap_dead_wrappers",
]

argnums_t: TypeAlias = int | tuple[int, ...]


def exposed_in(module: str) -> Callable[[Any], Any]:
    """Return a decorator that names the module in which a function is found."""

    def wrapper(function: Any) -> Any:
        function.__module__ = module.replace("torch", shmtensor.__name__, 1)
        return function

    return wrapper


@contextlib.contextmanager
def enable_single_level_autograd_function() -> Iterator[None]:
    """A context in which a ``Function`` is recorded as outside of transforms; here it always is."""
    yield


def unwrap_dead_wrappers(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return *args* without wrappers of transforms that have ended; there are none here."""
    return tuple(args)
