"""Storages as sequences of bytes."""

from __future__ import annotations

import operator
import os
import sys
import weakref
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, cast

from shmtensor import _C
from shmtensor._boundary import storage as _c
from shmtensor.storage import stream
from shmtensor.storage._conversions import Conversions
from shmtensor.storage._shared import Shared

if TYPE_CHECKING:
    from shmtensor.storage.typed import TypedStorage

__all__ = ["StorageBase", "UntypedStorage"]

#: C address -> its live object.
_live: weakref.WeakValueDictionary[int, UntypedStorage] = weakref.WeakValueDictionary()
#: Tokens of `_weak_ref` -> a weak reference and how many times the token was given.
_weak: dict[int, tuple[_c.WeakStorageRef, int]] = {}
#: C address -> the token of the storage that is or was there.
_tokens: dict[int, int] = {}

_BYTE_ORDERS = ("big", "little", "native")


def _as_device(device: Any) -> Any:
    # An empty tensor is there if the device is: a device without tensors may be named.
    return _C.device("cpu") if device is None else _C.empty(0, device=device).device


def _byte(value: Any, what: str) -> int:
    if not isinstance(value, int):
        raise RuntimeError(f"{what}, but got {type(value).__name__} instead")
    return value & 0xFF


class StorageBase:
    """What all storages of bytes are; `UntypedStorage` is the only kind."""

    __slots__ = ()


