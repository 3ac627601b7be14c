"""Generated code as functions, with its lines for tracebacks and debuggers.

The text is kept where `linecache` finds it by a file name of its own, as long as the process lives.
"""

from __future__ import annotations

import itertools
import linecache
from types import FunctionType
from typing import Any

__all__ = ["function_from", "import_block", "is_generated", "without_trace"]

_PREFIX = "<eval_with_key>"
_count = itertools.count()


class _Source:
    """What `linecache` asks for code.

    Args:
        src: The code.
    """

    def __init__(self, src: str) -> None:
        self._src = src

    def get_source(self, name: str) -> str:
        """Return the code."""
        return self._src


def _execute(src: str, names: dict[str, Any], origin: dict[str, Any] | None) -> None:
    """Run code, so that its lines are found."""
    key = f"{_PREFIX}.{next(_count)}"
    if origin:
        place = f"{origin['co_filename']}:{origin['co_firstlineno']}"
        # Names that end in ">" are no files to `linecache`.
        key = f"{key} from {place} ({origin['co_name']})"
    linecache.lazycache(key, {"__name__": key, "__loader__": _Source(src)})
    exec(compile(src, key, "exec", dont_inherit=True), names)


def without_trace(value: Any) -> Any:
    """Return what a name in a module stands for, also while a trace has put *value* there."""
    return vars(value).get("_fx_records", value) if isinstance(value, FunctionType) else value


def is_generated(filename: str) -> bool:
    """Return whether code with this file name was generated."""
    return filename.startswith(_PREFIX)


def function_from(
    name: str, src: str, names: dict[str, Any], origin: dict[str, Any] | None = None
) -> Any:
    """Return the function that code defines.

    Args:
        name: What it is called.
        src: The code.
        names: What it uses; they stay as they are.
        origin: Name, file and line of what was traced.
    """
    used = dict(names)
    _execute(src, used, origin)
    for key, value in [*used.items()]:
        if (plain := without_trace(value)) is not value:
            used[key] = plain
    return used[name]


def import_block(names: dict[str, Any], given: dict[str, Any]) -> str:
    """Return statements that import what code uses.

    Args:
        names: What it uses, by its names for that.
        given: What is told otherwise, by name.

    Raises:
        RuntimeError: Something cannot be imported, since its module does not have it.
    """
    import importlib

    lines = {_GIVEN_IMPORTS[name] for name in names if name in _GIVEN_IMPORTS}
    for name, obj in names.items():
        if name in given:
            continue
        home, own = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
        if home is None and hasattr(obj, "__objclass__"):  # a method of a built-in class
            kind = obj.__objclass__
            module, path = kind.__module__, [kind.__qualname__, obj.__name__]
        else:
            module = home or getattr(getattr(obj, "__self__", None), "__name__", "builtins")
            path = str(own or getattr(obj, "__name__", name)).split(".")
        found: Any = importlib.import_module(module)
        for part in path:
            found = getattr(found, part, None)
        if without_trace(found) is not obj:
            raise RuntimeError(
                f"{obj!r} is not {'.'.join(path)} of {module}, where whoever reads the code would "
                "look for it"
            )
        first = name
        while len(path) > 1 and first in names:  # the class that holds it gets a name of its own
            first = f"_{first}"
        if module != "builtins" or path != [name]:
            lines.add(f"from {module} import {path[0]} as {first}")
        if len(path) > 1:
            lines.add(f"{name} = {'.'.join([first, *path[1:]])}")
    return "\n".join(
        sorted(lines, key=lambda line: (not line.startswith(("from", "import")), line))
    )


#: How the names that code always has are imported.
_GIVEN_IMPORTS = {
    "torch": "import shmtensor as torch",
    "device": "from shmtensor import device",
    "fx_pytree": "import shmtensor.fx._pytree as fx_pytree",
    "pytree": "import shmtensor.utils._pytree as pytree",
    "inf": "from math import inf",
    "nan": "from math import nan",
    "NoneType": "from types import NoneType",
}
