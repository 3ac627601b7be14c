"""Nodes of graphs: there are none; functions that walk their arguments work on any collection.

Source:
    torch.fx.node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from shmtensor._core._not_offered import unavailable_class

from ._what import WHAT
from .immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

F = TypeVar("F")

Argument = Any
Target = Callable[..., Any] | str
Node: Any = unavailable_class("Node", __name__, WHAT)

_side_effectful_functions: set[Any] = set()


def has_side_effect(fn: F) -> F:
    """Mark a function as one whose calls are never left out; returns it."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Argument, fn: Callable[[Any], Any]) -> Argument:
    """Return a collection of *fn* of what is in tuples, lists, dicts and slices, at any depth."""
    if isinstance(a, tuple):
        items = [map_aggregate(each, fn) for each in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list(map_aggregate(each, fn) for each in a)
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(each, fn) for each in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Argument, fn: Callable[[Any], Any]) -> Argument:
    """Return a collection with *fn* of each node; what is none stays."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda each: fn(each) if isinstance(each, Node) else each)
