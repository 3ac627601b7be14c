"""``arguments.yaml``: what the arguments of operators mean, stated once for all that share one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codegen.spec.errors import SpecError
from codegen.spec.loader import load_entries
from codegen.spec.model import Model, OperatorEntry
from codegen.spec.schema import Type


@dataclass(frozen=True)
class Meaning:
    """A row: the text for an argument of some operators.

    Attributes:
        argument: Its name.
        of: Operators (without overload), sections (``conv/conv``) or families (``conv``); empty for
            all that no other row of the argument names.
        types: Schema types that the argument must have, if any are given.
        text: What a doc string says.
        where: ``file:line``.
    """

    argument: str
    of: tuple[str, ...]
    types: tuple[str, ...]
    text: str
    where: str

    def rank(self, entry: OperatorEntry, kind: Type | None) -> int:
        """How narrowly the row fits: 0 not at all, 1 by the name alone, to 4 for an operator."""
        if self.types and str(kind).replace("(a!)", "").replace("(a)", "") not in self.types:
            return 0
        if not self.of:
            return 1
        places = (entry.section.split("/")[0], entry.section, entry.schema.name.rstrip("_"))
        return max((2 + i for i, place in enumerate(places) if place in self.of), default=0)


@dataclass(frozen=True)
class Arguments:
    """All rows by the name of the argument."""

    rows: dict[str, list[Meaning]]

    def meaning(self, entry: OperatorEntry, name: str, kind: Type | None) -> str:
        """The text for an argument of an operator; empty when no row fits."""
        own = dict(entry.arguments).get("self" if name == "input" else name)
        if own:
            return own
        ranked = [(row.rank(entry, kind), row.text) for row in self.rows.get(name, [])]
        return max(ranked, default=(0, ""))[1] if any(rank for rank, _ in ranked) else ""


def load_arguments(path: Path, root: Path, model: Model) -> Arguments:
    """Read ``arguments.yaml``.

    Raises:
        SpecError: A row names no operator's argument, or no operator, section or family.
    """
    rows: dict[str, list[Meaning]] = {}
    if not path.exists():
        return Arguments(rows)
    names = {"input", "out", "requires_grad", "shared"}
    places: set[str] = set()
    for entry in model.entries:
        names.update(a.name for a in entry.schema.arguments)
        family = entry.section.split("/")[0]
        places.update((family, entry.section, entry.schema.name.rstrip("_")))
    for raw in load_entries(path, root):
        raw.check_keys(("argument", "of", "type", "doc"), ("argument", "doc"))
        name = raw.text("argument")
        if name not in names:
            raise SpecError(name.where, f"no operator has an argument '{name}'")
        of = raw.texts("of")
        for place in of:
            if place not in places:
                raise SpecError(place.where, f"'{place}' is no operator, section or family")
        row = Meaning(
            str(name),
            tuple(map(str, of)),
            tuple(map(str, raw.texts("type"))),
            " ".join(raw.text("doc").split()),
            raw.where,
        )
        rows.setdefault(str(name), []).append(row)
    return Arguments(rows)
