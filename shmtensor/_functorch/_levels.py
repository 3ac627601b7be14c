"""Levels of function transforms: entering, leaving, and what a thread is inside of.

``vmap`` and whatever differentiates push a level for the time of the call of their function. The C
core keeps the stack (``csrc/autograd/vmap/levels.h``, Note [Levels]).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from shmtensor import _C

__all__ = [
    "batched_parts",
    "forward_level",
    "grad_level",
    "in_transform",
    "innermost_value",
    "vmap_level",
]


@contextlib.contextmanager
def vmap_level(batch_size: int, randomness: str) -> Iterator[int]:
    """A context inside of a vmap; gives its level."""
    level = _C._vmap_increment_nesting(batch_size, randomness)
    try:
        yield level
    finally:
        _C._level_decrement_nesting()


@contextlib.contextmanager
def grad_level() -> Iterator[int]:
    """A context inside of a transform that differentiates; lower levels keep today's grad mode."""
    level = _C._grad_increment_nesting()
    try:
        yield level
    finally:
        _C._level_decrement_nesting()


@contextlib.contextmanager
def forward_level() -> Iterator[int]:
    """A context inside of a transform of forward mode; gives the number of its tangents' level."""
    enabled = _C._set_fwd_grad_enabled(True)
    try:
        number = _C._enter_dual_level(True)
        try:
            _C._jvp_increment_nesting()
            try:
                yield number
            finally:
                _C._level_decrement_nesting()
        finally:
            _C._exit_dual_level(number, True)
    finally:
        _C._set_fwd_grad_enabled(enabled)


def in_transform() -> bool:
    """Return whether this thread is inside of a function transform."""
    return bool(_C._level_count() > 0)


def batched_parts(tensor: Any) -> tuple[Any, int | None, int] | None:
    """Return value, batch dimension and level of a batched tensor; None for other tensors."""
    parts: tuple[Any, int | None, int] | None = _C._batched_parts(tensor)
    return parts


def innermost_value(tensor: Any) -> Any:
    """Return the ordinary tensor that a batched tensor stands for at the end."""
    while (parts := batched_parts(tensor)) is not None:
        tensor = parts[0]
    return tensor
