"""Export of whole programs, which is not here.

Source:
    torch.export.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core._not_offered import unavailable_class, unavailable_names

_WHAT = "programs are not exported here, they run as they are"
_REFUSED = (
    "default_decompositions dims draft_export export export_for_training load save unflatten"
).split()
_CLASSES = (
    "AdditionalInputs Constraint CustomDecompTable Dim ExportBackwardSignature "
    "ExportGraphSignature ExportedProgram FlatArgsAdapter ModuleCallEntry ModuleCallSignature "
    "ShapesCollection UnflattenedModule"
).split()

__all__ = ["register_dataclass", *_CLASSES, *_REFUSED]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

globals().update({name: unavailable_class(name, __name__, _WHAT) for name in _CLASSES})


def register_dataclass(cls: type[Any], *, serialized_type_name: str | None = None) -> None:
    """Let objects of a data class be nodes of trees, as `utils._pytree.register_dataclass` does."""
    from shmtensor.utils import _pytree

    _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)