class UntypedStorage(Conversions, Shared, StorageBase):
    """A sequence of bytes that tensors show.

    Args:
        *args: Nothing (empty), a size in bytes, or the values: integers taken modulo 256, or a
            bytes-like object, which is copied.
        device: ``"cpu"``, or ``"meta"`` for a storage without data.

    Raises:
        RuntimeError: The size is negative, or an item is not an integer.
        MemoryError: There is not enough memory; the text states the bytes.

    Source:
        torch.UntypedStorage.
    """

    __slots__ = ("__dict__", "__weakref__", "_ref")
    __module__ = "shmtensor.storage"
    _ref: _c.StorageRef

    def __new__(cls, *args: Any, device: Any = None) -> UntypedStorage:
        """Make a storage; see the class."""
        is_meta = _as_device(device).type == "meta"
        if len(args) > 1:
            kinds = ", ".join(type(a).__name__ for a in args)
            raise TypeError(
                f"{cls.__name__}() takes nothing, a size, a sequence or a buffer, got ({kinds})"
            )
        if not args:
            return cls._own(_c.create(0, meta=is_meta))
        (source,) = args
        if isinstance(source, Integral):
            return cls._own(_c.create(operator.index(source), meta=is_meta))
        try:
            raw = memoryview(source).cast("B")
        except TypeError:
            raw = memoryview(_bytes_of(source, cls.__name__))
        storage = cls._own(_c.create(len(raw), meta=is_meta))
        if not is_meta:
            storage._view()[:] = raw
        return storage

    # --- wrapping -----------------------------------------------------------------------------

    @classmethod
    def _own(cls, ref: _c.StorageRef) -> UntypedStorage:
        """Return the object of a storage: the existing one, or a new one that keeps *ref*."""
        found = _live.get(ref.address)
        if found is not None:
            return found
        storage = object.__new__(cls)
        storage._ref = ref
        _live[ref.address] = storage
        return storage

    @classmethod
    def _received(cls, packed: bytes | int) -> UntypedStorage:
        """Return the storage that a message names: the existing object if this process has one."""
        return cls._own(_c.received(packed))

    @classmethod
    def _of_tensor(cls, tensor: Any) -> UntypedStorage:
        """Return the storage that *tensor* shows.

        Raises:
            NotImplementedError: It is sparse, and has several.
        """
        if tensor.layout is not _C.strided:
            kind = "SparseTensorImpl" if tensor.is_sparse else "SparseCsrTensorImpl"
            raise NotImplementedError(f"Cannot access storage of {kind}")
        found = _live.get(tensor._storage_cdata)
        return cls._own(_c.of_tensor(tensor)) if found is None else found

    @property
    def _cdata(self) -> int:
        """Address of the C storage."""
        return self._ref.address

    @property
    def _storage_address(self) -> int:
        """The same as `_cdata`, under a name that only storages have; operators look for it."""
        return self._ref.address

    def _view(self) -> memoryview:
        """Return a view of the bytes. While it lives, the storage cannot be resized or shared."""
        return _c.pinned_view(self._ref)

    def __buffer__(self, flags: int) -> memoryview:
        return self._view()

    # --- size and place -----------------------------------------------------------------------

    def __len__(self) -> int:
        return _c.nbytes(self._ref)

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return _c.nbytes(self._ref)

    def size(self) -> int:
        """Size in bytes, which are the elements."""
        return _c.nbytes(self._ref)

    def element_size(self) -> int:
        """Bytes of an element: 1."""
        return 1

    def data_ptr(self) -> int:
        """Address of the first byte; 0 when there is none."""
        return _c.data_ptr(self._ref)

    @property
    def device(self) -> Any:
        """``cpu`` or ``meta``."""
        return _C.device("meta" if _c.is_meta(self._ref) else "cpu")

    @property
    def is_cuda(self) -> bool:
        """False: there are no CUDA devices here."""
        return False

    @property
    def filename(self) -> str | None:
        """Path of the file that this storage maps so that writes reach it; else None.

        It is the path that the file had when it was mapped here.
        """
        return _c.file_path(self._ref)

    def get_device(self) -> int:
        """-1: there are no device numbers on the CPU."""
        return -1

    def is_pinned(self, device: Any = "cuda") -> bool:
        """False: there is no device to pin memory for."""
        return False

    def pin_memory(self, device: Any = "cuda") -> UntypedStorage:
        """Raise RuntimeError: there is no accelerator to pin memory for."""
        raise RuntimeError("Cannot access accelerator device when none is available.")

    def resizable(self) -> bool:
        """Whether `resize_` may change the size; not that of shared, mapped or foreign memory."""
        return _c.is_resizable(self._ref)

    def untyped(self) -> UntypedStorage:
        """Return this storage."""
        return self

    # --- elements -----------------------------------------------------------------------------

    def _index(self, index: int) -> int:
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} out of range for storage of size {size}")
        return index % size

    def _range(self, where: slice) -> tuple[int, int]:
        start, stop, step = where.indices(len(self))
        if step != 1:
            raise RuntimeError(
                f"Trying to slice with a step of {step}, but only a step of 1 is supported"
            )
        return start, max(stop - start, 0)

    def __getitem__(self, index: Any) -> Any:
        """Return a byte, or for a slice a storage over the same memory."""
        if isinstance(index, slice):
            return UntypedStorage._own(_c.part(self._ref, *self._range(index)))
        if not hasattr(index, "__index__"):
            raise TypeError(
                f"can't index a torch.{type(self).__name__} with {type(index).__name__}"
            )
        at = self._index(index.__index__())
        return self._view()[at]

    def __setitem__(self, index: Any, value: Any) -> None:
        byte = _byte(value, "can only set storage content with a int types")
        if isinstance(index, slice):
            _c.fill(self._ref, *self._range(index), byte)
        else:
            _c.fill(self._ref, self._index(operator.index(index)), 1, byte)

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """Return the bytes as a list."""
        return self._view().tolist()

    def __repr__(self) -> str:
        place = f"[torch.storage.UntypedStorage(device={self.device.type}) of size {len(self)}]"
        if _c.is_meta(self._ref):
            return f"...\n{place}"
        return " " + "\n ".join(map(str, self.tolist())) + f"\n{place}"

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + len(self)

    # --- changing -----------------------------------------------------------------------------

    def fill_(self, value: int) -> UntypedStorage:
        """Set every byte to *value* modulo 256."""
        _c.fill(self._ref, 0, len(self), _byte(value, "fill_ expects int"))
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> UntypedStorage:
        """Copy the bytes of another storage of the same size.

        Args:
            source: A typed or untyped storage.
            non_blocking: Ignored on the CPU.

        Raises:
            RuntimeError: The sizes differ, or this storage is read-only.
        """
        other = source.untyped()
        if len(other) != len(self):
            raise RuntimeError(
                f"size does not match, self was {len(self)} bytes but src was {len(other)} bytes"
            )
        _c.copy(self._ref, 0, other._ref, 0, len(self))
        return self

    def resize_(self, size: int) -> UntypedStorage:
        """Change the size in bytes, keeping what fits; new bytes are uninitialised.

        Raises:
            RuntimeError: The storage is shared, mapped or foreign, or NumPy arrays or other buffers
                show the memory.
            MemoryError: There is not enough memory.
        """
        _c.resize(self._ref, size)
        return self

    def byteswap(self, dtype: Any) -> None:
        """Reverse the bytes of every element of *dtype*; complex numbers part by part."""
        _c.byteswap(self._ref, dtype.to_real().itemsize if dtype.is_complex else dtype.itemsize)

    # --- copies and conversions ---------------------------------------------------------------

    def new(self) -> UntypedStorage:
        """Return an empty storage of this device."""
        return UntypedStorage(device=self.device)

    def clone(self) -> UntypedStorage:
        """Return a copy in private memory."""
        size = len(self)
        copy = UntypedStorage(size, device=self.device)
        if not _c.is_meta(self._ref):
            _c.copy(copy._ref, 0, self._ref, 0, size)
        return copy

    def __copy__(self) -> UntypedStorage:
        return self.clone()

    def __deepcopy__(self, memo: dict[Any, Any]) -> UntypedStorage:
        copies = memo.setdefault("shmtensor", {})
        if self._cdata not in copies:
            copies[self._cdata] = self.clone()
        return cast(UntypedStorage, copies[self._cdata])

    def __reduce_ex__(self, protocol: Any) -> Any:
        from shmtensor._core._pickling import reduce_storage  # it imports this module

        return reduce_storage(self, protocol)

    def cpu(self) -> UntypedStorage:
        """Return this storage, or a copy of a Meta one with memory."""
        return UntypedStorage(len(self)) if _c.is_meta(self._ref) else self

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the type's name, or this storage when asked for the type it has."""
        name = "torch.storage.UntypedStorage"
        if dtype is None:
            return name
        if dtype is UntypedStorage or str(dtype).rpartition(".")[2] == "UntypedStorage":
            return self
        raise TypeError(f"an {name} has no type {dtype!r}")

    def _to(self, dtype: Any) -> TypedStorage:
        from shmtensor.storage.typed import TypedStorage  # it imports this module

        return TypedStorage(wrap_storage=self, dtype=_C.uint8, _internal=True)._to(dtype)

    # --- weak references ----------------------------------------------------------------------

    def _weak_ref(self) -> int:
        """Return a token that does not keep the storage alive; free it by `_free_weak_ref`.

        The tokens of one storage are equal, and those of different ones differ.
        """
        token = _tokens.get(self._ref.address, 0)
        if self._expired(token):
            weak, n = _c.WeakStorageRef(self._ref), 0
            token = _tokens[self._ref.address] = id(weak)
        else:
            weak, n = _weak[token]
        _weak[token] = (weak, n + 1)
        return token

    @staticmethod
    def _free_weak_ref(token: int) -> None:
        """Free a token."""
        weak, n = _weak.pop(token, (None, 0))
        if weak is not None and n > 1:
            _weak[token] = (weak, n - 1)
        elif weak is not None:
            for address in [a for a, t in _tokens.items() if t == token]:
                del _tokens[address]

    @staticmethod
    def _expired(token: int) -> bool:
        """Whether the storage of a token was freed."""
        return token not in _weak or _weak[token][0].lock() is None

    @classmethod
    def _new_with_weak_ptr(cls, token: int) -> UntypedStorage | None:
        """Return the storage of a token; None: it was freed."""
        ref = _weak[token][0].lock() if token in _weak else None
        return None if ref is None else cls._own(ref)

    # --- buffers and files --------------------------------------------------------------------

    @classmethod
    def from_buffer(
        cls,
        buffer: Any,
        byte_order: str = "native",
        count: int = -1,
        offset: int = 0,
        *,
        dtype: Any = None,
    ) -> UntypedStorage:
        """Copy elements from a bytes-like object.

        Args:
            buffer: The source.
            byte_order: Byte order of the elements: ``"big"``, ``"little"`` or ``"native"``.
            count: Number of elements; -1: all after *offset*.
            offset: Index of the first byte.
            dtype: Dtype of the elements; None: uint8.

        Raises:
            ValueError: *byte_order* is unknown, or *offset* and *count* do not fit the buffer.

        Source:
            torch.UntypedStorage.from_buffer.
        """
        if byte_order not in _BYTE_ORDERS:
            raise ValueError(
                f"invalid byte_order '{byte_order}' (expected 'big', 'little', or 'native')"
            )
        dtype = _C.uint8 if dtype is None else dtype
        width = dtype.itemsize
        raw = memoryview(buffer).cast("B")
        if len(raw) == 0 and offset == 0 and count <= 0:
            return cls(0)
        if not 0 <= offset <= len(raw):
            raise ValueError(
                "offset must be non-negative and no greater than buffer length "
                f"({len(raw)}) , but got {offset}"
            )
        rest = len(raw) - offset
        if count < 0:
            if rest % width:
                raise ValueError(
                    f"buffer size ({len(raw)}) must be a multiple of element size ({width})"
                )
            count = rest // width
        if count * width > rest:
            raise ValueError(
                f"buffer has only {rest // width} elements after offset {offset}, but specified a "
                f"size of {count}"
            )
        storage = cls(raw[offset : offset + count * width])
        if byte_order not in ("native", sys.byteorder):
            storage.byteswap(dtype)
        return storage

    @classmethod
    def from_file(
        cls, filename: str | os.PathLike[str], shared: bool = False, nbytes: int = 0
    ) -> UntypedStorage:
        """Map the beginning of a file.

        Args:
            filename: The file.
            shared: Writes reach the file, also those of processes that the storage is sent to. The
                file is made, and grown to *nbytes*, where needed. Otherwise the mapping is private:
                writes stay in this process.
            nbytes: Size of the mapping in bytes.

        Raises:
            RuntimeError: The file cannot be opened, is not a regular file, or is too small for a
                private mapping.
            MemoryError: The disk is full.

        Source:
            torch.UntypedStorage.from_file.
        """
        path = os.fspath(filename)
        if not shared:
            return cls._own(_c.map_file(path, nbytes, _c.FILE_WRITABLE))
        flags = _c.FILE_WRITABLE | _c.FILE_SHARED | _c.FILE_CREATE | _c.FILE_EXTEND
        return cls._own(_c.map_file(path, nbytes, flags))

    def _write_file(
        self, f: Any, is_real_file: bool, save_size: bool = True, element_size: int = 1
    ) -> None:
        """Write the bytes, after the number of elements (8 bytes, little-endian) if *save_size*."""
        if save_size:
            f.write((len(self) // element_size).to_bytes(8, "little"))
        if not is_real_file:
            f.write(self._view())
            return
        f.flush()
        position = f.tell()
        _c.write_fd(self._ref, 0, len(self), f.fileno())
        f.seek(position + len(self))

    @classmethod
    def _new_with_file(cls, f: Any, element_size: int = 1) -> UntypedStorage:
        """Read what `_write_file` wrote, from the position of *f*."""
        storage = cls(stream.read_length(f) * element_size)
        storage._read_from(f, is_real_file=hasattr(f, "fileno"))
        return storage

    def _set_from_file(
        self, f: Any, offset: int | None, is_real_file: bool, element_size: int = 1
    ) -> UntypedStorage:
        """Read what `_write_file` wrote into this storage.

        Raises:
            RuntimeError: The file has another number of bytes, or ends too early.
        """
        before = f.tell() if offset is not None else 0
        if offset is not None:
            f.seek(offset)
        size = stream.read_length(f) * element_size
        if size != len(self):
            raise RuntimeError(f"storage has wrong byte size: expected {len(self)} got {size}")
        self._read_from(f, is_real_file=is_real_file)
        if offset is not None and is_real_file:
            f.seek(before)
        return self

    def _read_from(self, f: Any, *, is_real_file: bool) -> None:
        size = len(self)
        if is_real_file:
            position = f.tell()
            try:
                fd = f.fileno()
            except OSError:  # a buffer in memory has `fileno`, but no descriptor
                is_real_file = False
            else:
                behind = os.lseek(fd, 0, os.SEEK_CUR)  # *f* has read ahead to here
                os.lseek(fd, position, os.SEEK_SET)
                _c.read_fd(self._ref, 0, size, fd)
                os.lseek(fd, behind, os.SEEK_SET)
                f.seek(position + size)
                return
        stream.read_into(self._view(), f)


def _bytes_of(source: Any, name: str) -> bytearray:
    """The bytes of a sequence of integers."""
    if not isinstance(source, Sequence):
        raise RuntimeError(
            f"torch.{name}(): Expected a sequence type, but got {type(source).__name__}"
        )
    values = bytearray()
    for item in source:
        if not isinstance(item, int):
            raise RuntimeError(
                f"torch.{name}(): tried to construct a storage from a sequence "
                f"({type(source).__name__}), but one of the items was of type "
                f"{type(item).__name__} instead of int"
            )
        values.append(item & 0xFF)
    return values
