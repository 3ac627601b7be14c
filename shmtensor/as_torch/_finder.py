"""Finds modules named torch: they are this package's."""

from __future__ import annotations

import importlib.util
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

from shmtensor._core import Alias
from shmtensor.as_torch._names import OURS, THEIRS, spec_of_own

__all__ = ["TorchFinder"]


class TorchFinder(MetaPathFinder):
    """Finds ``torch.x`` where there is ``shmtensor.x``, and has that named as in torch.

    Attributes:
        found: Names of modules that were asked for and are there.
        missing: Those that are not.
    """

    def __init__(self) -> None:
        self.found: set[str] = set()
        self.missing: set[str] = set()

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return how to load a module of torch or of this package; None for all others."""
        if name.startswith(OURS + "."):
            return spec_of_own(name, path, target)
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
        return ModuleSpec(name, Alias(ours), origin=spec.origin, is_package=is_package)
