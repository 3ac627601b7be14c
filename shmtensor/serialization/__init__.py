"""Saves objects with tensors to files, and loads them: `save` and `load`.

A file is a zip archive without compression. ``data.pkl`` is a pickle in which storages are
references. Each storage is one record ``data/<key>``, aligned to 64 bytes, so that
``load(mmap=True)`` can map it. The layout and the names in it are torch's, so each package reads
what the other wrote. torch's older format, pickles and bytes one after the other, is read and
written too. By default `load` calls only the functions that rebuild tensors and plain containers,
so a file from elsewhere can do no harm; ``weights_only=False`` unpickles everything.

Whole modules are saved under this package's names. In torch's files, modules are loaded as ours.
"""

from __future__ import annotations

import collections
import contextlib
import io
import os
import pickle
import pickletools
import warnings
from collections.abc import Iterable, Iterator
from typing import IO, Any, TypeAlias

from shmtensor.serialization._archive import (
    Archive,
    LoadEndianness,
    MapLocation,
    default_order,
    default_restore_location,
    read_legacy,
)
from shmtensor.serialization._archive import FromCaller as _FromCaller
from shmtensor.serialization._budget import Budget
from shmtensor.serialization._names import is_blocked, name_of_today, readable, user_globals
from shmtensor.serialization._unpickling import load_any, load_weights
from shmtensor.serialization._writing import stem_of, write_archive, write_legacy
from shmtensor.storage.from_files import open_descriptor

__all__ = [
    "LoadEndianness",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_default_load_endianness",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
    "set_default_load_endianness",
]

FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]

_ZIP_HEAD = b"PK\3\4"


#: What the standard ``Unpickler`` takes besides the file.
_UNPICKLER_ARGUMENTS = {"buffers", "encoding", "errors", "fix_imports"}


class _OnlyWrites(io.RawIOBase):
    """A wrapper for a file object that needs only ``write``."""

    def __init__(self, f: Any) -> None:
        self._write = f.write
        self._flush = getattr(f, "flush", None)

    def write(self, data: Any) -> int:
        self._write(data)
        return memoryview(data).nbytes

    def flush(self) -> None:
        if self._flush is not None:
            self._flush()


#: Names that libraries import: what `load` takes for a device, and the protocol that `save` writes.
MAP_LOCATION: TypeAlias = MapLocation
DEFAULT_PROTOCOL = 2


@contextlib.contextmanager
def _opened(f: FileLike, mode: str) -> Iterator[IO[bytes]]:
    if isinstance(f, str | os.PathLike):
        with open(f, mode, opener=open_descriptor if mode == "rb" else None) as file:
            yield file
        return
    methods = {"rb": ("read", "readline", "seek", "tell"), "wb": ("write",)}[mode]
    missing = [name for name in methods if not hasattr(f, name)]
    if "seek" in missing or "tell" in missing:
        raise AttributeError(_unseekable(f"'{type(f).__name__}' object has no attribute 'seek'"))
    if missing:
        raise AttributeError(
            f"expected 'f' to be string, path, or a file-like object with a '{missing[0]}' "
            "attribute"
        )
    yield f if mode == "rb" else _OnlyWrites(f)  # type: ignore


def _unseekable(reason: str) -> str:
    return (
        f"{reason}. You can only torch.load from a file that is seekable. Please pre-load the data "
        "into a buffer like io.BytesIO and try to load from it instead."
    )


