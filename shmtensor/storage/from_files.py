"""Storages with what is in a file: mapped in one of three modes, or read."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from typing import IO, Any

from shmtensor import _C
from shmtensor._boundary import storage as _c
from shmtensor.storage.untyped import UntypedStorage

__all__ = [
    "check_mode",
    "mapped",
    "open_descriptor",
    "open_regular",
    "own_part",
    "read",
    "replaced",
    "tensor_over",
]

_MODES = ("r", "c", "r+", None)


def check_mode(mode: str | None, shared: bool) -> str | None:
    """Return how to bring a file in: a mode of mapping, or None to read it.

    Raises:
        ValueError: There is no such mode, or it does not go with *shared*.
    """
    if mode not in _MODES:
        raise ValueError(f"mode must be one of 'r', 'c', 'r+' and None, got {mode!r}")
    if shared and mode not in ("c", None):
        raise ValueError(f"shared=True reads the file into shared memory, mode {mode!r} maps it")
    return None if shared else mode


def open_descriptor(path: str | os.PathLike[str], flags: int) -> int:
    """Open a file and return its descriptor; an ``opener`` for `open`.

    The path may lead to a pipe or a device, which waits for its other end when
    it is opened or read. Every path that comes from the program or from another process is opened
    by this, by `shmt__os_file_map`, or looked at in the same way.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is a device or a pipe.
    """
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    kind = os.fstat(fd).st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):  # `open` itself refuses a directory
        return fd
    os.close(fd)
    raise ValueError(f"{os.fspath(path)}: not a regular file")


@contextlib.contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], int]]:
    """Open a file without a buffer; yields it with its size.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is a device or a pipe.
    """
    with open(path, "rb", buffering=0, opener=open_descriptor) as file:
        yield file, os.fstat(file.fileno()).st_size


def mapped(file: IO[bytes], begin: int, nbytes: int, mode: str) -> tuple[UntypedStorage, int]:
    """Map *nbytes* of a file from *begin* on.

    Args:
        file: The file, from `open_regular`. That very file is mapped, not another that has got its
            name meanwhile.
        begin: Where the bytes begin.
        nbytes: How many there are, at least one.
        mode: ``"r"``: read-only. ``"c"``: writes stay in this process. ``"r+"``: writes reach the
            file, and the storage is over that file in the processes that it is sent to.

    Returns:
        A storage, and the offset of the bytes in it.

    Raises:
        RuntimeError: The file cannot be opened, is too small, or was replaced.
    """
    flags = {"r": 0, "c": _c.FILE_WRITABLE, "r+": _c.FILE_WRITABLE | _c.FILE_SHARED}[mode]
    whole = _c.map_file(file.name, begin + nbytes, flags, file.fileno())
    if mode == "r+":
        # The whole beginning: who receives the storage maps as much.
        return UntypedStorage._own(whole), begin
    return UntypedStorage._own(_c.part(whole, begin, nbytes, own=True)), 0


def own_part(storage: UntypedStorage, begin: int, nbytes: int) -> UntypedStorage:
    """Return a part of a file's storage that nothing else shows; when sent, it moves alone."""
    return UntypedStorage._own(_c.part(storage._ref, begin, nbytes, own=True))


def read(file: IO[bytes], nbytes: int, shared: bool) -> UntypedStorage:
    """Read the next bytes of a file into new memory, with nothing in between.

    Args:
        file: A file with ``readinto``.
        nbytes: How many bytes.
        shared: Into shared memory.

    Raises:
        EOFError: The file ends before.
    """
    if shared:
        storage: UntypedStorage = _C.empty(nbytes, dtype=_C.uint8, shared=True).untyped_storage()
    else:
        storage = UntypedStorage(nbytes)
    done, view = 0, storage._view()
    while done < nbytes:
        count = file.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError(f"the file ends after {done} of {nbytes} bytes")
        done += count
    return storage


def tensor_over(
    storage: UntypedStorage, offset: int, dtype: Any, shape: Sequence[int], strides: Sequence[int]
) -> Any:
    """Return a tensor of this geometry over the elements from byte *offset* of a storage."""
    return _C.empty(0, dtype=dtype).set_(storage, offset // dtype.itemsize, shape, strides)


#: How many characters of a name are in the one that the file has while it is written. Each takes up
#: to four bytes, and some file systems take no more than 143 for a name.
_KEPT_CHARACTERS = 30


def _place_of(path: str | os.PathLike[str]) -> str:
    """Return where a file is to be put for *path*: behind its links.

    Raises:
        OSError: It cannot be looked at, or is a directory.
        ValueError: It is a device or a pipe.
    """
    name = os.fsdecode(path)
    try:
        kind = os.stat(name).st_mode
    except FileNotFoundError:
        if not os.path.basename(name):  # nothing, or a directory that is missing
            raise
        return os.path.realpath(name)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(kind):
        raise ValueError(f"{name}: not a regular file")
    return os.path.realpath(name)


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file to write that takes the place of *path* at the end, unless an error is raised.

    A link stays, and the file that it leads to is replaced.

    Raises:
        OSError: Writing failed; an existing file is as it was.
        ValueError: There is a device or a pipe.
    """
    place = _place_of(path)
    folder, base = os.path.split(place)
    aside = os.path.join(folder, f".{base[:_KEPT_CHARACTERS]}.{secrets.token_hex(8)}")
    try:
        with open(aside, "xb") as file:  # with the rights of a file that any program makes here
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(aside)
