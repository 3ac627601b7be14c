"""Functions on lists of tensors: the C table of which operators and loops they use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from codegen.emit.emitter import Emitter
from codegen.emit.kernels import Loops
from codegen.spec.c_types import c_string
from codegen.spec.errors import SpecError
from codegen.spec.loader import Entry, check_order, load_entries
from codegen.spec.model import Model

_SPEC = "csrc/spec/foreach.yaml"
_TAKES = ("unary", "binary", "pointwise", "lerp", "norm", "copy", "clone")
_OPERATORS = ("list", "scalar", "tensor", "reverse")
_KEYS = ("name", "takes", *_OPERATORS, "alpha", "loop", "forms", "in_list", "in_scalar")


@dataclass(frozen=True)
class Row:
    """A row of ``foreach.yaml``; operators are full names, empty where there is none."""

    name: str
    takes: str
    operators: dict[str, str]
    alpha: str
    loop: str


def _in_place(name: str) -> str:
    base, dot, overload = name.partition(".")
    return f"{base if base.endswith('_') else base + '_'}{dot}{overload}"


def _load_row(entry: Entry, known: set[str]) -> Row:
    entry.check_keys(_KEYS, ("name", "takes", "list"))
    takes = str(entry.text("takes"))
    if takes not in _TAKES:
        raise SpecError(entry.where_of("takes"), f"'takes' must be one of {', '.join(_TAKES)}")
    forms = str(entry.text("forms")) if "forms" in entry else "both"
    if forms not in ("both", "functional", "inplace"):
        raise SpecError(entry.where_of("forms"), "'forms' must be functional or inplace")
    operators: dict[str, str] = {}
    for key in _OPERATORS:
        name = str(entry.text(key)) if key in entry else ""
        operators[key] = name if forms != "inplace" else ""
        changed = str(entry.text(f"in_{key}")) if f"in_{key}" in entry else ""
        if name and not changed and key != "reverse":
            changed = _in_place(name)
        operators[f"in_{key}"] = changed if forms != "functional" else ""
    for key, name in operators.items():
        if name and name not in known:
            raise SpecError(entry.where, f"there is no operator '{name}' ({key})")
    alpha = str(entry.text("alpha")) if "alpha" in entry else ""
    loop = str(entry.text("loop")) if "loop" in entry else ""
    return Row(str(entry.text("name")), takes, operators, alpha, loop)


def load_foreach(path: Path, root: Path, model: Model) -> tuple[Row, ...]:
    """Read and check ``foreach.yaml``; there are none without the file.

    Raises:
        SpecError: An unknown key, an unsorted or repeated name, an operator that does not exist.
    """
    if not path.exists():
        return ()
    entries = load_entries(path, root)
    known = {op.schema.full_name for op in model.operators}
    rows = tuple(_load_row(entry, known) for entry in entries)
    check_order(entries, "name")
    return rows


def emit_foreach(emitter: Emitter, rows: tuple[Row, ...], loops: Loops) -> None:
    """Write ``generated/foreach.h``."""
    known = set(loops.loops)
    text = (
        '#include "generated/operator_loops.h"\n\n'
        "typedef struct shmt__foreach_row {\n"
        "  const char* name;\n"
        "  const char* takes;\n"
        "  const char* alpha; /* the forms that take alpha */\n"
        "  /* list, scalar, tensor, reverse; the same in place. NULL: no such form */\n"
        "  const char* operators[8];\n"
        "  int loop; /* does all tensors at once; -1: none */\n"
        "} shmt__foreach_row;\n\n"
        "static const shmt__foreach_row shmt__foreach_rows[] = {\n"
    )
    for row in rows:
        if row.loop and row.loop not in known:
            raise SpecError(_SPEC, f"{row.name}: there is no loop '{row.loop}'")
        order = [*_OPERATORS, *(f"in_{key}" for key in _OPERATORS)]
        names = ", ".join(
            c_string(row.operators[key]) if row.operators[key] else "0" for key in order
        )
        loop = f"SHMT_LOOP_{row.loop}" if row.loop else "-1"
        text += (
            f"  {{{c_string(row.name)}, {c_string(row.takes)}, {c_string(row.alpha)}, "
            f"{{{names}}}, {loop}}},\n"
        )
    text += "  {0, 0, 0, {0}, -1},\n};"
    emitter.c_file("foreach.h", "functions on lists of tensors.", _SPEC, text)
