"""The methods of untyped storages that share them with other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

    from shmtensor._boundary.storage import StorageRef

__all__ = ["Shared"]


def _sharing() -> Any:
    # Imported only when something is shared, since it loads the client of the manager.
    from shmtensor._boundary import sharing

    return sharing


class _Descriptor(int):
    """The number of a descriptor, which stays open as long as its storage: it keeps that alive."""

    _storage: Any

    def __new__(cls, number: int, storage: Any) -> _Descriptor:
        self = super().__new__(cls, number)
        self._storage = storage
        return self

    def __reduce__(self) -> Any:
        return int, (int(self),)


class Shared:
    """What untyped storages inherit; those give ``_cdata`` and ``_own``."""

    __slots__ = ()

    @property
    def _cdata(self) -> int:
        raise NotImplementedError

    @classmethod
    def _own(cls, ref: StorageRef) -> Self:
        raise NotImplementedError

    def is_shared(self) -> bool:
        """Whether other processes can map this memory."""
        return bool(_sharing().is_shared(self._cdata))

    def share_memory_(self) -> Self:
        """Move the bytes into shared memory. Does nothing when they are shared already.

        Returns:
            This storage. All tensors that show it use the shared memory from now on. An array or
            buffer that the bytes came from, as in `from_numpy`, keeps its own.

        Raises:
            BufferError: NumPy arrays or other buffers show the private memory.
            MemoryError: There is not enough shared memory; the text states the bytes.
        """
        _sharing().share_storage(self._cdata)
        return self

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> Self:
        """Make a storage of *size* zero bytes in shared memory, by the strategy in use."""
        return cls._own(_sharing().new_shared(size))

    @classmethod
    def _new_using_filename_cpu(cls, size: int) -> Self:
        """Make a storage of *size* zero bytes by the strategy ``file_system``."""
        return cls._own(_sharing().new_shared(size, "file_system"))

    @classmethod
    def _new_using_fd_cpu(cls, size: int) -> Self:
        """Make a storage of *size* zero bytes by the strategy ``file_descriptor``."""
        return cls._own(_sharing().new_shared(size, "file_descriptor"))

    def _share_filename_(self) -> tuple[bytes, bytes, int]:
        """Share the storage, and return the manager's socket, a handle and the size in bytes."""
        manager, handle, size = _sharing().export_filename(self.share_memory_()._cdata)
        return manager, handle, size

    @classmethod
    def _new_shared_filename(cls, manager: bytes, handle: bytes, size: int) -> Self:
        """Open what `_share_filename_` returned in any process.

        Raises:
            HandleError: The handle is forged, or its block was freed.
            ManagerError: The manager cannot be reached.
        """
        return cls._own(_sharing().import_filename(manager, handle, size))

    def _share_fd_(self) -> tuple[int, int]:
        """Share the storage by a descriptor; return it and the size in bytes.

        The descriptor belongs to the storage: it is the same each time, and closed with it. The
        number that is returned keeps the storage alive.
        """
        fd, size = _sharing().export_fd(self._cdata)
        return _Descriptor(fd, self), size

    @classmethod
    def _new_shared_fd(cls, fd: int, size: int) -> Self:
        """Open a descriptor from `_share_fd_` of any process; it stays the caller's.

        Raises:
            HandleError: *fd* is not a descriptor of shared memory, or the storage has another size.
        """
        return cls._own(_sharing().import_fd(fd, size))

    _share_filename_cpu_ = _share_filename_
    _new_shared_filename_cpu = _new_shared_filename
    _share_fd_cpu_ = _share_fd_
    _new_shared_fd_cpu = _new_shared_fd

    def _shared_incref(self) -> None:
        """Keep the shared memory alive beyond this object and this process."""
        _sharing().incref(self._cdata)

    def _shared_decref(self) -> Self:
        """Undo one `_shared_incref` of any process."""
        _sharing().decref(self._cdata)
        return self
