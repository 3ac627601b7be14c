"""What every entry is expected to give: functions of NumPy and SciPy, by the entry's name.

A reference takes the arguments of the entry's cases with arrays for tensors, and gives the
result, or the list of results. A property takes the results first, and raises where they are not
what was asked for: for factorizations, whose factors are not unique. Neither calls the library.

The names are those of entries; one without overload stands for all overloads that have none of
their own, and for the in-place form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ops.spec import (
    references_creation,
    references_image,
    references_index,
    references_linalg,
    references_linear,
    references_nn,
    references_pointwise,
    references_reduce,
    references_shape,
    references_special,
)

from codegen.spec.model import OperatorEntry

Reference = Callable[..., Any]

REFERENCES: dict[str, Reference] = {
    **references_pointwise.REFERENCES,
    **references_special.REFERENCES,
    **references_reduce.REFERENCES,
    **references_shape.REFERENCES,
    **references_index.REFERENCES,
    **references_creation.REFERENCES,
    **references_linear.REFERENCES,
    **references_linalg.REFERENCES,
    **references_nn.REFERENCES,
    **references_image.REFERENCES,
}

PROPERTIES: dict[str, Reference] = {
    **references_linalg.PROPERTIES,
    **references_nn.PROPERTIES,
}


def names(entry: OperatorEntry) -> list[str]:
    """The names under which the entry may stand, the closest first."""
    name = entry.schema.name
    plain = "__" + name[3:] if name.startswith("__i") and name.endswith("__") else name
    if not plain.endswith("__"):
        plain = plain.removesuffix("_")
    overload = entry.schema.overload.removesuffix("_out")
    found = [entry.name, *(f"{n}.{overload}" for n in (name, plain) if overload), name, plain]
    return list(dict.fromkeys(found))


def key_in(table: dict[str, Any], entry: OperatorEntry) -> str | None:
    """The name of *table* that the entry stands under."""
    return next((name for name in names(entry) if name in table), None)
