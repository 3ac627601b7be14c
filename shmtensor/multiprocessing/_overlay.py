"""Standard submodules under names of this package: the same modules, or overlays of them.

``import shmtensor.multiprocessing.connection`` gives `multiprocessing.connection`, and so for each
standard submodule that has no file here. Type checkers know files only: the build writes stubs for
them (``csrc/codegen/emit/aliases.py``).

An overlay is a module that adds names to a standard one, and otherwise behaves like it. A program
can read and set names of the standard module through its overlay. So ``spawn.set_executable`` has
the same effect through either module, and there is only one setting.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from shmtensor._core import Alias

__all__ = ["Overlay"]


class Overlay(ModuleType):
    """The class of an overlay module. ``_standard`` is the standard module.

    ``_replaced`` has the former values of names that were set in the standard module through this
    one.
    """

    _standard: ModuleType
    _replaced: dict[str, Any]

    @classmethod
    def install(cls, name: str, standard: ModuleType) -> None:
        """Make the module *name*, which is being imported, an overlay of *standard*."""
        module = sys.modules[name]
        module.__dict__.update(_standard=standard, _replaced={})
        module.__class__ = cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_standard" not in self.__dict__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        try:
            return getattr(self._standard, name)
        except AttributeError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if name not in own and not name.startswith("__") and hasattr(own["_standard"], name):
            own["_replaced"].setdefault(name, getattr(own["_standard"], name))
            setattr(own["_standard"], name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        # `unittest.mock` does not find the name in this module's dictionary, so it undoes a patch
        # by deleting the name.
        if name in self._replaced:
            setattr(self._standard, name, self._replaced.pop(name))
        else:
            super().__delattr__(name)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(self._standard)})


_PACKAGE = f"{__package__}."


class _Finder:
    """Finds a standard submodule by the name that it has here."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return how to get the module; None: there is none."""
        if not name.startswith(_PACKAGE):
            return None
        import importlib.util  # most programs ask for no such name

        standard = "multiprocessing." + name[len(_PACKAGE) :]
        return importlib.util.find_spec(standard) and ModuleSpec(name, Alias(standard))


sys.meta_path.append(_Finder())  # the last one: what has a file here is found before
