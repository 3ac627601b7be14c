"""Strict YAML: every scalar stays a string, and every value knows where it stands.

PyYAML's own constructors guess types (``no`` becomes False) and let a repeated key win silently.
Here the node tree is turned into :class:`Text`, :class:`Items` and :class:`Entry`, which carry
``file:line``, and unknown or repeated keys are errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import yaml

from codegen.spec.errors import SpecError

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # PyYAML built without libyaml
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]


class Text(str):
    """A scalar as written, with its ``file:line`` in ``where``."""

    where: str

    def __new__(cls, value: str, where: str) -> Text:
        self = super().__new__(cls, value)
        self.where = where
        return self


class Items(list["Text | Items | Entry"]):
    """A sequence with its ``file:line`` in ``where``."""

    def __init__(self, values: Iterable[Text | Items | Entry], where: str) -> None:
        super().__init__(values)
        self.where = where


class Entry:
    """A mapping with its ``file:line`` in ``where``; the getters check types and keys."""

    def __init__(self, pairs: list[tuple[Text, Text | Items | Entry]], where: str) -> None:
        self.where = where
        self._values: dict[str, Text | Items | Entry] = {}
        self._keys: dict[str, Text] = {}
        for key, value in pairs:
            if key in self._values:
                first = self._keys[key].where
                raise SpecError(key.where, f"key '{key}' is repeated (first at {first})")
            self._values[str(key)] = value
            self._keys[str(key)] = key

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def keys(self) -> list[Text]:
        """The keys in the order of the file."""
        return list(self._keys.values())

    def items(self) -> Iterator[tuple[Text, Text | Items | Entry]]:
        """Pairs in the order of the file."""
        for name, value in self._values.items():
            yield self._keys[name], value

    def check_keys(self, allowed: Iterable[str], required: Iterable[str] = ()) -> None:
        """Raise for a key outside *allowed*, or a missing one of *required*."""
        names = list(allowed)
        for key in self.keys():
            if key not in names:
                raise SpecError(key.where, f"unknown key '{key}' (known: {', '.join(names)})")
        for name in required:
            if name not in self:
                raise SpecError(self.where, f"key '{name}' is missing")

    def where_of(self, key: str) -> str:
        """``file:line`` of *key*, or of the entry when it has no such key."""
        return self._keys[key].where if key in self._keys else self.where

    def text(self, key: str, default: str = "") -> Text:
        """The scalar at *key*, or *default*."""
        value = self._values.get(key)
        if value is None:
            return Text(default, self.where)
        if not isinstance(value, Text):
            raise SpecError(value.where, f"'{key}' must be one value, not a {_kind(value)}")
        return value

    def flag(self, key: str) -> bool:
        """``true`` or ``false`` at *key*; false when absent."""
        text = self.text(key, "false")
        if text not in ("true", "false"):
            raise SpecError(text.where, f"'{key}' must be true or false, got '{text}'")
        return text == "true"

    def number(self, key: str, default: int = 0) -> int:
        """The integer at *key*, or *default*."""
        text = self.text(key, str(default))
        try:
            return int(text)
        except ValueError:
            raise SpecError(text.where, f"'{key}' must be an integer, got '{text}'") from None

    def texts(self, key: str) -> list[Text]:
        """The list of scalars at *key*; empty when absent."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, Items):
            raise SpecError(value.where, f"'{key}' must be a list, not a {_kind(value)}")
        result: list[Text] = []
        for item in value:
            if not isinstance(item, Text):
                raise SpecError(item.where, f"'{key}' must hold single values")
            result.append(item)
        return result

    def text_or_texts(self, key: str) -> Text | list[Text]:
        """A scalar or a list of scalars at *key*."""
        value = self._values.get(key)
        return self.texts(key) if isinstance(value, Items) else self.text(key)

    def is_mapping(self, key: str) -> bool:
        """Whether the value at *key* is a mapping."""
        return isinstance(self._values.get(key), Entry)

    def mapping(self, key: str) -> list[tuple[Text, Text]]:
        """The mapping of scalars at *key* as pairs; empty when absent."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, Entry):
            raise SpecError(value.where, f"'{key}' must be a mapping, not a {_kind(value)}")
        return [(name, value.text(name)) for name, _ in value.items()]

    def mapping_or_nested(self, key: str) -> list[tuple[Text, Text | Entry]]:
        """The mapping at *key* whose values are scalars or mappings."""
        value = self._values[key]
        if not isinstance(value, Entry):
            raise SpecError(value.where, f"'{key}' must be a mapping, not a {_kind(value)}")
        result: list[tuple[Text, Text | Entry]] = []
        for name, item in value.items():
            if isinstance(item, Items):
                raise SpecError(item.where, f"'{name}' must be one value, not a list")
            result.append((name, item))
        return result

    def entries(self, key: str) -> list[Entry]:
        """The list of mappings at *key*; empty when absent."""
        value = self._values.get(key)
        return [] if value is None else _as_entries(value, key)


def _kind(value: Text | Items | Entry) -> str:
    if isinstance(value, Text):
        return "single value"
    return "list" if isinstance(value, Items) else "mapping"


def _as_entries(value: Text | Items | Entry, what: str) -> list[Entry]:
    if not isinstance(value, Items):
        raise SpecError(value.where, f"{what} must be a list of mappings, not a {_kind(value)}")
    result = []
    for item in value:
        if not isinstance(item, Entry):
            raise SpecError(item.where, f"{what} must hold mappings, not a {_kind(item)}")
        result.append(item)
    return result


def _convert(node: yaml.Node, name: str) -> Text | Items | Entry:
    where = f"{name}:{node.start_mark.line + 1}"
    if isinstance(node, yaml.ScalarNode):
        return Text(node.value, where)
    if isinstance(node, yaml.SequenceNode):
        return Items([_convert(child, name) for child in node.value], where)
    pairs = []
    for key_node, value_node in node.value:
        key = _convert(key_node, name)
        if not isinstance(key, Text):
            raise SpecError(key.where, "a key must be a single value")
        pairs.append((key, _convert(value_node, name)))
    return Entry(pairs, where)


# Two kinds of prose that YAML would want quoted: `index: none: reason`, and a doc line that begins
# with *emphasis* or holds a colon. Both run to the end of their line.
_PROSE = re.compile(
    r"^(\s+[^:#\n]+: )(none: .*)$|^(\s+(?:doc|source): )([*&@%`\[{].*|[^'\"|>\n].*(?:: | #).*)$",
    re.MULTILINE,
)


def _quote_prose(text: str) -> str:
    def quoted(match: re.Match[str]) -> str:
        key, prose = (match[1], match[2]) if match[1] else (match[3], match[4])
        escaped = prose.replace("'", "''")
        return f"{key}'{escaped}'"

    return _PROSE.sub(quoted, text)


def load(path: Path, root: Path) -> Text | Items | Entry:
    """Read one YAML file.

    Args:
        path: The file.
        root: The project's directory; messages name the file relative to it.

    Raises:
        SpecError: Syntax errors and repeated keys.
    """
    try:
        name = path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        name = path.name
    try:
        node = yaml.compose(_quote_prose(path.read_text(encoding="utf-8")), Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SpecError(f"{name}:{line}", f"{error.problem}") from None
    if node is None:
        return Items([], f"{name}:1")
    return _convert(node, name)


def load_entries(path: Path, root: Path) -> list[Entry]:
    """Read a YAML file that is a list of mappings."""
    return _as_entries(load(path, root), "the file")


def load_mapping(path: Path, root: Path) -> Entry:
    """Read a YAML file that is one mapping; an empty file is an empty mapping."""
    value = load(path, root)
    if isinstance(value, Items) and not value:
        return Entry([], value.where)
    if not isinstance(value, Entry):
        raise SpecError(value.where, f"the file must be a mapping, not a {_kind(value)}")
    return value


def check_order(entries: list[Entry], key: str) -> None:
    """Raise unless *entries* are sorted by *key* and unique, so that merges meet rarely."""
    for before, after in pairwise(entries):
        a, b = before.text(key), after.text(key)
        if a == b:
            raise SpecError(b.where, f"'{b}' is given twice (first at {a.where})")
        if a > b:
            raise SpecError(b.where, f"'{b}' must stand before '{a}' (entries are sorted by {key})")
