"""How tensors and storages are pickled between processes.

The pickler of `multiprocessing` has a table of classes. The entries of this module move a tensor's
bytes into shared memory and write a handle of some tens of bytes. Parameters and other subclasses
use their ``__reduce_ex__``; the plain tensors in the result come here. Two tensors over one storage
refer to the same block, so they share memory at the receiver too, within a message and across
messages.

NumPy arrays are pickled as usual: the message has a copy of their bytes. Once you have called
`share_numpy`, their bytes go into shared memory too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from shmtensor import _C
from shmtensor import storage as _storage
from shmtensor._core._pickling import rebuild_sparse, sparse_parts
from shmtensor._core._tensor import Tensor
from shmtensor.multiprocessing._stdlib import reducers
from shmtensor.utils.hooks import warn_if_has_hooks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from shmtensor._C import dtype
    from shmtensor.storage import TypedStorage, UntypedStorage

__all__ = [
    "SharedCache",
    "StorageWeakRef",
    "fd_id",
    "init_reductions",
    "rebuild_array",
    "rebuild_meta_tensor",
    "rebuild_storage",
    "rebuild_tensor",
    "rebuild_typed_storage",
    "reduce_array",
    "reduce_storage",
    "reduce_tensor",
    "reduce_typed_storage",
    "share_numpy",
    "shared_bytes_below",
    "shared_cache",
    "shares_numpy",
    "storage_from_cache",
]

#: What ``__reduce__`` returns: a function, and what it is called with.
_Reduction = tuple[Callable[..., object], tuple[object, ...]]


def reduce_tensor(tensor: Tensor) -> _Reduction:
    """Return what pickle writes for *tensor*; its storage moves into shared memory.

    Memory that others see, such as that of `from_numpy`, stays where it is, and the message gets a
    copy.

    Raises:
        RuntimeError: *tensor* requires grad and is not a leaf.
        BufferError: NumPy arrays or other buffers show its private memory.
        MemoryError: There is not enough shared memory.

    Source:
        torch.multiprocessing.reductions.reduce_tensor.
    """
    reduction: _Reduction = _C._reduce_shared_tensor(tensor)
    return reduction


def rebuild_tensor(packed: bytes, requires_grad: bool) -> Tensor:
    """Return the tensor of a message, with its ``requires_grad``."""
    tensor: Tensor = _C._rebuild_shared_tensor(packed)
    tensor.requires_grad = requires_grad
    return tensor


def rebuild_meta_tensor(
    size: tuple[int, ...], stride: tuple[int, ...], dtype: dtype, requires_grad: bool
) -> Tensor:
    """Return a meta tensor of this geometry."""
    tensor = _C.empty_strided(size, stride, dtype=dtype, device="meta")
    tensor.requires_grad = requires_grad
    return tensor


def reduce_storage(storage: UntypedStorage) -> _Reduction:
    """Return what pickle writes for an untyped storage; its bytes move into shared memory."""
    return rebuild_storage, (_C._pack_shared_storage(storage._cdata),)


def rebuild_storage(packed: bytes) -> UntypedStorage:
    """Return the storage of a message: the existing one if this process has one."""
    return _storage.UntypedStorage._received(packed)


def reduce_typed_storage(storage: TypedStorage) -> _Reduction:
    """Return what pickle writes for a typed storage."""
    return rebuild_typed_storage, (storage.untyped(), storage.dtype)


def rebuild_typed_storage(untyped: UntypedStorage, dtype: dtype) -> TypedStorage:
    """Return a typed storage over *untyped*."""
    return _storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _reduce_with_python(tensor: Tensor) -> Any:
    """Reduce a tensor that has a history, or is of a subclass."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, "
            "since autograd does not support crossing process boundaries.  "
            "If you just want to transfer the data, call detach() on the tensor "
            "before serializing (e.g., putting it on the queue)."
        )
    warn_if_has_hooks(tensor)
    if tensor.is_meta:
        geometry = (tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.requires_grad)
        return rebuild_meta_tensor, geometry
    if tensor.layout is not _C.strided:
        # The parts are pickled as the dense tensors that they are: each becomes a handle.
        is_coalesced = tensor.is_sparse and tensor.is_coalesced()
        parts = sparse_parts(tensor)
        size = tuple(tensor.shape)
        return rebuild_sparse, (tensor.layout, parts, size, is_coalesced, tensor.requires_grad)
    return rebuild_tensor, (_C._pack_shared_tensor(tensor), tensor.requires_grad)


def init_reductions() -> None:
    """Teach the pickler of `multiprocessing` about tensors and storages."""
    _C._set_slow_reduce(_reduce_with_python)
    # The C function itself, because a Python function around it would double the cost.
    ForkingPickler.register(Tensor, _C._reduce_shared_tensor)
    ForkingPickler.register(_storage.UntypedStorage, reduce_storage)
    ForkingPickler.register(_storage.TypedStorage, reduce_typed_storage)


# --- NumPy arrays -----------------------------------------------------------------------------


def share_numpy(enabled: bool = True) -> None:
    """Send NumPy arrays through shared memory from now on, or stop doing so.

    If an array shows a shared tensor's memory, it travels as a handle, and the receiver's array
    shows the same memory. Other arrays are copied once, into shared memory, and the receiver's
    array shows that copy. Arrays of Python objects and subclasses of arrays are pickled as usual.
    Children inherit the setting.

    Args:
        enabled: False turns it off again.
    """
    import numpy as np  # loaded by who uses it

    if enabled:
        ForkingPickler.register(np.ndarray, reduce_array)
    else:
        reducers().pop(np.ndarray, None)


