"""What the package is made of inside; and how the names of its inner folders are found.

Note [Names of inner folders]
A module in ``_core`` or ``_torch`` is called as if it lay in the package itself: the file
``_core/_tensor.py`` is `shmtensor._tensor`, the folder ``_torch/cuda`` is `shmtensor.cuda`.
Programs know these names from torch, pickles and ``__module__`` contain them, and they stay when a
file goes into another folder. So both folders are in the package's ``__path__``. The package's own
code says where a file lies, ``from shmtensor._core._tensor import Tensor``, because type checkers
know files only: such an import gives the module of the shorter name, the same object.

In threads: who imports a module waits for another thread that loads it by the same name, not for
one that does by the other name. So no module is imported by its longer name while it is being
loaded: modules of one package in these folders import each other by relative names, ``from .streams
import Stream``, which ``make lint`` checks.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    Loader = object  # `importlib.abc` would take a good part of the time that the package takes

__all__ = ["Alias", "inner_module", "is_inner_name"]

_PACKAGE = __name__.partition(".")[0]
_FOLDERS = ("_core", "_torch")
_PREFIXES = tuple(f"{_PACKAGE}.{folder}." for folder in _FOLDERS)


class Alias(Loader):
    """Gives a module that is there under another name.

    Args:
        name: The name that it has itself.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module by its own name."""
        module = importlib.import_module(self._name)
        getattr(module, "__path__", None)  # a module that waits for its first use is loaded now
        own = module.__spec__
        # Another thread may be giving the module one more name.
        loader = own and own.loader
        self._spec = loader._spec if isinstance(loader, Alias) else own
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Take back what the import system has written into the module."""
        module.__spec__ = self._spec


class _InnerFinder:
    """Finds the modules of the inner folders by the names of their files."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return how to get the module; None for all that lies elsewhere."""
        if not is_inner_name(name):
            return None
        return ModuleSpec(name, Alias(f"{_PACKAGE}.{name.split('.', 2)[2]}"))


def is_inner_name(name: str) -> bool:
    """Whether a module's name is that of its file in an inner folder."""
    return name.startswith(_PREFIXES)


def inner_module(name: str) -> ModuleType:
    """Return a module that `_later` imports from these folders, loaded on its first use.

    This is the folders' ``__getattr__``; who imports a module from here otherwise has it loaded.

    Raises:
        AttributeError: `_later` is not being loaded, or there is none of that name.
    """
    later = sys.modules.get(f"{_PACKAGE}._later")
    if later is not None and not hasattr(later, "names") and not name.startswith("__"):
        from shmtensor._core._lazy import stand_in  # found by what this module installs

        if (module := stand_in(f"{_PACKAGE}.{name}")) is not None:
            return module
    raise AttributeError(f"no module {name!r} is loaded here")


__getattr__ = inner_module

_package = sys.modules[_PACKAGE]
_package.__path__ += [f"{_package.__path__[0]}/{folder}" for folder in _FOLDERS]
sys.meta_path.insert(0, _InnerFinder())
