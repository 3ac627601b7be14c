"""Tensors over POSIX shared memory."""

from __future__ import annotations

import builtins
import errno
import math
import operator
import os
import stat
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from shmtensor._boundary import storage as _c
from shmtensor.posix import _names
from shmtensor.service import Service, _libraries
from shmtensor.service._libraries import Library
from shmtensor.storage import UntypedStorage

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shmtensor import Tensor

__all__ = ["Entry", "create", "exists", "list", "open", "unlink"]

_SEMAPHORES = "sem."
_FLAGS = {
    "ro": _c.FILE_IS_OPEN,
    "cow": _c.FILE_IS_OPEN | _c.FILE_WRITABLE,
    "rw": _c.FILE_IS_OPEN | _c.FILE_WRITABLE | _c.FILE_SHARED,
}

IfExists = Literal["fail", "open", "replace"]
Mode = Literal["ro", "rw", "cow"]


class Entry(NamedTuple):
    """A name and the memory behind it at one moment.

    Attributes:
        name: The name, with its slash.
        nbytes: Size in bytes.
        mode: Permission bits, as in `create`.
        uid: Id of the user whose it is.
    """

    name: str
    nbytes: int
    mode: int
    uid: int


def _sizes(where: str, shape: int | Sequence[int]) -> tuple[int, ...]:
    given = shape if isinstance(shape, Sequence) else (shape,)
    sizes = tuple(map(operator.index, given))
    if any(n < 0 for n in sizes):
        raise ValueError(f"{where}: sizes cannot be negative, got {sizes}")
    return sizes


@overload
def create(
    name: str,
    shape: int | Sequence[int],
    dtype: object = None,
    *,
    mode: int = 0o600,
    if_exists: IfExists = "fail",
    linger: bool = False,
    service: Service | None = None,
    as_: Literal["shmtensor"] = "shmtensor",
) -> Tensor: ...
@overload
def create(
    name: str,
    shape: int | Sequence[int],
    dtype: object = None,
    *,
    mode: int = 0o600,
    if_exists: IfExists = "fail",
    linger: bool = False,
    service: Service | None = None,
    as_: Literal["numpy"],
) -> NDArray[Any]: ...
@overload
def create(
    name: str,
    shape: int | Sequence[int],
    dtype: object = None,
    *,
    mode: int = 0o600,
    if_exists: IfExists = "fail",
    linger: bool = False,
    service: Service | None = None,
    as_: Library,
) -> Any: ...
def create(
    name: str,
    shape: int | Sequence[int],
    dtype: object = None,
    *,
    mode: int = 0o600,
    if_exists: IfExists = "fail",
    linger: bool = False,
    service: Service | None = None,
    as_: Library = "shmtensor",
) -> Any:
    """Make POSIX shared memory under a name, and return a tensor over it.

    Any program opens it by ``shm_open(name, ...)``. It never sees a part: the name appears once
    the memory has its size, its pages and zeros in them.

    This process becomes an *owner* of the name, and so does each process that inherits the
    tensor by fork, receives it through a queue, or opens the name with ``owner=True``. When no
    owner has the tensor any more, because it was dropped or the process ended or was killed, the
    name is removed, within about a second. Memory that someone has mapped stays usable.

    Args:
        name: A slash and 1 to 174 bytes, none of them a slash or 0; up to 254 with *linger*.
        shape: A number or a sequence of numbers; at least one element.
        dtype: A dtype of this package, of NumPy or of torch; for arrays, anything that
            ``numpy.dtype`` takes, except objects. None: the library's default dtype.
        mode: Permission bits; those of the umask are taken off.
        if_exists: What to do if there is such a name. ``"fail"``: raise FileExistsError.
            ``"open"``: open it as an owner, for writing, with what is in it. ``"replace"``: remove
            the name first; programs that have opened the old memory keep that.
        linger: The name stays until someone calls `unlink`, or the machine stops. It has no owners.
        service: The service whose manager removes the name; all owners name the same. None: the
            user's default service, which is started if need be.
        as_: What to return: a tensor of this package (``"shmtensor"``), an array (``"numpy"``),
            or a tensor of torch (``"torch"``).

    Returns:
        A contiguous tensor or array of *shape* over the memory. It keeps the memory mapped.

    Raises:
        FileExistsError: There is such a name, with ``if_exists="fail"``.
        MemoryError: There is not enough room in ``/dev/shm``.
        PermissionError: The name to be opened or replaced is another user's.
        TypeError: The library has no such dtype.
        ValueError: The name, the shape or another argument is none; the memory to be opened is too
            small; or the service cannot remove the name: it is open to a group, or its manager
            sees another ``/dev/shm`` (in another container).
        RuntimeError: *shape* has more than 64 sizes.
        ManagerError: The service cannot be reached.
        ModuleNotFoundError: *as_* is ``"torch"``, and torch is not installed.
    """
    _names.check(name)
    if if_exists not in _names.IF_EXISTS:
        raise ValueError(f"if_exists must be one of {_names.IF_EXISTS}, got {if_exists!r}")
    _libraries.check_library(as_)
    owner = _names.check_service(service, linger)
    ours, theirs = _libraries.dtype_of(dtype, as_)
    sizes = _sizes("create()", shape)
    nbytes = math.prod(sizes) * _libraries.itemsize_of(ours, theirs)
    if nbytes == 0:
        raise ValueError(f"create(): memory has at least one byte, got shape {sizes}")
    if nbytes >= 1 << 63:
        raise MemoryError(f"create(): tried to allocate {nbytes} bytes")

    def show(storage: UntypedStorage) -> Any:
        return _libraries.over(storage, sizes, ours, theirs, as_)

    while True:
        if if_exists == "open" and os.path.lexists(_names.path_of(name)):
            try:
                return open(
                    name, sizes, dtype, mode="rw", owner=not linger, service=service, as_=as_
                )
            except FileNotFoundError:
                pass
        try:
            return _made(name, nbytes, mode, owner, show)
        except FileExistsError:
            if if_exists == "fail":
                raise
            if if_exists == "replace":
                unlink(name, missing_ok=True)


