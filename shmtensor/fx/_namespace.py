"""Identifiers inside one function or graph.

The same candidates in the same order give the same identifiers as in torch: ``add``, ``add_1``.
"""

from __future__ import annotations

import builtins
import keyword
import math
import re
from functools import cache
from typing import Any

import shmtensor

__all__ = ["Namespace", "given_names"]


class Namespace:
    """The identifiers of one function or graph: each is given once."""

    def __init__(self) -> None:
        #: By the identity of objects, with the objects: so that no other takes its place.
        self._owners: dict[int, tuple[Any, str]] = {}
        self._counts: dict[str, int] = {}
        self._used: set[str] = set()

    def create_name(self, candidate: str, obj: Any) -> str:
        """Return an identifier like *candidate* that is free; the same object has the same one."""
        if obj is not None and (known := self._owners.get(id(obj))) is not None:
            return known[1]
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = re.fullmatch(r"(.+)_(\d+)", candidate)
        base, number = (match[1], int(match[2])) if match else (candidate, None)
        if number is None or candidate in self._used:
            number = self._counts.get(base, 0)
        while candidate in self._used or _is_illegal(candidate, obj):
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._counts[base] = number
        if obj is not None:
            self._owners[id(obj)] = obj, candidate
        return candidate

    def associate(self, name: str, obj: Any) -> None:
        """Say that an object has a name, which no other has."""
        self._used.add(name)
        self._owners[id(obj)] = obj, name


def _is_illegal(name: str, obj: Any) -> bool:
    if keyword.iskeyword(name):
        return True
    if hasattr(builtins, name):
        return obj is not getattr(builtins, name)
    if name in given_names():
        return obj is not given_names()[name]
    return False


@cache
def given_names() -> dict[str, Any]:
    """Return the names that generated code has without an import, and what they are."""
    from shmtensor.utils import _pytree

    from . import _pytree as by_description

    return {
        "inf": math.inf,
        "nan": math.nan,
        "NoneType": type(None),
        "torch": shmtensor,
        "device": shmtensor.device,
        "fx_pytree": by_description,
        "pytree": _pytree,
    }
