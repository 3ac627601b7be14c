"""The names that modules, classes and functions have once ``import torch`` gives this package.

Note [Names under torch]
Libraries choose a back end by ``type(x).__module__``, and tools find the module of a class by it.
So a public module of this package that torch has too is called as there, ``torch.nn.functional``,
and so are the classes and functions that lie in it, and their methods. One from a private module
is called after the public module that it is found in under its own name: `einsum` says ``torch``.
All others keep the package's name: what programs cannot reach by a public name, what torch does
not have (`service`, `shm`), and what `multiprocessing` sends between processes.

What follows from that:

- Every name that an object is given leads to that object, so `pickle` and `inspect` find it. The
  package's names lead there as well: a pickle that names shmtensor is read in either mode.
- The functions that rebuild tensors, storages and queues are private or in `multiprocessing`, so
  their names stay. Messages of queues, topics and calls name this package (`_messages`): they may
  arrive in a program in which there is no torch, or another one.
- ``__spec__`` and ``__package__`` stay. They say how the import system has found a module; relative
  imports, reloading and its locks depend on them.
- A module gets its names when its code has run, however late that is: `NamingLoader` loads the
  modules of the package from then on. While the code runs, it sees the package's names.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import shmtensor
from shmtensor._core import is_inner_name
from shmtensor._core._lazy import is_waiting, replace_loaders

__all__ = ["OURS", "THEIRS", "name_modules", "spec_of_own"]

OURS, THEIRS = "shmtensor", "torch"

#: Parts of the package that have no counterpart in torch, or whose names go to other processes.
_KEPT = frozenset(
    {
        "array_api",
        "as_torch",
        "bridge",
        "dashboard",
        "dtypes",
        "errors",
        "files",
        "hogwild",
        "inspect",
        "memory",
        "multiprocessing",
        "posix",
        "service",
        "shm",
    }
)

_NAMED: tuple[type, ...] = (type, FunctionType, BuiltinFunctionType)
_WRAPPERS = (staticmethod, classmethod)


def _name_in_torch(module: str) -> str | None:
    """Return torch's name of a module of this package; None: it keeps its own."""
    package, *parts = module.split(".")
    if package != OURS or any(part.startswith("_") for part in parts):
        return None
    if parts and (parts[0] in _KEPT or (parts[:2] == ["nn", "functional"] and len(parts) > 2)):
        return None  # nn.functional is one module there
    return ".".join([THEIRS, *parts])


def _rename(value: Any, old: str, new: str) -> None:
    """Give a class or function, and what a class consists of, another module."""
    if isinstance(value, property):
        for part in (value.fget, value.fset, value.fdel):
            _rename(part, old, new)
        return
    value = getattr(value, "__func__", value) if isinstance(value, _WRAPPERS) else value
    if not isinstance(value, _NAMED) or value.__module__ != old:
        return
    value.__module__ = new
    if isinstance(value, type):
        for member in list(vars(value).values()):
            _rename(member, old, new)


def _name_module(own: str, module: ModuleType) -> None:
    """Give a module whose code has run, and what is in it, torch's names."""
    new = _name_in_torch(own)
    if new is None:
        return
    shown = vars(module).get("__all__")
    for name, value in list(vars(module).items()):
        old = value.__module__ if isinstance(value, _NAMED) else None
        if not isinstance(old, str) or old.partition(".")[0] != OURS:
            continue
        home = _name_in_torch(old)
        is_shown = not name.startswith("_") and (shown is None or name in shown)
        if home is None and is_shown and value.__qualname__ == name:
            home = new
        if home is not None:
            _rename(value, old, home)
    module.__name__ = new
    sys.modules.setdefault(new, module)


class NamingLoader(SourceFileLoader):
    """Loads a module of the package as its file's loader does, and names it then."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        super().exec_module(module)
        _name_module(self.name, module)


def _naming(loader: Any) -> Any:
    return NamingLoader(loader.name, loader.path) if type(loader) is SourceFileLoader else loader


def spec_of_own(name: str, path: Any, target: Any) -> ModuleSpec | None:
    """Return how a module of this package is loaded and named; None: others find it."""
    if is_inner_name(name) or is_waiting(name):
        return None
    spec = PathFinder.find_spec(name, path, target)
    if spec is not None:
        spec.loader = _naming(spec.loader)
    return spec


def name_modules() -> None:
    """Name what is loaded; what is found by `spec_of_own` is named when it is."""
    shmtensor._load_later()  # brings the names of the package itself
    replace_loaders(_naming)
    loaded = [
        (name, module)
        for name, module in sys.modules.items()
        if name.partition(".")[0] == OURS and not is_waiting(name) and _has_run(module)
    ]
    # A private function is named after the innermost module that shows it.
    for name, module in sorted(loaded, key=lambda pair: -pair[0].count(".")):
        _name_module(name, module)


def _has_run(module: ModuleType) -> bool:
    """Whether the code of a module has run to its end."""
    return not getattr(module.__spec__, "_initializing", False)
