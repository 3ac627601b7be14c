"""Let tests that import `multiprocessing` get `shmtensor.multiprocessing`.

Only what a test module or a main program imports is redirected; the standard library goes on with
its own. Children get the same by the ``sitecustomize`` module that ``cpython_suite.py`` writes.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PACKAGE = "multiprocessing"
OURS = "shmtensor.multiprocessing"
TEST_PREFIX = "cpython_suite_"

# Commands by which the standard library starts its helper processes.
_HELPERS = ("forkserver", "resource_tracker", "spawn")
_import = builtins.__import__


def _is_user(name: str) -> bool:
    return name.startswith(("test.", TEST_PREFIX)) or name in ("__main__", "__mp_main__")


def _is_helper(importer: str, name: str) -> bool:
    return importer == "__main__" and name.rpartition(".")[2] in _HELPERS and sys.argv[0] == "-c"


def _redirected(
    name: str,
    globals_: dict[str, Any] | None = None,
    locals_: Any = None,
    fromlist: Any = (),
    level: int = 0,
) -> ModuleType:
    if level != 0 or name.partition(".")[0] != PACKAGE:
        return _import(name, globals_, locals_, fromlist, level)
    importer = (globals_ or sys._getframe(1).f_globals).get("__name__", "")
    if not _is_user(importer) or _is_helper(importer, name):
        return _import(name, globals_, locals_, fromlist, level)
    ours = OURS + name.removeprefix(PACKAGE)
    module = importlib.import_module(ours)
    # Tests look modules up by their name; those that the standard package lacks have no other.
    sys.modules.setdefault(name, module)
    if not fromlist:
        return sys.modules[OURS]
    for item in fromlist:
        if item != "*" and not hasattr(module, item):
            importlib.import_module(f"{ours}.{item}")
    return module


def list_modules(tests: ModuleType) -> None:
    """Have the test of ``from ... import *`` import every module of ours: those found by name too.

    These have a stub in the package's folder, where the test looks for files.
    """

    def names(case: object) -> list[str]:
        folder = Path(importlib.import_module(OURS).__file__ or "").parent
        stems = {path.stem for path in folder.iterdir() if path.suffix in (".py", ".pyi")}
        return [PACKAGE, *(f"{PACKAGE}.{stem}" for stem in sorted(stems - {"__init__"}))]

    tests._TestImportStar.get_module_names = names


def install() -> None:
    """Redirect from now on."""
    builtins.__import__ = _redirected  # type: ignore[assignment]