def shares_numpy() -> bool:
    """Return whether arrays are sent through shared memory, see `share_numpy`."""
    return reduce_array in reducers().values()


def shared_bytes_below(array: NDArray[np.generic]) -> tuple[Tensor, int] | None:
    """Return the bytes of the shared storage below *array*, and the offset of the array."""
    import numpy as np

    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    tensor = owner.obj if isinstance(owner, memoryview) else owner
    if not isinstance(tensor, Tensor) or not tensor.is_shared():
        return None
    storage = tensor.untyped_storage()
    begin = int(array.__array_interface__["data"][0]) - storage.data_ptr()
    return _C.empty(0, dtype=_C.uint8).set_(storage), begin


def reduce_array(array: NDArray[np.generic]) -> str | _Reduction:
    """Return what pickle writes for *array*; its bytes are in shared memory afterwards.

    Raises:
        MemoryError: There is not enough shared memory.
    """
    if array.dtype.hasobject or array.nbytes == 0:
        return array.__reduce__()
    below = shared_bytes_below(array)
    if below is not None:
        memory, begin = below
        strides = array.strides
    else:
        import numpy as np

        # Fortran order is kept, everything else becomes C order.
        order: Literal["C", "F"] = "F" if array.flags.fnc else "C"
        memory, begin = _C.empty(array.nbytes, dtype=_C.uint8, shared=True), 0
        copy = np.ndarray(array.shape, array.dtype, buffer=memory.numpy(), order=order)
        copy[...] = array
        strides = copy.strides
    # A builtin dtype's name is pickled in a third of the time.
    dtype = array.dtype.str if array.dtype.isbuiltin == 1 else array.dtype
    layout = (dtype, array.shape, begin, strides, array.flags.writeable)
    return rebuild_array, (_C._pack_shared_tensor(memory), *layout)


def rebuild_array(
    packed: bytes,
    dtype: np.dtype[np.generic] | str,
    shape: tuple[int, ...],
    begin: int,
    strides: tuple[int, ...],
    writeable: bool,
) -> NDArray[np.generic]:
    """Return the array of a message, over the shared memory."""
    import numpy as np

    memory: Any = _C._rebuild_shared_tensor(packed)
    array: NDArray[np.generic] = np.ndarray(shape, dtype, memory.numpy(), begin, strides)
    array.flags.writeable = writeable
    return array


# --- identity ---------------------------------------------------------------------------------


class StorageWeakRef:
    """A reference to a storage that does not keep it alive.

    Args:
        storage: Untyped or typed.

    Source:
        torch.multiprocessing.reductions.StorageWeakRef.
    """

    __slots__ = ("_free_weak_ref", "cdata")

    def __init__(self, storage: UntypedStorage | TypedStorage) -> None:
        self.cdata: int = storage._weak_ref()
        # Kept here, because the other module may be empty when the interpreter ends.
        self._free_weak_ref = _storage.UntypedStorage._free_weak_ref

    @classmethod
    def from_weakref(cls, cdata: int) -> StorageWeakRef:
        """Return the object of a reference that ``_weak_ref`` gave, which it takes over."""
        made = cls.__new__(cls)
        made.cdata = cdata
        made._free_weak_ref = _storage.UntypedStorage._free_weak_ref
        return made

    def __reduce__(self) -> NoReturn:
        raise TypeError("a StorageWeakRef is of one process, and counted: make another")

    def expired(self) -> bool:
        """Whether the storage was freed."""
        return bool(_storage.UntypedStorage._expired(self.cdata))

    def __del__(self) -> None:
        if hasattr(self, "_free_weak_ref"):
            self._free_weak_ref(self.cdata)

    def __hash__(self) -> int:
        return self.cdata

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageWeakRef) and self.cdata == other.cdata


class SharedCache(dict[Hashable, StorageWeakRef]):
    """A dictionary of storages that does not keep them alive.

    Entries of storages that were freed are removed when the number of entries has doubled. Messages
    do not use it: the extension module finds the storages of a process by their handles.

    Source:
        torch.multiprocessing.reductions.SharedCache.
    """

    def __init__(self) -> None:
        super().__init__()
        self.limit = 128

    def __setitem__(self, key: Hashable, storage_ref: StorageWeakRef) -> None:
        super().__setitem__(key, storage_ref)
        if len(self) > self.limit:
            self.free_dead_references()

    def free_dead_references(self) -> None:
        """Remove the entries of storages that were freed."""
        for key, storage_ref in list(self.items()):
            if storage_ref.expired():
                self.pop(key, None)
        self.limit = max(128, 2 * len(self))


#: For programs that reduce storages of their own kinds.
shared_cache = SharedCache()


def storage_from_cache(cls: type[UntypedStorage], key: Hashable) -> UntypedStorage | None:
    """Return the storage of class *cls* that the cache has for *key*, or None.

    Source:
        torch.multiprocessing.reductions.storage_from_cache.
    """
    storage_ref = shared_cache.get(key)
    return None if storage_ref is None else cls._new_with_weak_ptr(storage_ref.cdata)


def fd_id(fd: int) -> tuple[int, int]:
    """Return the inode and device of a file, which all descriptors of one file share."""
    status = os.fstat(fd)
    return status.st_ino, status.st_dev