def _made(
    name: str,
    nbytes: int,
    mode: int,
    owner: Service | None,
    show: Callable[[UntypedStorage], Any],
) -> Any:
    """Make memory and give it its name; return what *show* makes of it, which may fail before."""
    with _names.unnamed_file(nbytes, mode) as fd:
        ref = _names.map_shared(fd, name, nbytes)
        shown = show(UntypedStorage._own(ref))
        if owner is not None:
            _names.own(owner, ref, fd, name, is_new=True)
        _names.link(fd, name)
    return shown


@overload
def open(
    name: str,
    shape: int | Sequence[int] | None = None,
    dtype: object = None,
    *,
    offset: int = 0,
    mode: Mode = "ro",
    owner: bool = False,
    service: Service | None = None,
    as_: Literal["shmtensor"] = "shmtensor",
) -> Tensor: ...
@overload
def open(
    name: str,
    shape: int | Sequence[int] | None = None,
    dtype: object = None,
    *,
    offset: int = 0,
    mode: Mode = "ro",
    owner: bool = False,
    service: Service | None = None,
    as_: Literal["numpy"],
) -> NDArray[Any]: ...
@overload
def open(
    name: str,
    shape: int | Sequence[int] | None = None,
    dtype: object = None,
    *,
    offset: int = 0,
    mode: Mode = "ro",
    owner: bool = False,
    service: Service | None = None,
    as_: Library,
) -> Any: ...
def open(
    name: str,
    shape: int | Sequence[int] | None = None,
    dtype: object = None,
    *,
    offset: int = 0,
    mode: Mode = "ro",
    owner: bool = False,
    service: Service | None = None,
    as_: Library = "shmtensor",
) -> Any:
    """Return a tensor over POSIX shared memory that any program has made.

    The memory says nothing of dtype and shape: both must be what its maker wrote. The tensor
    keeps the memory mapped, whatever becomes of the name. **A program that makes the memory smaller
    later** takes the pages away from all who have mapped them: reading or writing there ends a
    process by SIGBUS.

    Args:
        name: The name, with its slash.
        shape: A number or a sequence of numbers. None: one dimension, with all elements that are
            there.
        dtype: As in `create`.
        offset: Where the first element begins, in bytes; a multiple of the element's size.
        mode: ``"ro"``: operators that write raise RuntimeError, and the kernel stops other stores;
            torch has no read-only tensors, so there a write ends the process. ``"rw"``: everybody
            who has mapped the memory sees writes. ``"cow"``: writes stay in this process; pages
            that it has not written show later writes of others.
        owner: Make this process an owner of the name, as `create` does. Only with ``"rw"``.
        service: As in `create`; only with *owner*.
        as_: As in `create`.

    Returns:
        A contiguous tensor or array of *shape*. With ``"rw"`` it travels through queues without
        being copied as long as the name is there, otherwise as a copy.

    Raises:
        FileNotFoundError: There is no such name.
        PermissionError: This user may not read it, or not write to it with ``"rw"``.
        TypeError: The library has no such dtype.
        ValueError: The memory has fewer bytes than *shape* needs; the name is that of a folder or a
            pipe; the name or another argument is none. With *owner*, also as in `create`.
        RuntimeError: *shape* has more than 64 sizes.
        MemoryError: There are no addresses left to map it.
        ManagerError: With *owner*, the service cannot be reached.
        ModuleNotFoundError: *as_* is ``"torch"``, and torch is not installed.
    """
    _names.check(name)
    _libraries.check_library(as_)
    if mode not in _FLAGS:
        raise ValueError(f"mode must be one of {tuple(_FLAGS)}, got {mode!r}")
    if owner and mode != "rw":
        raise ValueError(f"an owner opens with mode='rw', got mode={mode!r}")
    if service is not None and not owner:
        raise ValueError("open(): a service is named with owner=True only")
    remover = _names.check_service(service, not owner)
    ours, theirs = _libraries.dtype_of(dtype, as_)
    offset = operator.index(offset)
    if offset < 0 or offset % ours.itemsize != 0:
        raise ValueError(
            f"offset must be a multiple of {ours.itemsize}, the bytes of an element, got {offset}"
        )
    wanted = None if shape is None else _sizes("open()", shape)
    itemsize = _libraries.itemsize_of(ours, theirs)
    with _names.opened_file(name, mode == "rw") as fd:
        sizes = _fitting(name, os.fstat(fd).st_size, offset, wanted, itemsize)
        nbytes = offset + math.prod(sizes) * itemsize
        ref = _c.map_file(_names.path_of(name), nbytes, _FLAGS[mode], fd)
        shown = _libraries.over(UntypedStorage._own(ref), sizes, ours, theirs, as_, offset)
        # At last: an owner that fails would leave, and take the name with it.
        if remover is not None:
            _names.own(remover, ref, fd, name, is_new=False)
    return shown


