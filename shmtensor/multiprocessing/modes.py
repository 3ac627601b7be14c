"""Modes of a sent tensor: the receiver shares it, only reads it, or gets it copy-on-write.

A tensor in a message is shared: sender and receivers read and write the same bytes. `lend` and
`cow` wrap a tensor for any queue, pipe or process argument, so that the receiver gets the same
bytes in another mode:

    queue.put(lend(weights))   # the receiver can read them; writing is an error
    queue.put(cow(weights))    # the receiver may write; nobody else sees it

Sending copies nothing. The kernel enforces the modes: a lent tensor is in read-only pages; of a
copy-on-write tensor, the kernel copies each page at the first write to it.
"""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._boundary import sharing as _sharing
from shmtensor._boundary import storage as _boundary
from shmtensor._core._tensor import Tensor
from shmtensor.multiprocessing.reductions import shared_bytes_below

__all__ = ["cow", "lend"]

_READING = 1
_PRIVATE = 2
_NAMES = {_READING: "lend", _PRIVATE: "cow"}


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
                f"{_NAMES[self._mode]}(): the tensor of {tensor.numel()} elements shows memory "
                "that others see, as that of a NumPy array, and a message would get a copy of it. "
                "Call share_memory_() first, or send a clone()"
            )
        return _receive, (self._tensor, self._mode)

    def __repr__(self) -> str:
        return f"{_NAMES[self._mode]}({self._tensor!r})"


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


def _receive_array(memory: Tensor, mode: int, geometry: tuple[Any, ...]) -> Any:
    """Return an array that has just arrived, in the given mode."""
    import numpy as np

    shape, dtype, begin, strides = geometry
    return np.ndarray(shape, dtype, _receive(memory, mode).numpy(), begin, strides)


class _SentArray:
    """An array of NumPy to be sent, with the mode in which its receiver gets it."""

    __slots__ = ("_array", "_mode")

    def __init__(self, array: Any, mode: int) -> None:
        self._array = array
        self._mode = mode

    def __reduce__(self) -> Any:
        array = self._array
        below = None if array.dtype.hasobject else shared_bytes_below(array)
        if below is None:
            raise BufferError(f"{_NAMES[self._mode]}(): {_elsewhere('array', 'numpy_empty')}")
        memory, begin = below
        geometry = (array.shape, array.dtype, begin, array.strides)
        return _receive_array, (memory, self._mode, geometry)

    def __repr__(self) -> str:
        return f"{_NAMES[self._mode]}({self._array!r})"


def _receive_torch(memory: Tensor, mode: int, requires_grad: bool, dtype: str | None) -> Any:
    """Return a torch tensor that has just arrived, in the given mode."""
    from shmtensor.multiprocessing.adoption import rebuild_torch

    return rebuild_torch(_receive(memory, mode), requires_grad, dtype)


class _SentTorch:
    """A tensor of torch to be sent, with the mode in which its receiver gets it."""

    __slots__ = ("_mode", "_tensor")

    def __init__(self, tensor: Any, mode: int) -> None:
        self._tensor = tensor
        self._mode = mode

    def __reduce__(self) -> Any:
        from shmtensor.multiprocessing.adoption import shared_below_torch

        below = shared_below_torch(self._tensor)
        if below is None:
            raise BufferError(f"{_NAMES[self._mode]}(): {_elsewhere('tensor', 'torch_empty')}")
        memory, dtype = below
        return _receive_torch, (memory, self._mode, self._tensor.requires_grad, dtype)

    def __repr__(self) -> str:
        return f"{_NAMES[self._mode]}({self._tensor!r})"


def _elsewhere(what: str, maker: str) -> str:
    return (
        f"the {what} is not in shared memory, and a message would get a copy of it. Make it with "
        f"shmtensor.{maker}"
    )


def _wrap(value: object, mode: int) -> Any:
    if isinstance(value, Tensor):
        return _Sent(value, mode)
    from shmtensor.multiprocessing.adoption import loaded  # programs with our tensors need not

    if value is not None and isinstance(value, loaded("numpy", "ndarray")):
        return _SentArray(value, mode)
    if value is not None and isinstance(value, loaded("torch", "Tensor")):
        return _SentTorch(value, mode)
    raise TypeError(f"{_NAMES[mode]}(): expected a tensor or an array, got {type(value).__name__}")


def lend(tensor: object) -> object:
    """Wrap a tensor or array so that the receivers of a message can only read it.

    In a receiver, in-place operators raise a RuntimeError, NumPy arrays are read-only, and the
    kernel stops any other store; torch has no such tensors, so there a store ends the process. The
    receiver sees what the sender writes. It cannot send a lent tensor on, or share it by descriptor
    or name; send a clone.

    This protects against mistakes, not against a hostile receiver: a process of the same user can
    reopen its memory for writing through ``/proc``.

    Args:
        tensor: A tensor; its storage moves into shared memory when you send it. Or a NumPy array or
            torch tensor that is in shared memory, such as one from `shmtensor.numpy_empty` or
            `shmtensor.torch_empty`. Receivers get one of the same library, from any queue.

    Returns:
        An object to put into the message in place of the tensor.

    Raises:
        TypeError: *tensor* is none of these.
        BufferError: When you send it: it is an array or torch tensor outside shared memory, or it
            shows memory that others see, such as a NumPy array's.
    """
    return _wrap(tensor, _READING)


def cow(tensor: object) -> object:
    """Wrap a tensor or array so that the receivers of a message get it copy-on-write.

    A receiver's writes stay in its process, and each page that it writes costs memory. Pages that
    it has not written show later writes of the sender, so the sender should not write while that
    matters. Two tensors over one storage do not share memory at the receiver.

    Args:
        tensor: A tensor; its storage moves into shared memory when you send it. Or a NumPy array or
            torch tensor that is in shared memory, such as one from `shmtensor.numpy_empty` or
            `shmtensor.torch_empty`. Receivers get one of the same library, from any queue.

    Returns:
        An object to put into the message in place of the tensor.

    Raises:
        TypeError: *tensor* is none of these.
        BufferError: When you send it: it is an array or torch tensor outside shared memory, or it
            shows memory that others see, such as a NumPy array's.
    """
    return _wrap(tensor, _PRIVATE)
