"""Values of messages for people, as a line of text, and for programs, as JSON."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from itertools import islice
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
_DEEPEST = 12
_WIDTH = 200  # of a line where there is no terminal


def shown(value: Any) -> str:
    """Return *value* as a line for the terminal: escaped, and cut to its width."""
    return cut(_text(value, 0))


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


def _text(value: Any, depth: int) -> str:
    array = _array(value)
    if array is not None:
        first = array.first()
        more = ", …" if array.size > len(first) > 0 else ""
        elements = f" [{', '.join(map(repr, first))}{more}]" if first else ""
        return f"{array.dtype} {array.shape}{elements}"
    kind = type(value)
    if kind in (str, bytes):
        return repr(value[: 10 * _WIDTH])
    if kind not in (dict, list, tuple):
        return _repr(value)
    if depth >= _DEEPEST:
        return "…"
    items = islice(value.items() if kind is dict else value, _MOST_ITEMS)
    if kind is dict:
        texts = [f"{_text(key, depth + 1)}: {_text(item, depth + 1)}" for key, item in items]
    else:
        texts = [_text(item, depth + 1) for item in items]
    if len(value) > _MOST_ITEMS:
        texts.append("…")
    left, right = ("{", "}") if kind is dict else ("[", "]") if kind is list else ("(", ")")
    return f"{left}{', '.join(texts)}{',' if kind is tuple and len(value) == 1 else ''}{right}"


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # whatever another program's class raises
        return f"<{type(value).__name__}>"


def json_value(value: Any, depth: int = 0) -> Json:
    """Return *value* as JSON can hold it.

    Tensors of up to 1000 elements are nested lists, larger ones a dictionary of their dtype, shape
    and first elements. What JSON has no form for is its `repr`.
    """
    array = _array(value)
    if array is not None:
        if array.values is not None and array.size <= _MOST_ELEMENTS:
            return json_value(array.values.tolist(), depth + 1)
        first = json_value(array.first(), depth + 1)
        return {"dtype": array.dtype, "shape": array.shape, "first": first}
    if value is None or type(value) in (bool, int, float, str):
        return value  # type: ignore[no-any-return]
    if depth < 10 * _DEEPEST and isinstance(value, Mapping):
        return {
            key if isinstance(key, str) else _repr(key): json_value(item, depth + 1)
            for key, item in value.items()
        }
    if depth < 10 * _DEEPEST and isinstance(value, (list, tuple)):
        return [json_value(item, depth + 1) for item in value]
    return _repr(value)


def nbytes_of(value: Any) -> int:
    """Return the bytes of the tensors, arrays, texts and bytes in *value*."""
    if type(value) is Foreign:
        return nbytes_of(value.carrier)
    if isinstance(value, (Tensor, np.ndarray)):
        return int(value.nbytes)
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, Mapping):
        return sum(nbytes_of(key) + nbytes_of(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return sum(map(nbytes_of, value))
    return 0