def _fitting(
    name: str, size: int, offset: int, sizes: tuple[int, ...] | None, itemsize: int
) -> tuple[int, ...]:
    """Return the sizes, if memory of *size* bytes has so many elements behind *offset*."""
    if size == 0:
        raise ValueError(f"{name} has 0 bytes: its maker has not given it a size yet")
    if sizes is None:
        if size <= offset or (size - offset) % itemsize != 0:
            raise ValueError(
                f"{name} has {size} bytes, which are no whole elements of {itemsize} bytes behind "
                f"offset {offset}; give a shape"
            )
        return ((size - offset) // itemsize,)
    nbytes = math.prod(sizes) * itemsize
    if nbytes == 0:
        raise ValueError(f"open(): memory has at least one byte, got shape {sizes}")
    if offset + nbytes > size:
        raise ValueError(
            f"{name} has {size} bytes, and shape {sizes} with elements of {itemsize} bytes needs "
            f"{offset + nbytes}" + (f" with offset {offset}" if offset else "")
        )
    return sizes


def unlink(name: str, *, missing_ok: bool = False) -> None:
    """Remove the name. Programs that have the memory mapped keep it.

    Args:
        name: The name, with its slash.
        missing_ok: Raise nothing if there is no such name.

    Raises:
        FileNotFoundError: There is no such name.
        PermissionError: It is another user's.
        ValueError: It is no name, or that of a folder.
    """
    _names.check(name)
    try:
        with _names.errors_of("unlink()", name):
            _names.posix_ipc.unlink_shared_memory(name)
    except FileNotFoundError:
        if not missing_ok:
            raise
    except OSError as error:
        if error.errno not in (errno.EISDIR, errno.EPERM) or not os.path.isdir(
            _names.path_of(name)
        ):
            raise
        raise ValueError(f"{name} is no shared memory: it is a folder") from None


def exists(name: str) -> bool:
    """Whether there is shared memory of this name.

    Raises:
        ValueError: It is no name.
    """
    _names.check(name)
    try:
        return stat.S_ISREG(os.lstat(_names.path_of(name)).st_mode)
    except FileNotFoundError:
        return False


def list() -> builtins.list[Entry]:
    """Return the shared memory of all programs and users, sorted by name; no semaphores."""
    found = []
    with os.scandir(_names.FOLDER) as files:
        for file in files:
            try:
                facts = file.stat(follow_symlinks=False)
            except FileNotFoundError:  # it was removed meanwhile
                continue
            if stat.S_ISREG(facts.st_mode) and not file.name.startswith(_SEMAPHORES):
                bits = stat.S_IMODE(facts.st_mode)
                found.append(Entry("/" + file.name, facts.st_size, bits, facts.st_uid))
    return sorted(found)