def save(
    obj: Any,
    f: FileLike,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object that contains tensors to a file.

    Args:
        obj: Any object that can be pickled. Tensors that share a storage share it again after
            `load`. The whole storage is written once, even if only a part of it is shown.
        f: A path or a writable file object.
        pickle_module: Its ``Pickler`` writes the object. With the standard one, torch can read
            whole modules too.
        pickle_protocol: Protocol of ``data.pkl``. Torch reads only 2 with ``weights_only=True``.
        _use_new_zipfile_serialization: False writes torch's older format.
        _disable_byteorder_record: True leaves the order of bytes out of the archive.

    Raises:
        OSError: Writing failed.
        pickle.PicklingError: Something in *obj* does not pickle.

    Source:
        torch.save.
    """
    with _opened(f, "wb") as file:
        if _use_new_zipfile_serialization:
            says_order = not _disable_byteorder_record
            write_archive(obj, file, stem_of(f), pickle_protocol, pickle_module, says_order)
        else:
            write_legacy(obj, file, pickle_protocol, pickle_module)
        file.flush()


def _is_archive(file: IO[bytes]) -> bool:
    """Whether a zip archive begins at the position of *file*.

    Raises:
        AttributeError, io.UnsupportedOperation: *file* cannot be positioned.
    """
    try:
        begin = file.tell()
        head = file.read(len(_ZIP_HEAD))
        file.seek(begin)
    except (AttributeError, OSError) as error:
        raise type(error)(_unseekable(str(error))) from None
    return head == _ZIP_HEAD


def _budget_of(file: IO[bytes]) -> Budget:
    """What a file that is not trusted may ask for; its position stays."""
    here = file.tell()
    file.seek(0, os.SEEK_END)
    budget = Budget(file.tell())
    file.seek(here)
    return budget


def _is_set(variable: str) -> bool:
    """Whether an environment variable says yes, in one of the ways that torch takes."""
    return os.environ.get(variable, "0").lower() in ("1", "y", "yes", "true")


def load(
    f: FileLike,
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read an object that `save` (or torch) wrote.

    Args:
        f: A path or a readable, seekable file object.
        map_location: The device of the storages: a device, a mapping of device names, or a function
            of a storage and a device name. None: the device from which they were saved.
        pickle_module: The module to unpickle with; not together with *weights_only*.
        weights_only: Refuse everything but tensors, plain containers and what `add_safe_globals`
            allows. None: True, unless a *pickle_module* is given, or the environment variable
            ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD`` is 1. Where ``TORCH_FORCE_WEIGHTS_ONLY_LOAD`` is 1,
            it is always True.
        mmap: Map the file privately instead of reading it; *f* must be a path.
        **pickle_load_args: For the unpickler; ``encoding`` is that of the strings of Python 2.

    Raises:
        RuntimeError: The file has another format, is damaged, or needs a device that does not
        exist. pickle.UnpicklingError: The file uses something that *weights_only* forbids.
        EOFError: The file is empty.

    Source:
        torch.load.
    """
    is_forced = _is_set("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    is_forbidden = _is_set("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if is_forced and is_forbidden:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` "
            "should be set, but both were set."
        )
    if is_forbidden and weights_only is None:
        warnings.warn(
            "Environment variable TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD detected, since the "
            "`weights_only` argument was not explicitly passed to `shmtensor.load`, forcing "
            "weights_only=False.",
            stacklevel=2,
        )
        weights_only = False
    if is_forced or weights_only is None:
        weights_only = is_forced or pickle_module is None
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError("f must be a file path in order to use the mmap argument")
    if weights_only and pickle_load_args:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
        if unknown := ", ".join(pickle_load_args.keys() - _UNPICKLER_ARGUMENTS):
            raise TypeError(f"load() got an unexpected keyword argument '{unknown}'")
    pickle_load_args.setdefault("encoding", "utf-8")

    budget = Budget(None)

    def read_pickle(file: IO[bytes], find_storage: Any) -> Any:
        if weights_only:
            return load_weights(file, find_storage, pickle_load_args["encoding"], budget)
        return load_any(file, find_storage, pickle_module or pickle, pickle_load_args)

    with _opened(f, "rb") as file:
        is_archive = _is_archive(file)
        if weights_only:
            budget = _budget_of(file)
        try:
            if is_archive:
                archive = Archive(file, bool(mmap), map_location, budget)
                loaded = read_pickle(archive.pickled(), archive.find_storage)
                file.seek(archive.end)  # where the next object may begin
                return loaded
            if mmap:
                raise RuntimeError(
                    "mmap can only be used with files saved with "
                    "`torch.save(_use_new_zipfile_serialization=True), please torch.save your "
                    "checkpoint with this option in order to use mmap."
                )
            return read_legacy(file, read_pickle, map_location)
        except _FromCaller as carried:
            raise carried.error from carried.error.__cause__


# --- the order of bytes -------------------------------------------------------------------------


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the order of bytes in which `load` reads archives that do not say theirs.

    Returns:
        None until `set_default_load_endianness` is called, which means little.
    """
    return default_order[0]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the order of bytes in which `load` reads archives that do not say theirs.

    Args:
        endianness: The order; None for the default.

    Raises:
        TypeError: It is something else.
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    default_order[0] = endianness


# --- what files may use -------------------------------------------------------------------------


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Allow these classes and functions in ``load(weights_only=True)``.

    Nothing of ``os``, ``posix``, ``nt`` and ``sys`` is read even then, and the names that every
    file may use keep their meaning.

    Args:
        safe_globals: Classes or functions, or pairs of one and its full name.
    """
    user_globals[:] = dict.fromkeys([*user_globals, *safe_globals])


def get_safe_globals() -> list[Any]:
    """Return the classes and functions that `add_safe_globals` has allowed."""
    return list(user_globals)


def clear_safe_globals() -> None:
    """Forget the classes and functions that `add_safe_globals` has allowed."""
    user_globals.clear()


class safe_globals:
    """Allow these classes and functions in ``load(weights_only=True)`` inside a ``with`` block.

    Args:
        safe_globals: As for `add_safe_globals`.

    Source:
        torch.serialization.safe_globals.
    """

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._items = list(safe_globals)

    def __enter__(self) -> None:
        add_safe_globals(self._items)

    def __exit__(self, *exception: object) -> None:
        user_globals[:] = [item for item in user_globals if item not in self._items]


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """Return the full names in an archive that ``load(weights_only=True)`` would refuse.

    Args:
        f: A path or a readable, seekable file object.

    Raises:
        ValueError: The file is not an archive. RuntimeError: It is damaged.

    Source:
        torch.serialization.get_unsafe_globals_in_checkpoint.
    """
    with _opened(f, "rb") as file:
        if not _is_archive(file):
            raise ValueError("Expected input to be a checkpoint returned by torch.save")
        data = Archive(file, False, "meta", _budget_of(file)).pickled()
    known = readable()
    unsafe: dict[str, None] = {}
    for module, name in _globals_in(data):
        full = f"{module}.{name}"
        if is_blocked(module) or full not in known:
            unsafe[full] = None
    return list(unsafe)


def _globals_in(data: IO[bytes]) -> Iterator[tuple[str, str]]:
    """Module and name of everything that a pickle looks up, as far as it can be read off."""
    protocol = 0
    memo: dict[int, Any] = {}
    #: The last two values, None where they are no texts.
    pushed: collections.deque[Any] = collections.deque([None, None], maxlen=2)
    argument: Any
    for opcode, argument, _ in pickletools.genops(data):
        if opcode.name == "PROTO":
            protocol = argument
        elif opcode.name in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if argument is None else argument] = pushed[-1]
        elif opcode.name in ("GET", "BINGET", "LONG_BINGET"):
            pushed.append(memo.get(argument))
        elif opcode.name in ("GLOBAL", "STACK_GLOBAL"):
            if opcode.name == "GLOBAL":
                module, _, name = argument.partition(" ")
            else:
                module, name = map(str, pushed)
            yield name_of_today(module, name) if protocol <= 2 else (module, name)
            pushed.append(None)
        elif opcode.stack_after:
            pushed.append(argument if isinstance(argument, str) else None)
