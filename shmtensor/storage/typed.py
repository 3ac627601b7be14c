"""Storages with an element type, and the old-style classes such as ``FloatStorage``."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator
from numbers import Integral
from typing import Any, cast

from shmtensor import _C
from shmtensor._boundary import storage as _c
from shmtensor._core._warnings import warn_once
from shmtensor.storage._conversions import Conversions
from shmtensor.storage.untyped import UntypedStorage

__all__ = ["LEGACY_CLASSES", "TypedStorage"]


def warn_of_removal(stacklevel: int = 2) -> None:
    """Warn once that typed storages are deprecated."""
    warn_once(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be "
        "the only storage class. This should only matter to you if you are using storages "
        "directly. To access UntypedStorage directly, use tensor.untyped_storage() instead of "
        "tensor.storage()",
        stacklevel + 1,
    )


class TypedStorage(Conversions):
    """A storage with elements of one dtype.

    Args:
        *args: Nothing (empty), a number of elements, or a sequence of values.
        wrap_storage: Show this `UntypedStorage` instead of making one.
        dtype: Element type; the default dtype when left out.
        device: ``"cpu"`` or ``"meta"``.

    Raises:
        TypeError: Both values and *wrap_storage*, or *wrap_storage* without a dtype.

    Source:
        torch.TypedStorage.
    """

    __slots__ = ("__dict__", "__weakref__", "_dtype", "_untyped_storage")
    __module__ = "shmtensor.storage"
    _dtype: Any
    _untyped_storage: UntypedStorage

    def __init__(
        self,
        *args: Any,
        wrap_storage: Any = None,
        dtype: Any = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        if not _internal:
            warn_of_removal(3)
        if wrap_storage is not None:
            if args or device is not None:
                raise RuntimeError(
                    "TypedStorage(): wrap_storage goes together with dtype only, got "
                    f"{len(args)} values and device {device}"
                )
            if dtype is None:
                raise RuntimeError(
                    "TypedStorage(): argument 'dtype' must be given with wrap_storage"
                )
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(
                    "TypedStorage(): argument 'wrap_storage' must be UntypedStorage, but got "
                    f"{type(wrap_storage)}"
                )
            self._dtype = dtype
            self._untyped_storage = wrap_storage
            return
        if len(args) > 1:
            raise TypeError(
                f"TypedStorage() takes nothing, a size or a sequence, got {len(args)} values"
            )
        self._dtype = _C.get_default_dtype() if dtype is None else dtype
        values = args[0] if args and not isinstance(args[0], Integral) else None
        size = len(values) if values is not None else operator.index(args[0] if args else 0)
        if size < 0:
            raise RuntimeError(f"TypedStorage(): the size must not be negative, got {size}")
        self._untyped_storage = UntypedStorage(size * self._dtype.itemsize, device=device)
        if values is not None and size:
            self._tensor().copy_(_C.tensor(list(values), dtype=self._dtype))

    @classmethod
    def _of_tensor(cls, tensor: Any) -> TypedStorage:
        """Return the storage that *tensor* shows.

        This object is made before the `UntypedStorage` below it, and freed after it. So the next
        temporary object of the same storage is allocated at the same address, and programs that
        compare ``id(a.storage()) == id(b.storage())`` get the answer that they expect.
        """
        storage = cls.__new__(cls)
        storage._dtype = tensor.dtype
        storage._untyped_storage = UntypedStorage._of_tensor(tensor)
        return storage

    @property
    def dtype(self) -> Any:
        """Type of the elements."""
        return self._dtype

    def _tensor(self) -> Any:
        """A one-dimensional tensor over all elements."""
        return _c.tensor_over(self._untyped_storage._ref, [len(self)], None, 0, self._dtype._code)

    def _wrap(self, untyped: UntypedStorage) -> TypedStorage:
        return TypedStorage(wrap_storage=untyped, dtype=self._dtype, _internal=True)

    # --- size and place -----------------------------------------------------------------------

    def __len__(self) -> int:
        return self._untyped_storage.nbytes() // int(self._dtype.itemsize)

    def size(self) -> int:
        """Number of elements."""
        return len(self)

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes of an element."""
        return cast(int, self._dtype.itemsize)

    def data_ptr(self) -> int:
        """Address of the first element; 0 when there is none."""
        return self._untyped_storage.data_ptr()

    @property
    def device(self) -> Any:
        """``cpu`` or ``meta``."""
        return self._untyped_storage.device

    @property
    def is_cuda(self) -> bool:
        """False: there are no CUDA devices here."""
        return False

    @property
    def filename(self) -> str | None:
        """Path of the file if this is a shared mapping of a file; else None."""
        return self._untyped_storage.filename

    @property
    def _cdata(self) -> int:
        """Address of the C storage."""
        return self._untyped_storage._cdata

    @property
    def _storage_address(self) -> int:
        """The same as `_cdata`, under a name that only storages have."""
        return self._untyped_storage._cdata

    def get_device(self) -> int:
        """-1: there are no device numbers on the CPU."""
        return -1

    def is_pinned(self, device: Any = "cuda") -> bool:
        """False: there is no device to pin memory for."""
        return False

    def resizable(self) -> bool:
        """Whether `resize_` may change the size."""
        return self._untyped_storage.resizable()

    def untyped(self) -> UntypedStorage:
        """Return the bytes."""
        return self._untyped_storage

    # --- elements -----------------------------------------------------------------------------

    def _index(self, index: Any) -> int:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not hasattr(index, "__index__"):
            raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        at: int = index.__index__()
        if not -len(self) <= at < len(self):
            raise IndexError(f"index {at} out of range for storage of size {len(self)}")
        return at % len(self)

    def __getitem__(self, index: Any) -> Any:
        return self._tensor()[self._index(index)].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            self._tensor()[index] = value
        else:
            self._tensor()[self._index(index)] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """Return the elements as a list of Python numbers."""
        return cast("list[Any]", self._tensor().tolist())

    def __repr__(self) -> str:
        place = (
            f"[torch.storage.TypedStorage(dtype={self._dtype}, device={self.device.type}) "
            f"of size {len(self)}]"
        )
        if self.device.type == "meta":
            return f"...\n{place}"
        return " " + "\n ".join(map(str, self.tolist())) + f"\n{place}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TypedStorage)
            and self._dtype is other._dtype
            and self._untyped_storage is other._untyped_storage
        )

    def __hash__(self) -> int:
        return hash((self._dtype, self._cdata))

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    # --- changing -----------------------------------------------------------------------------

    def fill_(self, value: Any) -> TypedStorage:
        """Set every element to *value*."""
        self._tensor().fill_(value)
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Copy the bytes of another storage of the same size in bytes."""
        self._untyped_storage.copy_(source.untyped())
        return self

    def resize_(self, size: int) -> None:
        """Change the number of elements, keeping what fits; see `UntypedStorage.resize_`."""
        self._untyped_storage.resize_(size * self._dtype.itemsize)

    # --- copies and conversions ---------------------------------------------------------------

    def new(self) -> TypedStorage:
        """Return an empty storage of this dtype and device."""
        return self._wrap(self._untyped_storage.new())

    def clone(self) -> TypedStorage:
        """Return a copy in private memory."""
        return self._wrap(self._untyped_storage.clone())

    def __copy__(self) -> TypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[Any, Any]) -> TypedStorage:
        return self._wrap(self._untyped_storage.__deepcopy__(memo))

    def _deepcopy(self, memo: dict[Any, Any]) -> TypedStorage:
        return self.__deepcopy__(memo)

    def __reduce__(self) -> Any:
        return _rebuild_typed, (self._untyped_storage, self._dtype)

    def cpu(self) -> TypedStorage:
        """Return this storage's elements on the CPU."""
        return self._wrap(self._untyped_storage.cpu())

    def _to(self, dtype: Any) -> TypedStorage:
        target = TypedStorage(len(self), dtype=dtype, device=self.device)
        target._tensor().copy_(self._tensor())
        return target

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the old-style type name, or the elements in another dtype."""
        if dtype is None:
            names = [n for n, legacy in LEGACY_CLASSES.items() if legacy.dtype is self._dtype]
            return f"torch.{names[0] if names else 'storage.TypedStorage'}"
        name = str(getattr(dtype, "__name__", dtype)).rpartition(".")[2]
        if name in LEGACY_CLASSES:
            return self._to(LEGACY_CLASSES[name].dtype)
        if isinstance(dtype, _C.dtype):
            return self._to(dtype)
        raise ValueError(f"invalid type: {dtype!r}")

    def pickle_storage_type(self) -> str:
        """Return the name of the old-style class, such as ``FloatStorage``."""
        for name, legacy in LEGACY_CLASSES.items():
            if legacy.dtype is self._dtype:
                return name
        raise KeyError(f"there is no old-style storage class of {self._dtype}")

    # --- sharing ------------------------------------------------------------------------------

    def is_shared(self) -> bool:
        """Whether other processes can map this memory."""
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        """Move the bytes into shared memory; see `UntypedStorage.share_memory_`."""
        self._untyped_storage.share_memory_()
        return self

    @classmethod
    def _new_shared(cls, size: int, *, dtype: Any = None, device: Any = "cpu") -> TypedStorage:
        """Make *size* zero elements in shared memory."""
        dtype = getattr(cls, "_legacy_dtype", None) or dtype or _C.get_default_dtype()
        untyped = UntypedStorage._new_shared(size * dtype.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)

    def _share_filename_(self) -> tuple[bytes, bytes, int]:
        return self._untyped_storage._share_filename_()

    def _share_fd_(self) -> tuple[int, int]:
        return self._untyped_storage._share_fd_()

    def _shared_incref(self) -> None:
        self._untyped_storage._shared_incref()

    def _shared_decref(self) -> TypedStorage:
        self._untyped_storage._shared_decref()
        return self

    def _weak_ref(self) -> int:
        return self._untyped_storage._weak_ref()

    def _free_weak_ref(self, token: int) -> None:
        self._untyped_storage._free_weak_ref(token)

    def _expired(self, token: int) -> bool:
        return self._untyped_storage._expired(token)

    # --- buffers and files --------------------------------------------------------------------

    @classmethod
    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """Copy elements of *dtype* from a bytes-like object.

        Args:
            *args: As of `UntypedStorage.from_buffer`.
            **kwargs: Likewise; *dtype* is the default dtype when left out, *device* the CPU.

        Raises:
            RuntimeError: *device* is no CPU, or a byte order is missing.
            ValueError: As of `UntypedStorage.from_buffer`.
        """
        warn_of_removal(3)
        return cls._from_buffer(*args, **kwargs)

    @classmethod
    def _from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """Copy elements from a bytes-like object, without the warning."""
        dtype, device = kwargs.pop("dtype", None), kwargs.pop("device", None)
        kind = _C.device("cpu" if device is None else device).type
        if kind != "cpu":
            raise RuntimeError(f"TypedStorage.from_buffer: Not available for device {kind}")
        return _copy_of_buffer(_C.get_default_dtype() if dtype is None else dtype, *args, **kwargs)

    def _write_file(self, f: Any, is_real_file: bool, save_size: bool = True, *_: Any) -> None:
        """Write the elements, after their number if *save_size*."""
        self._untyped_storage._write_file(f, is_real_file, save_size, self._dtype.itemsize)

    def _set_from_file(
        self, f: Any, offset: int | None, is_real_file: bool, *_: Any
    ) -> TypedStorage:
        """Read what `_write_file` wrote into this storage."""
        self._untyped_storage._set_from_file(f, offset, is_real_file, self._dtype.itemsize)
        return self


def _copy_of_buffer(
    element: Any,
    buffer: Any,
    byte_order: str | None = None,
    count: int = -1,
    offset: int = 0,
) -> TypedStorage:
    """Return a typed storage with what a bytes-like object holds."""
    if byte_order is None and element.itemsize > 1:
        raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
    untyped = UntypedStorage.from_buffer(
        buffer, byte_order or "native", count, offset, dtype=element
    )
    return TypedStorage(wrap_storage=untyped, dtype=element, _internal=True)


def _rebuild_typed(untyped: Any, dtype: Any) -> TypedStorage:
    """Unpickle a typed storage."""
    return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


class _LegacyMeta(type):
    """The metaclass of old-style classes. A call returns a `TypedStorage`, which is an instance."""

    dtype: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        kwargs.pop("dtype", None)
        if "wrap_storage" in kwargs:
            return TypedStorage(*args, wrap_storage=kwargs["wrap_storage"], dtype=cls.dtype)
        return TypedStorage(*args, dtype=cls.dtype, device=kwargs.get("device"))

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype

    def from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """Copy elements from a bytes-like object; see `UntypedStorage.from_buffer`."""
        warn_of_removal(3)
        return cls._from_buffer(*args, **kwargs)

    def _from_buffer(cls, *args: Any, **kwargs: Any) -> TypedStorage:
        """Copy elements from a bytes-like object, without the warning."""
        for name in ("dtype", "device"):
            given = kwargs.pop(name, None)
            if given is not None:
                raise RuntimeError(
                    f"from_buffer: '{name}' can only be specified in UntypedStorage.from_buffer "
                    f"and TypedStorage.from_buffer, got {given}"
                )
        return _copy_of_buffer(cls.dtype, *args, **kwargs)

    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, size: int = 0
    ) -> TypedStorage:
        """Map the beginning of a file; see `UntypedStorage.from_file`. *size* counts elements."""
        untyped = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=cls.dtype, _internal=True)

    def _new_with_file(cls, f: Any) -> TypedStorage:
        """Read what `_write_file` wrote."""
        untyped = UntypedStorage._new_with_file(f, cls.dtype.itemsize)
        return TypedStorage(wrap_storage=untyped, dtype=cls.dtype, _internal=True)

    def _new_shared(cls, size: int) -> TypedStorage:
        """Make *size* zero elements in shared memory."""
        return TypedStorage._new_shared(size, dtype=cls.dtype)

    def _new_shared_filename(cls, manager: bytes, handle: bytes, size: int) -> TypedStorage:
        """Open what `_share_filename_` returned; *size* is in bytes."""
        untyped = UntypedStorage._new_shared_filename(manager, handle, size)
        return TypedStorage(wrap_storage=untyped, dtype=cls.dtype, _internal=True)


_LEGACY_DTYPES = {
    "BFloat16Storage": "bfloat16",
    "BoolStorage": "bool",
    "ByteStorage": "uint8",
    "CharStorage": "int8",
    "ComplexDoubleStorage": "complex128",
    "ComplexFloatStorage": "complex64",
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "IntStorage": "int32",
    "LongStorage": "int64",
    "ShortStorage": "int16",
}

#: Name -> class, of the old-style storages.
LEGACY_CLASSES: dict[str, Any] = {
    name: _LegacyMeta(
        name,
        (),
        {
            "__doc__": f"Makes storages of {dtype}; see `TypedStorage`.",
            "__module__": "shmtensor",
            "dtype": getattr(_C, dtype),
        },
    )
    for name, dtype in _LEGACY_DTYPES.items()
}
