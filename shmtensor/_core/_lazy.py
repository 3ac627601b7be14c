"""Modules that are loaded when one of their names is first used.

`stand_in` makes a module's object, and leaves importing it to the first look at an attribute. The
object stays the same: the import system fills it when the module is imported, by whom ever, with
the locks that it has for that. So it may be handed out and imported from before.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["is_waiting", "replace_loaders", "stand_in", "submodules"]

# Attributes that tools look for in every module that there is.
_ASKED_BY_TOOLS = ("__test__", "__warningregistry__", "__wrapped__")


class _Standin(ModuleType):
    """A module that is not imported yet. It becomes a plain one by that."""

    def __getattr__(self, name: str) -> object:
        if not (name in _ASKED_BY_TOOLS or (name.startswith("__") and self._is_being_filled())):
            importlib.import_module(self.__name__)
            # It is still this class in the thread that is importing it, and in others that would
            # otherwise wait for each other.
            if type(self) is not _Standin or name in vars(self):
                return getattr(self, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def _is_being_filled(self) -> bool:
        """Whether the import system looks which of its attributes are missing."""
        spec = vars(self)["__spec__"]
        return isinstance(spec.loader, _Filler) and spec.loader.is_at_work

    def __setattr__(self, name: str, value: object) -> None:
        # The import system sets those with underscores, and submodules while it imports this one.
        if not name.startswith("__") and self.__name__ not in sys.modules:
            importlib.import_module(self.__name__)
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        importlib.import_module(self.__name__)
        return dir(self) if type(self) is not _Standin else sorted(vars(self))


class _Filler(Loader):
    """Loads a module into its stand-in; knows the rest from the loader of its file."""

    def __init__(self, module: _Standin, loader: Loader) -> None:
        self.module = module
        self.is_at_work = False
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the stand-in."""
        self.is_at_work = True
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        try:
            self._loader.exec_module(module)
        finally:
            self.is_at_work = False
        spec = vars(module)["__spec__"]
        spec.loader = vars(module)["__loader__"] = self._loader
        del _waiting[spec.name]  # the loader may have named the module otherwise
        if type(module) is _Standin:  # unless its code has chosen a class
            module.__class__ = ModuleType  # type: ignore[assignment]


class _Finder(MetaPathFinder):
    """Finds the modules that have a stand-in."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return how to fill the stand-in; None for other modules."""
        return _waiting.get(name)


_waiting: dict[str, ModuleSpec] = {}
_finder = _Finder()


def stand_in(name: str) -> ModuleType | None:
    """Return the module called *name*, imported when it is first used.

    Args:
        name: Qualified. The package it is in must be imported.

    Returns:
        The module itself when it is imported already, None when there is none of that name.
    """
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None or spec.origin is None:  # none, or a mere folder
        return None
    if isinstance(spec.loader, _Filler):  # another thread has made it
        return spec.loader.module
    module = _Standin(name)
    package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
    spec.loader = _Filler(module, spec.loader)
    vars(module).update(
        __spec__=spec, __loader__=spec.loader, __package__=package, __file__=spec.origin
    )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    made: _Filler = _waiting.setdefault(name, spec).loader  # type: ignore[assignment]
    return made.module


def submodules(package: str, names: str) -> None:
    """Make modules of a package its attributes, as programs expect that do not import them.

    Args:
        package: Qualified; its code calls this.
        names: The modules, separated by spaces; each is imported when it is first used.
    """
    for name in names.split():
        setattr(sys.modules[package], name, stand_in(f"{package}.{name}"))


def is_waiting(name: str) -> bool:
    """Whether the module called *name* has a stand-in that is not filled yet."""
    return name in _waiting


def replace_loaders(make: Callable[[Loader], Loader]) -> None:
    """Let other loaders run the code of the modules that wait.

    Args:
        make: Returns the loader for one whose turn it would be.
    """
    for spec in list(_waiting.values()):
        filler: _Filler = spec.loader  # type: ignore[assignment]
        filler._loader = make(filler._loader)
