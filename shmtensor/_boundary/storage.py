"""C storages as objects that own one reference each.

A `StorageRef` is there before the C function that fills it, so that an exception, which may arrive
between any two bytecodes, finds an owner.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from shmtensor import _C
from shmtensor._boundary.core import (
    address_of,
    c_text,
    check,
    ffi,
    lib,
    place_for,
    text,
)

__all__ = [
    "FILE_CREATE",
    "FILE_EXTEND",
    "FILE_IS_OPEN",
    "FILE_SHARED",
    "FILE_WRITABLE",
    "StorageRef",
    "WeakStorageRef",
    "allocator",
    "byteswap",
    "copy",
    "create",
    "data_ptr",
    "empty_cache",
    "file_path",
    "fill",
    "init_semaphore",
    "is_meta",
    "is_read_only",
    "is_resizable",
    "map_file",
    "memory_statistics",
    "nbytes",
    "of_tensor",
    "part",
    "pinned_view",
    "read_fd",
    "received",
    "reset_peak",
    "resize",
    "semaphore_bytes",
    "tensor_over",
    "write_fd",
]

FILE_SHARED = 1
FILE_WRITABLE = 2
FILE_CREATE = 4
FILE_EXTEND = 8
FILE_IS_OPEN = 16

_RESIZABLE = 1
_READ_ONLY = 4
_META = 8


class StorageRef:
    """One reference to a C storage.

    Attributes:
        place: Where a C function stores the storage; it owns the reference.
        pointer: For calls of `lib`; valid while this object lives.
        address: The storage's identity while the reference lives.
    """

    __slots__ = ("address", "place", "pointer")

    def __init__(self) -> None:
        self.place = place_for("shmt_storage *", lib.shmt_storage_clear)

    def filled(self) -> StorageRef:
        """Return this object, whose place has been filled."""
        self.pointer = self.place[0]
        self.address = address_of(self.pointer)
        return self


class WeakStorageRef:
    """A reference that does not keep its storage alive."""

    __slots__ = ("_place",)

    def __init__(self, ref: StorageRef) -> None:
        self._place = place_for("shmt__storage_weak *", lib.shmt_storage_weak_clear)
        check(lib.shmt_storage_weak_create(ref.pointer, self._place))

    def lock(self) -> StorageRef | None:
        """Return a reference; None: the storage was destroyed."""
        ref = StorageRef()
        lib.shmt_storage_weak_lock(self._place[0], ref.place)
        return None if ref.place[0] == ffi.NULL else ref.filled()


def received(packed: bytes | int) -> StorageRef:
    """Return the storage that a message names.

    Raises:
        HandleError: *packed* is damaged, or its block was freed.
    """
    ref = StorageRef()
    _C._rebuild_shared_storage(packed, address_of(ref.place))
    return ref.filled()


def of_tensor(tensor: Any) -> StorageRef:
    """Return the storage that a strided tensor shows."""
    ref = StorageRef()
    tensor._retain_storage(address_of(ref.place))
    return ref.filled()


def _check_size(size: int) -> int:
    if not 0 <= size < 1 << 63:
        raise RuntimeError(f"storage: the size must be between 0 and 2**63 - 1 bytes, got {size}")
    return size


def create(size: int, *, zeroed: bool = False, meta: bool = False) -> StorageRef:
    """Make a storage of *size* bytes of private memory, or without data.

    Raises:
        MemoryError: There is not enough memory; the text states the bytes.
        RuntimeError: *size* is negative.
    """
    ref = StorageRef()
    _check_size(size)
    if meta:
        check(lib.shmt_storage_create_meta(size, ref.place))
    else:
        check(lib.shmt_storage_create(size, zeroed, ref.place))
    return ref.filled()


def map_file(path: str, size: int, flags: int, same_fd: int = -1) -> StorageRef:
    """Map the first *size* bytes of a file.

    Args:
        path: The file.
        size: How many bytes.
        flags: Some of ``FILE_...``.
        same_fd: A descriptor of the file that it must be; -1: any. With `FILE_IS_OPEN` that
            descriptor is mapped, and the path only says where others find the file.

    Raises:
        RuntimeError: The file cannot be opened, is too small, no regular file, or not the file of
            *same_fd*; path and sizes are in the text.
        MemoryError: The disk is full, or the address space.
    """
    ref = StorageRef()
    check(lib.shmt_storage_map_file(c_text(path), _check_size(size), flags, same_fd, ref.place))
    return ref.filled()


def semaphore_bytes() -> int:
    """Return the bytes of a semaphore in its file, as ``sem_open`` expects it."""
    return int(lib.shmt_storage_semaphore_bytes())


def init_semaphore(ref: StorageRef, value: int) -> None:
    """Make a semaphore of *value* permits, for several processes, in the bytes of a mapped file.

    Raises:
        RuntimeError: The storage is too small or read-only.
        ValueError: A semaphore cannot have so many permits.
    """
    check(lib.shmt_storage_init_semaphore(ref.pointer, value))


def part(ref: StorageRef, offset: int, size: int, *, own: bool = False) -> StorageRef:
    """Return a part of a storage as another storage over the same memory.

    Args:
        ref: The storage.
        offset: First byte.
        size: How many bytes.
        own: No other storage that the program gets shows these bytes.
    """
    made = StorageRef()
    check(lib.shmt_storage_part(ref.pointer, offset, size, own, made.place))
    return made.filled()


def nbytes(ref: StorageRef) -> int:
    """Size in bytes."""
    return int(lib.shmt_storage_nbytes(ref.pointer))


def data_ptr(ref: StorageRef) -> int:
    """Address of the first byte; 0 when there is none."""
    return address_of(lib.shmt_storage_data(ref.pointer))


def allocator(ref: StorageRef) -> str:
    """Name of the allocator the bytes came from."""
    return text(lib.shmt_storage_allocator(ref.pointer))


def is_resizable(ref: StorageRef) -> bool:
    """Whether `resize` may change the size."""
    return bool(lib.shmt_storage_flags(ref.pointer) & _RESIZABLE)


def is_read_only(ref: StorageRef) -> bool:
    """Whether writes are refused."""
    return bool(lib.shmt_storage_flags(ref.pointer) & _READ_ONLY)


def file_path(ref: StorageRef) -> str | None:
    """Path of the file that the storage maps so that writes reach it; None: it maps none."""
    found = lib.shmt_storage_file_path(ref.pointer)
    return None if found == ffi.NULL else os.fsdecode(ffi.string(found))


def is_meta(ref: StorageRef) -> bool:
    """Whether there is no data."""
    return bool(lib.shmt_storage_flags(ref.pointer) & _META)


def resize(ref: StorageRef, size: int) -> None:
    """Change the size, keeping what fits.

    Raises:
        RuntimeError: The storage is not resizable, or foreign views pin the address.
        MemoryError: There is not enough.
    """
    check(lib.shmt_storage_resize(ref.pointer, _check_size(size)))


def copy(
    target: StorageRef, target_offset: int, source: StorageRef, offset: int, size: int
) -> None:
    """Copy bytes between storages."""
    check(lib.shmt_storage_copy(target.pointer, target_offset, source.pointer, offset, size))


def fill(ref: StorageRef, offset: int, size: int, byte: int) -> None:
    """Set *size* bytes to *byte*."""
    check(lib.shmt_storage_fill(ref.pointer, offset, size, byte))


def byteswap(ref: StorageRef, width: int) -> None:
    """Reverse the bytes of every element of *width* bytes."""
    check(lib.shmt_storage_byteswap(ref.pointer, width))


def read_fd(ref: StorageRef, offset: int, size: int, fd: int) -> None:
    """Fill bytes from a descriptor's position."""
    check(lib.shmt_storage_read_fd(ref.pointer, offset, size, fd))


