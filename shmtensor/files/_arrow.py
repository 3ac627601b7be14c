"""Arrays of Arrow libraries, by its C data interface."""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = ["from_arrow"]


def from_arrow(array: Any, *, copy: bool = False) -> Tensor:
    """Return a tensor over the memory of an Arrow array.

    To make an Arrow array of a tensor, give the tensor to the Arrow library
    (``pyarrow.array(tensor)``): tensors have ``__arrow_c_array__``.

    Args:
        array: An object with ``__arrow_c_array__``, such as ``pyarrow.Array``: integers or real
            numbers, none of them null. Arrow stores bools as bits, so they cannot be tensors.
        copy: Copy the elements. Otherwise the tensor keeps the array's memory alive and is
            read-only, as Arrow arrays are.

    Returns:
        A tensor of one dimension.

    Raises:
        TypeError: *array* has no ``__arrow_c_array__``, or elements of another type.
        ValueError: An element is null, or the structures of the interface make no sense.
    """
    export = getattr(array, "__arrow_c_array__", None)
    if export is None:
        kind = type(array).__name__
        hint = ""
        if hasattr(array, "__arrow_c_stream__"):
            hint = "; it is a stream of arrays: pass one of them, or make it one"
        raise TypeError(f"from_arrow(): {kind} has no __arrow_c_array__{hint}")
    capsules = export()
    if not isinstance(capsules, tuple) or len(capsules) != 2:
        raise TypeError(f"from_arrow(): __arrow_c_array__ gave {capsules!r:.80}, not two capsules")
    tensor: Tensor = _C._from_arrow(*capsules)
    return tensor.clone() if copy else tensor
