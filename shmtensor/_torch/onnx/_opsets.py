"""``symbolic_opset7`` ... ``symbolic_opset20``: modules whose functions would write operators."""

from __future__ import annotations

import sys
import types
from typing import Any

from shmtensor import _C
from shmtensor._core._not_offered import not_offered

__all__ = ["opsets"]

_FIRST, _LAST = 7, 20


def _opset(name: str, what: str) -> types.ModuleType:
    """A module in which each operator is a function that raises when it is called."""
    module = types.ModuleType(f"{__package__}.{name}", f"Operators in ONNX: {what}.")

    def find(operator: str) -> Any:
        if operator.startswith("_") or not _C._operator_overloads(operator):
            raise AttributeError(f"module {module.__name__!r} has no attribute {operator!r}")

        def refuse(*args: object, **kwargs: object) -> None:
            raise not_offered(f"{name}.{operator}(): {what}")

        refuse.__name__ = operator
        return refuse

    module.__dict__["__getattr__"] = find
    sys.modules[module.__name__] = module
    return module


def opsets(what: str) -> dict[str, types.ModuleType]:
    """Return the modules by their names, importable from now on."""
    names = [f"symbolic_opset{number}" for number in range(_FIRST, _LAST + 1)]
    return {name: _opset(name, what) for name in names}
