"""Prepares a batch for its way from a worker to the loader.

Its tensors are sent as handles. A tensor in private memory is copied into its own block of shared
memory, which is reused for later batches. It is not moved: the dataset may keep it, and moving
would bit by bit fill shared memory with the dataset, once for each worker.
"""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._core._torch_memory import held_memory, memory_of, shown
from shmtensor.utils.data._utils.interop import loaded_torch
from shmtensor.utils.data._utils.tree import map_leaves

__all__ = ["packed", "packed_index"]


class _TorchTensor:
    """A torch tensor to be sent."""

    def __init__(self, shared: Any, requires_grad: bool, dtype: str | None) -> None:
        self.shared = shared
        self.requires_grad = requires_grad
        self.dtype = dtype

    def __reduce__(self) -> Any:
        return _arrived, (self.shared, self.requires_grad, self.dtype)


def _arrived(shared: Any, requires_grad: bool, dtype: str | None) -> Any:
    """Return the torch tensor over the memory that was received."""
    return shown(shared, dtype).requires_grad_(requires_grad)


def _shared(tensor: Any) -> Any:
    if tensor.is_shared() or tensor.is_meta or tensor.numel() == 0:
        return tensor
    if tensor.requires_grad and not tensor.is_leaf:
        return tensor  # the queue raises the error
    copy = _C.empty_like(tensor.detach(), shared=True).copy_(tensor.detach())
    return copy.requires_grad_(tensor.requires_grad)


def _packed_leaf(value: Any) -> Any:
    if type(value) is Tensor:
        return _shared(value)
    torch = loaded_torch()
    if torch is None or type(value) is not torch.Tensor:
        return value
    is_plain = value.device.type == "cpu" and value.layout is torch.strided and value.is_leaf
    if not is_plain or value.is_conj() or value.is_neg() or value.is_quantized:
        return value  # torch's own reduction sends it
    plain = value.detach()
    ours, dtype = memory_of(plain)
    held = held_memory(plain, ours)
    return _TorchTensor(_shared(ours if held is None else held), value.requires_grad, dtype)


def packed(batch: Any) -> Any:
    """Return *batch* in the form that is put into a queue."""
    return map_leaves(_packed_leaf, batch)


def packed_index(index: Any) -> Any:
    """Return a sampler's index in the form that is put into a queue."""
    if type(index) is int or (type(index) is list and all(type(i) is int for i in index)):
        return index
    return packed(index)
