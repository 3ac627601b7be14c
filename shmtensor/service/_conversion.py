"""A value with its leaves converted: the dicts, lists and tuples of it made anew."""

from __future__ import annotations

from typing import Any

__all__ = ["PLAIN", "Conversion"]

PLAIN: frozenset[type] = frozenset({int, float, str, bytes, bool, type(None), complex})


class Conversion:
    """Converts one value. What is in it several times is one object in the result, too.

    Subclasses say what becomes of a leaf. A collection may be in itself.
    """

    #: The classes whose objects stay what they are.
    unchanged: frozenset[type] = PLAIN
    #: The classes, beside tuples, whose objects are made anew. Others are leaves.
    collections: tuple[type, ...] = (list, dict)

    def __init__(self) -> None:
        # By id: a value, which must live as long, and what it became.
        self._converted: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        """Return what *value* becomes."""
        if type(value) in self.unchanged:
            return value
        before = self._converted.get(id(value))
        if before is not None:
            return before[1]
        return self.note(value, self._convert(value))

    def note(self, value: Any, becomes: Any) -> Any:
        """Note what *value* becomes, wherever else it is found, and return that."""
        self._converted[id(value)] = value, becomes
        return becomes

    def of_leaf(self, value: Any) -> Any:
        """Return what a value becomes that may change and is no collection."""
        raise NotImplementedError

    def _convert(self, value: Any) -> Any:
        kind = type(value)
        if kind is tuple:
            return tuple(self.of(item) for item in value)
        if kind not in self.collections:
            return self.of_leaf(value)
        made = self.note(value, kind())
        if isinstance(made, list):
            made.extend(self.of(item) for item in value)
        else:
            made.update((key, self.of(item)) for key, item in value.items())
        return made