def write_fd(ref: StorageRef, offset: int, size: int, fd: int) -> None:
    """Write bytes at a descriptor's position."""
    check(lib.shmt_storage_write_fd(ref.pointer, offset, size, fd))


def pinned_view(ref: StorageRef) -> memoryview:
    """Return the bytes as a memoryview; while it lives, the storage cannot move.

    Raises:
        RuntimeError: There is no data (Meta).
    """
    if is_meta(ref):
        raise RuntimeError(f"no data behind a meta storage of {nbytes(ref)} bytes")
    view: memoryview = _C._pinned_view(ref.address)
    return view if view.nbytes > 0 else memoryview(bytearray())


def tensor_over(
    ref: StorageRef, sizes: Sequence[int], strides: Sequence[int] | None, offset: int, dtype: int
) -> Any:
    """Make a tensor over a storage.

    Args:
        ref: The storage; the tensor holds a reference of its own.
        sizes: Shape.
        strides: In elements; None is row-major.
        offset: First element, counted from the start of the storage.
        dtype: Code of the element type.

    Raises:
        RuntimeError: The tensor does not fit into the storage.
    """
    place = place_for("shmt_tensor *", lib.shmt_tensor_clear)
    c_sizes = ffi.new("int64_t[]", list(sizes))
    c_strides = ffi.NULL if strides is None else ffi.new("int64_t[]", list(strides))
    if strides is not None and len(strides) != len(sizes):
        raise RuntimeError(f"mismatch in length of strides and shape: {strides} and {sizes}")
    check(
        lib.shmt_tensor_from_storage(
            ref.pointer, c_sizes, c_strides, len(sizes), offset, dtype, place
        )
    )
    return _C._tensor_from_place(address_of(place))


def memory_statistics() -> dict[str, int]:
    """Return the counters of the private memory's allocator."""
    stats = ffi.new("shmt_memory_stats *")
    lib.shmt_memory_statistics(stats)
    return {name: int(getattr(stats, name)) for name, _ in ffi.typeof(stats[0]).fields}


def reset_peak() -> None:
    """Reset the peaks to what is in use now."""
    lib.shmt_memory_reset_peak()


def empty_cache() -> None:
    """Return cached blocks to the kernel."""
    lib.shmt_memory_empty_cache()
