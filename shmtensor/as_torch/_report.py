"""What a program used of torch, and what it did not find."""

from __future__ import annotations

import atexit
import os
import sys
from types import ModuleType
from typing import Any

from shmtensor.as_torch._finder import TorchFinder
from shmtensor.as_torch._names import OURS, THEIRS

__all__ = ["report_at_exit"]

# Names that programs used and asked for in vain, with the module: "torch.nn.Linear".
_used: set[str] = set()
_missing: set[str] = set()


def _in_torch(module: str) -> str:
    """Return torch's name of a module, whichever name it has."""
    return THEIRS + module[len(OURS) :] if module.partition(".")[0] == OURS else module


class _Watched(ModuleType):
    """A module that notes which of its names the program reads."""

    def __getattribute__(self, name: str) -> Any:
        module = super().__getattribute__("__name__")
        asked_by = sys._getframe(1).f_globals.get("__name__") or ""
        is_of_program = not name.startswith("__") and asked_by.partition(".")[0] not in (
            OURS,
            THEIRS,
            "importlib",
        )
        where = _in_torch(module)
        try:
            value = super().__getattribute__(name)
        except AttributeError:
            if is_of_program:
                _missing.add(f"{where}.{name}")
            raise
        if is_of_program and not isinstance(value, ModuleType):
            _used.add(f"{where}.{name}")
        return value

    def __getattr__(self, name: str) -> Any:
        # Only called for names that are missing, unless the module makes them itself.
        own = vars(self).get("__getattr__")
        if own is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = own(name)
        _missing.discard(f"{_in_torch(self.__name__)}.{name}")
        return value


def _watch_modules() -> None:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == OURS and type(module) is ModuleType:
            module.__class__ = _Watched


def _print(finder: TorchFinder) -> None:
    """Write the report to standard error."""
    lines = [f"{len(_used)} names of torch were used:"]
    lines += [f"  {name}" for name in sorted(_used)]
    missing = sorted(finder.missing | (_missing - _used))
    lines += [f"{len(missing)} names that the program asked for are missing in shmtensor:"]
    lines += [f"  {name}" for name in missing]
    print("\n".join(lines), file=sys.stderr)


def report_at_exit(finder: TorchFinder) -> None:
    """Note from now on what the program uses, and print it when the process ends."""
    _watch_modules()
    find = finder.find_spec

    def find_and_watch(name: str, path: Any, target: Any = None) -> Any:
        spec = find(name, path, target)
        _watch_modules()
        return spec

    finder.find_spec = find_and_watch  # type: ignore[method-assign]
    atexit.register(_print, finder)
    os.register_at_fork(after_in_child=lambda: atexit.unregister(_print))  # one report is enough
