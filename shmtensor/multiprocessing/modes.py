"""Modes of a sent tensor: the receiver shares it, only reads it, or gets it copy-on-write.

A tensor in a message is shared: sender and receivers read and write the same bytes. `lend` and
`cow` wrap a tensor for any queue, pipe or process argument, so that the receiver gets the same
bytes in another mode:

    queue.put(lend(weights))   # the receiver can read them; writing is an error
    queue.put(cow(weights))    # the receiver may write; nobody else sees it

Sending copies nothing. The kernel enforces the modes: a lent tensor lies in read-only pages; of a
copy-on-write tensor, the kernel copies each page when it is first written.
"""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._boundary import sharing as _sharing
from shmtensor._boundary import storage as _boundary
from shmtensor._tensor import Tensor

__all__ = ["cow", "lend"]

_READING = 1
_PRIVATE = 2


class _Sent:
    """A tensor to be sent, with the mode in which its receiver gets it."""

    __slots__ = ("_mode", "_tensor")

    def __init__(self, tensor: Tensor, mode: int) -> None:
        self._tensor = tensor
        self._mode = mode

    def __reduce__(self) -> Any:
        tensor = self._tensor
        if tensor.layout is _C.strided and _C._goes_as_copy(tensor.untyped_storage()._cdata):
            raise BufferError(
                f"{self._name()}(): the tensor of {tensor.numel()} elements shows memory that "
                "others see, as that of a NumPy array, and a message would get a copy of it. Call "
                "share_memory_() first, or send a clone()"
            )
        return _receive, (self._tensor, self._mode)

    def __repr__(self) -> str:
        return f"{self._name()}({self._tensor!r})"

    def _name(self) -> str:
        return "lend" if self._mode == _READING else "cow"


def _receive(tensor: Tensor, mode: int) -> Any:
    """Return a tensor that has just arrived, in the given mode."""
    if tensor.is_meta or not tensor.is_shared() or tensor.untyped_storage().nbytes() == 0:
        return tensor  # the receiver's own copy already, or no bytes to protect
    dtype: Any = tensor.dtype
    storage = _sharing.in_mode(tensor.untyped_storage()._cdata, mode)
    received: Any = _boundary.tensor_over(
        storage, tensor.shape, tensor.stride(), tensor.storage_offset(), dtype._code
    )
    return received.requires_grad_() if tensor.requires_grad else received


def _wrap(name: str, tensor: Any, mode: int) -> Any:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}(): expected a Tensor, got {type(tensor).__name__}")
    return _Sent(tensor, mode)


def lend(tensor: Tensor) -> Any:
    """Wrap a tensor for a message whose receivers may read it but not write it.

    In a receiver, in-place operators raise a RuntimeError, NumPy arrays of the tensor are
    read-only, and the kernel stops any other store. The receiver sees what the sender writes. A
    lent tensor cannot be sent on, and cannot be shared by descriptor or name; send a clone.

    This protects against mistakes, not against a hostile receiver: a process of the same user can
    reopen its memory for writing through ``/proc``.

    Args:
        tensor: The tensor; its storage moves into shared memory when it is sent.

    Returns:
        An object to put into the message in place of the tensor.

    Raises:
        TypeError: *tensor* is no Tensor.
        BufferError: When it is sent: it shows memory that others see, as that of a NumPy array.
    """
    return _wrap("lend", tensor, _READING)


def cow(tensor: Tensor) -> Any:
    """Wrap a tensor for a message whose receivers get it copy-on-write.

    A receiver's writes stay in its process, and each page that it writes costs memory. Pages that
    it has not written show later writes of the sender, so the sender should not write while that
    matters. Two tensors over one storage do not share memory at the receiver.

    Args:
        tensor: The tensor; its storage moves into shared memory when it is sent.

    Returns:
        An object to put into the message in place of the tensor.

    Raises:
        TypeError: *tensor* is no Tensor.
        BufferError: When it is sent: it shows memory that others see, as that of a NumPy array.
    """
    return _wrap("cow", tensor, _PRIVATE)
