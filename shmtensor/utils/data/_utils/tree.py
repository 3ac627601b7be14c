"""Walks through containers of samples and batches, and makes containers like them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

__all__ = ["is_namedtuple", "is_sequence", "like_mapping", "like_sequence", "map_leaves"]


def is_namedtuple(data: object) -> bool:
    """Whether *data* is a named tuple."""
    return isinstance(data, tuple) and hasattr(data, "_fields")


def is_sequence(data: object) -> bool:
    """Whether *data* is a sequence of elements; strings and bytes count as values."""
    return isinstance(data, Sequence) and not isinstance(data, (str, bytes))


def like_mapping(data: Any, values: dict[Any, Any]) -> Any:
    """Return a mapping like *data* with new *values*; a dict if its class cannot make one."""
    try:
        if isinstance(data, MutableMapping):
            # A copy, since the class may take other arguments or have attributes.
            clone = copy.copy(data)
            clone.update(values)
            return clone
        return type(data)(values)  # type: ignore[call-arg] # whatever the class takes
    except TypeError:
        return values


def like_sequence(data: Any, values: list[Any]) -> Any:
    """Return a sequence like *data* with new *values*; a list if its class cannot make one."""
    try:
        if isinstance(data, MutableSequence):
            clone = copy.copy(data)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(data)(values)  # type: ignore[call-arg] # whatever the class takes
    except TypeError:
        return values


def map_leaves(function: Callable[[Any], Any], data: Any) -> Any:
    """Apply *function* to every value in mappings and sequences.

    A container whose values all stay the same is returned itself.
    """
    if isinstance(data, Mapping):
        values = {key: map_leaves(function, value) for key, value in data.items()}
        if all(value is data[key] for key, value in values.items()):
            return data
        return values if type(data) is dict else like_mapping(data, values)
    if is_sequence(data) and not isinstance(data, (range, memoryview, bytearray)):
        elements = [map_leaves(function, value) for value in data]
        if all(new is old for new, old in zip(elements, data, strict=True)):
            return data
        if is_namedtuple(data):
            return type(data)(*elements)
        if type(data) in (list, tuple):
            return type(data)(elements)
        return like_sequence(data, elements)
    return function(data)
