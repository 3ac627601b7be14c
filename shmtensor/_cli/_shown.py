"""Values of messages for people, as a line of text, and for programs, as JSON.

A message may have one list at many places, and that list another one: a small message then stands
for more items than any machine can print. So all functions here end after a bounded number.
"""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from shmtensor import Tensor
from shmtensor.inspect import Json
from shmtensor.inspect.processes import printable
from shmtensor.service._libraries import Foreign, given

__all__ = ["cut", "json_value", "nbytes_of", "shown"]

_FIRST = 6  # elements of a tensor that are shown
_MOST_ITEMS = 20  # of a list that are shown
_MOST_ELEMENTS = 1000  # of a tensor that JSON has as nested lists
_MOST_IN_JSON = 1_000_000  # items of a value that JSON has
_MOST_BITS = 2048  # of an integer: how many digits Python writes has a limit, of 640 at least
_DEEPEST = 12
_WIDTH = 200  # of a line where there is no terminal
_MOST_TEXT = 10 * _WIDTH
_BRACKETS: dict[type, tuple[str, str]] = {dict: ("{", "}"), list: ("[", "]"), tuple: ("(", ")")}


def shown(value: Any) -> str:
    """Return *value* as a line for the terminal: escaped, and cut to its width."""
    text = ""
    for piece in _pieces(value, 0):
        text += piece
        if len(text) > _MOST_TEXT:
            break
    return cut(text)


def cut(text: str) -> str:
    """Return *text* escaped, and cut to the terminal's width, or 200 characters without one."""
    width = shutil.get_terminal_size((_WIDTH, 0)).columns if sys.stdout.isatty() else _WIDTH
    text = printable(text[: 2 * width])
    return text if len(text) <= width else text[: width - 1] + "…"


class _Array(NamedTuple):
    """A tensor or array."""

    dtype: str
    shape: tuple[int, ...]
    values: Any

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    def first(self) -> list[Any]:
        """Return the first elements; none if they cannot be had one by one."""
        try:
            return [
                self.values[tuple(map(int, np.unravel_index(i, self.shape)))].tolist()
                for i in range(min(self.size, _FIRST))
            ]
        except (RuntimeError, TypeError, ValueError, AttributeError):
            return []


def _array(value: Any) -> _Array | None:
    """Return what is known of a tensor or array; None: *value* is none."""
    if type(value) is Foreign:
        if value.library != "numpy":  # a dtype of torch's alone, which this process does not load
            return _Array(f"{value.library}'s {value.dtype}", tuple(value.carrier.shape), None)
        value = given(value, "numpy")
    if not isinstance(value, (Tensor, np.ndarray)):
        return None
    return _Array(str(value.dtype).removeprefix("torch."), tuple(value.shape), value)


def _pieces(value: Any, depth: int) -> Iterator[str]:
    """Yield the text of *value*, piece by piece, none of which is empty."""
    array = _array(value)
    if array is not None:
        first = array.first()
        more = ", …" if array.size > len(first) > 0 else ""
        elements = f" [{', '.join(map(repr, first))}{more}]" if first else ""
        yield f"{array.dtype} {array.shape}{elements}"
    elif type(value) in (str, bytes):
        yield repr(value[:_MOST_TEXT])
    elif type(value) not in _BRACKETS:
        yield _repr(value)
    elif depth >= _DEEPEST:
        yield "…"
    else:
        left, right = _BRACKETS[type(value)]
        yield left
        yield from _item_pieces(value, depth + 1)
        yield f",{right}" if type(value) is tuple and len(value) == 1 else right


def _item_pieces(items: Any, depth: int) -> Iterator[str]:
    entries = items.items() if type(items) is dict else ((item,) for item in items)
    for i, entry in enumerate(islice(entries, _MOST_ITEMS)):
        for j, part in enumerate(entry):
            if i or j:
                yield ": " if j else ", "
            yield from _pieces(part, depth)
    if len(items) > _MOST_ITEMS:
        yield ", …"


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # whatever another program's class raises
        return f"<{type(value).__name__}>"


def json_value(value: Any) -> Json:
    """Return *value* as JSON can hold it.

    Tensors of up to 1000 elements are nested lists, larger ones a dictionary of their dtype, shape
    and first elements. What JSON has no form for is its `repr`, and what comes after a million
    items is "…".
    """
    return _Converter().convert(value, 0)


class _Converter:
    """Makes JSON of one value."""

    def __init__(self) -> None:
        self._n_items = 0

    def convert(self, value: Any, depth: int) -> Json:
        self._n_items += 1
        if self._n_items > _MOST_IN_JSON:
            return "…"
        array = _array(value)
        if array is not None:
            if array.values is not None and array.size <= _MOST_ELEMENTS:
                return self.convert(array.values.tolist(), depth + 1)
            first = self.convert(array.first(), depth + 1)
            return {"dtype": array.dtype, "shape": array.shape, "first": first}
        if _is_scalar_of_json(value):
            return value  # type: ignore[no-any-return]
        if depth < 10 * _DEEPEST and isinstance(value, Mapping):
            return {
                key if isinstance(key, str) else _repr(key): self.convert(item, depth + 1)
                for key, item in self._begin_of(value.items())
            }
        if depth < 10 * _DEEPEST and isinstance(value, (list, tuple)):
            return [self.convert(item, depth + 1) for item in self._begin_of(value)]
        return _repr(value)

    def _begin_of(self, items: Any) -> Iterator[Any]:
        """Yield items until there were too many, and the first one of those."""
        for item in items:
            yield item
            if self._n_items > _MOST_IN_JSON:
                return


def _is_scalar_of_json(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is int:
        return value.bit_length() <= _MOST_BITS
    return value is None or type(value) in (bool, str)


def nbytes_of(value: Any) -> int:
    """Return the bytes of the tensors, arrays, texts and bytes in *value*.

    A list, tuple or dict that occurs several times counts once.
    """
    return _nbytes_of(value, set())


def _nbytes_of(value: Any, seen: set[int]) -> int:
    if type(value) is Foreign:
        return _nbytes_of(value.carrier, seen)
    if isinstance(value, (Tensor, np.ndarray)):
        return int(value.nbytes)
    if isinstance(value, (str, bytes)):
        return len(value)
    if not isinstance(value, (Mapping, list, tuple)) or id(value) in seen:
        return 0
    seen.add(id(value))
    items = chain.from_iterable(value.items()) if isinstance(value, Mapping) else value
    return sum(_nbytes_of(item, seen) for item in items)
