"""What a receiver may do with a tensor that is sent: share it, read it, or have it for itself.

A tensor in a message is shared: sender and receivers read and write the same bytes. `lend` and
`cow` wrap a tensor for any queue, pipe or process argument, so that the receiver gets the same
bytes in another mode:

    queue.put(lend(weights))   # the receiver can read them; writing is an error
    queue.put(cow(weights))    # the receiver may write; nobody else sees it

Nothing is copied on the way. The modes are the kernel's: a lent tensor lies in pages without the
right to write, and of a copy-on-write one the kernel copies each page at its first write.
"""

from __future__ import annotations

from typing import Any

from shmtensor._boundary import sharing as _sharing
from shmtensor._boundary import storage as _boundary
from shmtensor._tensor import Tensor

__all__ = ["cow", "lend"]

_READING = 1
_PRIVATE = 2


class _Sent:
    """A tensor on its way, and the mode its receiver gets it in."""

    __slots__ = ("_mode", "_tensor")

    def __init__(self, tensor: Tensor, mode: int) -> None:
        self._tensor = tensor
        self._mode = mode

    def __reduce__(self) -> Any:
        return _receive, (self._tensor, self._mode)

    def __repr__(self) -> str:
        name = "lend" if self._mode == _READING else "cow"
        return f"{name}({self._tensor!r})"


def _receive(tensor: Tensor, mode: int) -> Any:
    """Return *tensor*, which has just arrived, in its mode."""
    if tensor.is_meta or not tensor.is_shared() or tensor.untyped_storage().nbytes() == 0:
        return tensor  # a copy that is the receiver's own already, or nothing to protect
    dtype: Any = tensor.dtype
    storage = _boundary.adopt(_sharing.in_mode(tensor.untyped_storage()._cdata, mode))
    received: Any = _boundary.tensor_over(
        storage, tensor.shape, tensor.stride(), tensor.storage_offset(), dtype._code
    )
    return received.requires_grad_() if tensor.requires_grad else received


def _wrap(name: str, tensor: Any, mode: int) -> Any:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}(): expected a Tensor, got {type(tensor).__name__}")
    return _Sent(tensor, mode)


def lend(tensor: Tensor) -> Any:
    """Wrap a tensor for a message whose receivers may read it and not write it.

    In a receiver, operators in place and NumPy arrays of it that would write are refused with a
    RuntimeError or are read-only; what writes past these is stopped by the kernel. It sees what the
    sender writes. A lent tensor cannot be sent on or shared by descriptor or name; send a clone.

    This is against mistakes, not against the receiver: a process of the same user can reopen its
    own memory for writing through ``/proc``.

    Args:
        tensor: The tensor; its storage moves into shared memory when it is sent.

    Returns:
        An object to put into the message in place of the tensor.

    Raises:
        TypeError: *tensor* is no Tensor.
    """
    return _wrap("lend", tensor, _READING)


def cow(tensor: Tensor) -> Any:
    """Wrap a tensor for a message whose receivers get it copy-on-write.

    What a receiver writes stays its own, and costs memory by the page. Pages that it has not
    written show what the sender writes meanwhile, so the sender leaves the tensor alone while that
    matters. Two tensors over one storage are no longer aliases at the receiver.

    Args:
        tensor: The tensor; its storage moves into shared memory when it is sent.

    Returns:
        An object to put into the message in place of the tensor.

    Raises:
        TypeError: *tensor* is no Tensor.
    """
    return _wrap("cow", tensor, _PRIVATE)
