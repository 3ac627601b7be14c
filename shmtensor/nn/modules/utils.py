"""Small tools of layers.

Source:
    torch.nn.modules.utils.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that makes a tuple of n of a single value, and a tuple of a sequence."""

    def parse(x: Any) -> tuple[Any, ...]:
        if isinstance(x, collections.abc.Iterable):
            return tuple(x)
        return tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Sequence[Any], n: int) -> tuple[Any, ...]:
    """Return the values from the last to the first, each n times."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: Sequence[Any], defaults: Sequence[int]) -> Any:
    """Return sizes with those of *defaults*, at the end, where there are Nones.

    Raises:
        ValueError: The defaults are too few.
    """
    if isinstance(out_size, (int,)):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    pairs = zip(out_size, defaults[-len(out_size) :], strict=True)
    return [default if value is None else value for value, default in pairs]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take a prefix, such as ``module.``, from the names of a state; others stay."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if metadata is None:
        return
    for key in list(metadata):
        # The prefix without its dot is the name of the whole.
        if key and (key.startswith(prefix) or key == prefix.rstrip(".")):
            metadata[key[len(prefix) :]] = metadata.pop(key)
