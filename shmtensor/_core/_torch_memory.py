"""torch tensors over our memory, and our tensors over torch's, without copies.

A dtype that only torch has (float8, integers of 4 bits and their like) travels as integers of the
same width, with its name beside them.
"""

from __future__ import annotations

import importlib
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = ["carrier_of", "held_memory", "holder_of", "memory_of", "shown"]

#: On torch's storages over our memory: a tensor that keeps it.
_HOLDER = "_shmtensor_holder"
#: Bytes of an element -> the dtype of torch as which it travels.
_INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
#: A dtype of torch -> that in which we have its elements.
_carriers: dict[Any, Any] = {}


def _torch() -> Any:
    return importlib.import_module("torch")


def carrier_of(dtype: Any) -> Any:
    """Return the dtype of torch in which we have elements of *dtype*: that itself, or integers.

    Raises:
        BufferError: There are no integers of that width.
    """
    carrier = _carriers.get(dtype)
    if carrier is None:
        carrier = _carriers[dtype] = _find_carrier(dtype)
    return carrier


def _find_carrier(dtype: Any) -> Any:
    torch = _torch()
    try:
        # Torch exports integers of 4 bits as those of 8, which would arrive as these.
        if torch.from_dlpack(_C.from_dlpack(torch.empty(1, dtype=dtype))).dtype is dtype:
            return dtype
    except (BufferError, RuntimeError):
        pass
    if dtype.itemsize not in _INTEGERS:
        raise BufferError(f"a tensor of {dtype} cannot be shown: {dtype.itemsize} bytes an element")
    return getattr(torch, _INTEGERS[dtype.itemsize])


def memory_of(tensor: Any) -> tuple[Tensor, str | None]:
    """Return our tensor over the memory of a torch tensor, and the name of its dtype.

    The name is None if our tensor has that dtype.

    Raises:
        BufferError: It requires grad, or is not a dense tensor on the CPU.
    """
    carrier = carrier_of(tensor.dtype)
    if carrier is tensor.dtype:
        return _C.from_dlpack(tensor), None
    return _C.from_dlpack(tensor.view(carrier)), str(tensor.dtype).removeprefix("torch.")


def shown(memory: Tensor, dtype: str | None = None) -> Any:
    """Return a torch tensor over *memory*, which it keeps alive.

    Args:
        memory: Our tensor.
        dtype: What `memory_of` gave beside it.
    """
    tensor = _torch().from_dlpack(memory)
    setattr(tensor.untyped_storage(), _HOLDER, memory)
    return tensor if dtype is None else tensor.view(getattr(_torch(), dtype))


def holder_of(storage: Any) -> Tensor | None:
    """Return our tensor over the memory of a torch storage; None if that memory is not ours."""
    holder: Tensor | None = getattr(storage, _HOLDER, None)
    return holder


def held_memory(tensor: Any, like: Tensor) -> Tensor | None:
    """Return our tensor below a torch tensor, with its shape; None if its memory is not ours.

    Args:
        tensor: The torch tensor.
        like: Our tensor over the same memory, from `memory_of`.
    """
    holder = holder_of(tensor.untyped_storage())
    if holder is None:
        return None
    storage = holder.untyped_storage()
    begin = (tensor.data_ptr() - storage.data_ptr()) // like.element_size()
    whole: Tensor = _C.empty(0, dtype=like.dtype)
    return whole.set_(storage, begin, like.size(), like.stride())
