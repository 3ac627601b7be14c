"""Archives of code and models together, which are not here; `save` keeps states.

Source:
    torch.package.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class
from shmtensor.errors import ShmTensorError

_WHAT = "archives with code are not written and not run here; save() keeps a state_dict"

__all__ = [
    "EmptyMatchError",
    "PackageExporter",
    "PackageImporter",
    "PackagingError",
    "is_from_package",
]


class PackagingError(ShmTensorError):
    """Something cannot be packed. Nothing raises it here."""


class EmptyMatchError(ShmTensorError):
    """A pattern has matched no module. Nothing raises it here."""


PackageExporter: Any = unavailable_class("PackageExporter", __name__, _WHAT)
PackageImporter: Any = unavailable_class("PackageImporter", __name__, _WHAT)


def is_from_package(obj: Any) -> bool:
    """Return whether a module or an object was loaded from an archive: False."""
    return False
