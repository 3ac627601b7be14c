"""Seed NumPy's generator in a process that may not have loaded NumPy.

Loading it takes as long as everything else that a worker process loads, and most workers never use
it. So a seed for later is kept until the program imports `numpy.random`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any

__all__ = ["seed_numpy"]

_MODULE = "numpy.random"


def seed_numpy(make_seed: Callable[[], Any]) -> None:
    """Call ``numpy.random.seed(make_seed())``: now if it is loaded, else as soon as it is.

    A later call takes the place of one that still waits.
    """
    for finder in [f for f in sys.meta_path if isinstance(f, _Seeder)]:
        sys.meta_path.remove(finder)
    module = sys.modules.get(_MODULE)
    if module is not None:
        module.seed(make_seed())
    else:
        sys.meta_path.insert(0, _Seeder(make_seed))


class _Seeder(MetaPathFinder):
    """Finds `numpy.random` as the other finders do, and seeds it when its code has run."""

    def __init__(self, make_seed: Callable[[], Any]) -> None:
        self._make_seed = make_seed

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        specs = (finder.find_spec(name, path, target) for finder in list(sys.meta_path))
        spec = next((found for found in specs if found is not None), None)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_seed(module: Any) -> None:
            del loader.exec_module  # the one of this object only; the class's is below
            execute(module)
            module.seed(self._make_seed())

        loader.exec_module = execute_and_seed
        return spec
