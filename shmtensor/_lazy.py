"""Modules that are loaded when one of their names is first used.

`stand_in` makes a module's object, as the import system would, and leaves running its code to the
first look at an attribute. The object stays the same, so it may be handed out and imported from
before that. Whoever imports a submodule of it runs its code first; where that code imports the
submodule, this is the one that is given, and not a second one.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["Existing", "stand_in"]

# One for each module. Threads take them in the order in which modules import each other, which has
# no circles, so that they never wait for one another.
_locks: dict[str, threading.RLock] = {}
_loading: set[str] = set()
# Attributes that tools look for in every module that there is.
_ASKED_BY_TOOLS = ("__test__", "__warningregistry__", "__wrapped__")


class Existing(Loader):
    """Gives a module that is there, or can be imported, under its name or another."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module."""
        module = importlib.import_module(self._name)
        getattr(module, "__path__", None)  # a module that waits for its first use is loaded now
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Take back what the import system has written into the module."""
        module.__spec__ = self._spec


class _SubmoduleFinder(MetaPathFinder):
    """Finds submodules that were imported when the import system looked at their package.

    It looks whether a module is there, then at its package, whose code may run just then.
    """

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return how to give the module; None for all others, and for one that is reloaded."""
        is_loaded = name in sys.modules and name.rpartition(".")[0] in _locks
        return ModuleSpec(name, Existing(name)) if is_loaded and target is None else None


class _Standin(ModuleType):
    """A module whose code has not run. It becomes a plain one by that."""

    def __getattr__(self, name: str) -> object:
        if name in _ASKED_BY_TOOLS or not _load(self):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):  # the import system sets those
            _load(self)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        _load(self)
        return dir(self) if type(self) is not _Standin else sorted(vars(self))


def _load(module: _Standin) -> bool:
    """Run the module's code; False when this thread is doing so already."""
    name = module.__name__
    with _locks[name]:
        if type(module) is not _Standin:  # another thread has done it meanwhile
            return True
        if name in _loading:
            return False
        spec = module.__spec__
        assert spec is not None
        assert spec.loader is not None
        _loading.add(name)
        places = spec.submodule_search_locations
        try:
            if places is not None:
                vars(module)["__path__"] = places
            spec.loader.exec_module(module)
        except BaseException:
            vars(module).pop("__path__", None)  # so that it is tried again
            raise
        finally:
            _loading.discard(name)
        if type(module) is _Standin:  # unless its code has chosen a class
            module.__class__ = ModuleType  # type: ignore[assignment]
    return True


def stand_in(name: str) -> ModuleType | None:
    """Return the module called *name*, loaded when it is first used.

    Args:
        name: Qualified. The package it is in must be loaded.

    Returns:
        The module itself when it is loaded already, None when there is none of that name.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None or spec.origin is None:  # none, or a mere folder
        return None
    module = _Standin(name)
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    vars(module).update(
        __spec__=spec, __loader__=spec.loader, __package__=package, __file__=spec.origin
    )
    if not _locks:
        sys.meta_path.insert(0, _SubmoduleFinder())
    _locks[name] = threading.RLock()
    return sys.modules.setdefault(name, module)
