"""Finds modules named torch: they are this package's."""

from __future__ import annotations

import importlib
import importlib.util
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["OURS", "THEIRS", "TorchFinder"]

OURS, THEIRS = "shmtensor", "torch"


class _Alias(Loader):
    """Gives a module that is there under another name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module that has the name here."""
        module = importlib.import_module(self._name)
        getattr(module, "__path__", None)  # a module that waits for its first use is loaded now
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Take back what the import system has written into the module."""
        module.__spec__ = self._spec


class TorchFinder(MetaPathFinder):
    """Finds ``torch.x`` where there is ``shmtensor.x``.

    Attributes:
        found: Names of modules that were asked for and are there.
        missing: Those that are not.
    """

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.missing: set[str] = set()

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return how to load a module of torch; None for all others."""
        if name != THEIRS and not name.startswith(THEIRS + "."):
            return None
        ours = OURS + name[len(THEIRS) :]
        try:
            spec = importlib.util.find_spec(ours)
        except ModuleNotFoundError:  # what it would be in is missing or no package
            spec = None
        if spec is None:
            self.missing.add(name)
            return None
        self.found.add(name)
        is_package = spec.submodule_search_locations is not None
        return ModuleSpec(name, _Alias(ours), origin=spec.origin, is_package=is_package)
