"""How tensors and storages are pickled between processes.

The pickler of `multiprocessing` looks classes up in its own table; the entries made here put a
tensor's bytes into shared memory and write a handle of some tens of bytes. Parameters and other
subclasses come through their ``__reduce_ex__``, whose plain parts come here. Two tensors over one
storage carry the same block, so they are aliases again at the receiver, within a message and
across messages.
"""

from __future__ import annotations

import warnings
from multiprocessing.reduction import ForkingPickler
from typing import Any

from shmtensor import _C
from shmtensor import storage as _storage
from shmtensor._tensor import Tensor

__all__ = [
    "init_reductions",
    "rebuild_meta_tensor",
    "rebuild_storage",
    "rebuild_tensor",
    "rebuild_typed_storage",
    "reduce_storage",
    "reduce_tensor",
    "reduce_typed_storage",
]

_Reduction = tuple[Any, tuple[Any, ...]]


def reduce_tensor(tensor: Tensor) -> Any:
    """Return what pickle writes for *tensor*; its storage moves into shared memory.

    Raises:
        RuntimeError: *tensor* requires grad and is not a leaf.
        BufferError: NumPy arrays or other buffers show its private memory.
        MemoryError: There is not enough shared memory.

    Source:
        torch.multiprocessing.reductions.reduce_tensor.
    """
    return _C._reduce_shared_tensor(tensor)


def rebuild_tensor(packed: bytes, requires_grad: bool) -> Any:
    """Return the tensor of a message, with its ``requires_grad``."""
    tensor: Any = _C._rebuild_shared_tensor(packed)
    tensor.requires_grad = requires_grad
    return tensor


def rebuild_meta_tensor(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: Any, requires_grad: bool
) -> Any:
    """Return a meta tensor of this geometry."""
    tensor: Any = _C.empty_strided(size, stride, dtype=dtype, device="meta")
    tensor.requires_grad = requires_grad
    return tensor


def reduce_storage(storage: Any) -> _Reduction:
    """Return what pickle writes for an untyped storage; it moves into shared memory."""
    return rebuild_storage, (_C._pack_shared_storage(storage._cdata),)


def rebuild_storage(packed: bytes) -> Any:
    """Return the storage of a message: the live one if this process has it."""
    return _storage.UntypedStorage._of_address(_C._rebuild_shared_storage(packed))


def reduce_typed_storage(storage: Any) -> _Reduction:
    """Return what pickle writes for a typed storage."""
    return rebuild_typed_storage, (storage.untyped(), storage.dtype)


def rebuild_typed_storage(untyped: Any, dtype: Any) -> Any:
    """Return a typed storage over *untyped*."""
    return _storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _warn_if_has_hooks(tensor: Tensor) -> None:
    hooks = tensor._backward_hooks
    for hook in (hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, "
                "you can decorate the function with @torch.utils.hooks.unserializable_hook to "
                "suppress this warning",
                stacklevel=3,
            )


def _reduce_with_python(tensor: Tensor) -> Any:
    """Reduce a tensor that is more than its bytes: it has a history, or a class of its own."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, "
            "since autograd does not support crossing process boundaries.  "
            "If you just want to transfer the data, call detach() on the tensor "
            "before serializing (e.g., putting it on the queue)."
        )
    _warn_if_has_hooks(tensor)
    if tensor.is_meta:
        geometry = (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.requires_grad)
        return rebuild_meta_tensor, geometry
    return rebuild_tensor, (_C._pack_shared_tensor(tensor), tensor.requires_grad)


def init_reductions() -> None:
    """Teach the pickler of `multiprocessing` about tensors and storages."""
    _C._set_slow_reduce(_reduce_with_python)
    # The C function itself: a Python one in between would cost as much as the rest.
    ForkingPickler.register(Tensor, _C._reduce_shared_tensor)
    ForkingPickler.register(_storage.UntypedStorage, reduce_storage)
    ForkingPickler.register(_storage.TypedStorage, reduce_typed_storage)
