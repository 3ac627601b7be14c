"""Plain tables: statuses, dtypes, dispatch keys and environment options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codegen.spec.errors import SpecError
from codegen.spec.loader import Text, check_order, load_entries, load_mapping

DTYPE_KINDS = ("bool", "unsigned", "signed", "floating", "complex")
_DTYPE_KEYS = ("name", "ctype", "compute", "acc", "kind", "size", "struct", "numpy", "alias")
_DTYPE_OPTIONAL_KEYS = ("real", "limited")


@dataclass(frozen=True)
class Dtype:
    """A row of ``dtypes.yaml``; ``code`` is its position."""

    code: int
    name: str
    ctype: str
    compute: str
    acc: str
    kind: str
    size: int
    struct: str
    numpy: str
    aliases: tuple[str, ...]
    real: str  # of a complex dtype: the dtype of its parts; else its own name
    limited: bool  # in no dtype set by its kind

    @property
    def constant(self) -> str:
        """The C constant, ``SHMT_FLOAT32``."""
        return f"SHMT_{self.name.upper()}"


@dataclass(frozen=True)
class Status:
    """A row of ``errors.yaml``."""

    code: int
    name: str
    raises: str
    class_name: str


@dataclass(frozen=True)
class Key:
    """A row of ``keys.yaml``."""

    name: str
    doc: str


@dataclass(frozen=True)
class Option:
    """A row of ``options.yaml``."""

    name: str
    type: str
    default: str
    low: str
    high: str
    values: tuple[str, ...]
    doc: str


@dataclass(frozen=True)
class Tables:
    """Everything the plain YAML files say."""

    dtypes: tuple[Dtype, ...]
    dtype_sets: dict[str, tuple[str, ...]]
    statuses: tuple[Status, ...]
    keys: tuple[Key, ...]
    alias_keys: tuple[Key, ...]
    options: tuple[Option, ...]

    def dtype(self, name: str) -> Dtype:
        """The row of a dtype known to exist."""
        return next(d for d in self.dtypes if d.name == name)

    def resolve_dtypes(self, value: Text | list[Text], where: str) -> tuple[str, ...]:
        """The dtypes of a set's name or a list, in the order of their codes."""
        if isinstance(value, Text):
            if value not in self.dtype_sets:
                known = ", ".join(self.dtype_sets)
                raise SpecError(value.where, f"no dtype set '{value}' (known: {known})")
            return self.dtype_sets[value]
        names = {d.name for d in self.dtypes}
        wanted: set[str] = set()
        for item in value:
            if item in names:
                wanted.add(item)
            elif item in self.dtype_sets:
                wanted.update(self.dtype_sets[item])
            else:
                raise SpecError(item.where, f"no dtype or dtype set '{item}'")
        if not wanted:
            raise SpecError(where, "the list of dtypes is empty")
        return tuple(d.name for d in self.dtypes if d.name in wanted)


def _unique(rows: list[Text]) -> None:
    seen: dict[str, Text] = {}
    for name in rows:
        if name in seen:
            raise SpecError(name.where, f"'{name}' is given twice (first at {seen[name].where})")
        seen[name] = name


def _load_dtypes(path: Path, root: Path) -> tuple[Dtype, ...]:
    rows = []
    names = []
    for code, entry in enumerate(load_entries(path, root)):
        entry.check_keys(_DTYPE_KEYS + _DTYPE_OPTIONAL_KEYS, _DTYPE_KEYS)
        kind = entry.text("kind")
        if kind not in DTYPE_KINDS:
            raise SpecError(kind.where, f"kind '{kind}' is none of {', '.join(DTYPE_KINDS)}")
        texts = {k: str(entry.text(k)) for k in ("name", "ctype", "compute", "acc", "struct")}
        if (kind == "complex") != ("real" in entry):
            raise SpecError(entry.where, "a complex dtype, and nothing else, has 'real'")
        names.append(entry.text("name"))
        rows.append(
            Dtype(
                code=code,
                kind=str(kind),
                size=entry.number("size"),
                numpy=str(entry.text("numpy")),
                aliases=tuple(map(str, entry.texts("alias"))),
                real=str(entry.text("real")) if "real" in entry else texts["name"],
                limited=entry.flag("limited"),
                **texts,
            )
        )
        real = rows[-1].real
        if real not in {str(name) for name in names}:
            raise SpecError(entry.where_of("real"), f"no dtype '{real}' before this row")
    _unique(names)
    return tuple(rows)


