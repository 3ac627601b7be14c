"""Probability distributions: draws that can be derived, densities, entropies, divergences.

Names and semantics are torch.distributions'. The package is loaded when a name of it is first asked
for, so that ``import shmtensor`` does not wait for it.

Source: torch.distributions.
"""

from __future__ import annotations

from importlib import import_module, util
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shmtensor.distributions._all import *  # noqa: F403
    from shmtensor.distributions._all import __all__ as __all__
    from shmtensor.distributions.transforms import *  # noqa: F403


def __getattr__(name: str) -> object:
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Modules one by one: they import each other from here.
    if not name.startswith("__") and util.find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    names = import_module(f"{__name__}._all")
    found = {public: getattr(names, public) for public in (*names.__all__, "__all__")}
    globals().update(found)
    globals().pop("__getattr__", None)
    if name in found:
        return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *import_module(f"{__name__}._all").__all__})