def _load_sets(path: Path, root: Path, dtypes: tuple[Dtype, ...]) -> dict[str, tuple[str, ...]]:
    sets: dict[str, tuple[str, ...]] = {}
    known = {d.name for d in dtypes}
    for entry in load_entries(path, root):
        entry.check_keys(("set", "kinds", "plus", "minus"), ("set",))
        kinds, plus, minus = (entry.texts(k) for k in ("kinds", "plus", "minus"))
        for name in kinds:
            if name not in DTYPE_KINDS:
                raise SpecError(name.where, f"no kind '{name}'")
        for name in plus + minus:
            if name not in known:
                raise SpecError(name.where, f"no dtype '{name}'")
        name = entry.text("set")
        if name in sets:
            raise SpecError(name.where, f"set '{name}' is given twice")
        sets[str(name)] = tuple(
            d.name
            for d in dtypes
            if ((d.kind in kinds and not d.limited) or d.name in plus) and d.name not in minus
        )
    return sets


def _load_statuses(path: Path, root: Path) -> tuple[Status, ...]:
    entries = load_entries(path, root)
    for entry in entries:
        entry.check_keys(("code", "raises", "class"), ("code", "raises"))
    _unique([e.text("code") for e in entries])
    return tuple(
        Status(i, str(e.text("code")), str(e.text("raises")), str(e.text("class")))
        for i, e in enumerate(entries, 1)
    )


def _load_keys(path: Path, root: Path) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
    top = load_mapping(path, root)
    top.check_keys(("runtime", "alias"), ("runtime", "alias"))
    groups = []
    names: list[Text] = []
    for group in ("runtime", "alias"):
        entries = top.entries(group)
        for entry in entries:
            entry.check_keys(("name", "doc"), ("name", "doc"))
            names.append(entry.text("name"))
        groups.append(tuple(Key(str(e.text("name")), str(e.text("doc"))) for e in entries))
    _unique(names)
    return groups[0], groups[1]


def _load_options(path: Path, root: Path) -> tuple[Option, ...]:
    entries = load_entries(path, root)
    options = []
    for entry in entries:
        entry.check_keys(
            ("name", "type", "default", "min", "max", "values", "doc"),
            ("name", "type", "default", "doc"),
        )
        kind = entry.text("type")
        if kind not in ("bool", "int", "str", "choice"):
            raise SpecError(kind.where, f"type '{kind}' is none of bool, int, str, choice")
        values = tuple(map(str, entry.texts("values")))
        if (kind == "choice") != bool(values):
            raise SpecError(entry.where, "a choice, and nothing else, has 'values'")
        default = entry.text("default")
        if kind == "choice" and default not in values:
            raise SpecError(default.where, f"default '{default}' is none of {', '.join(values)}")
        if kind in ("int", "bool"):
            entry.number("default")
        options.append(
            Option(
                str(entry.text("name")),
                str(kind),
                str(default),
                str(entry.text("min")),
                str(entry.text("max")),
                values,
                str(entry.text("doc")),
            )
        )
    check_order(entries, "name")
    return tuple(options)


def load_tables(spec: Path, root: Path) -> Tables:
    """Read and check the plain tables of *spec*."""
    dtypes = _load_dtypes(spec / "dtypes.yaml", root)
    keys, alias_keys = _load_keys(spec / "keys.yaml", root)
    return Tables(
        dtypes=dtypes,
        dtype_sets=_load_sets(spec / "dtype_sets.yaml", root, dtypes),
        statuses=_load_statuses(spec / "errors.yaml", root),
        keys=keys,
        alias_keys=alias_keys,
        options=_load_options(spec / "options.yaml", root),
    )


# --- output -------------------------------------------------------------------------------------
