"""Tensors in files: `save` and `load`.

A file is a zip archive without compression, laid out as torch's: ``data.pkl``, in which a storage
is a reference, and one record ``data/<key>`` for each storage, aligned to 64 bytes, so that
``load(mmap=True)`` maps them. `load` also reads such archives written by torch. By default it
refuses to call anything but the functions that rebuild tensors and plain containers, so a file from
elsewhere can do no harm; ``weights_only=False`` unpickles whatever is there.
"""

from __future__ import annotations

import builtins
import collections
import contextlib
import io
import os
import pickle
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, TypeAlias

from shmtensor import _C
from shmtensor._pickling import (
    rebuild_meta_storage,
    rebuild_storage,
    rebuild_subclass,
    rebuild_tensor,
)
from shmtensor._tensor import Tensor
from shmtensor.storage import TypedStorage, UntypedStorage
from shmtensor.storage.typed import LEGACY_CLASSES, _rebuild_typed

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "safe_globals",
    "save",
]

FileLike: TypeAlias = "str | os.PathLike[str] | IO[bytes]"
MapLocation: TypeAlias = "Callable[[UntypedStorage, str], Any] | Any | dict[str, str] | None"

_ALIGNMENT = 64

# --- files: writing ---------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    """Leaves the storages out; they become records of the archive."""

    def __init__(self, file: IO[bytes], protocol: int) -> None:
        super().__init__(file, protocol=protocol)
        self.keys: dict[int, str] = {}
        self.storages: list[UntypedStorage] = []

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, UntypedStorage):
            return None
        key = self.keys.get(obj._cdata)
        if key is None:
            key = self.keys[obj._cdata] = str(len(self.storages))
            self.storages.append(obj)
        return ("storage", "untyped", key, obj.device.type, len(obj))


def _write_record(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    """Add a record whose bytes begin at a multiple of 64."""
    info = zipfile.ZipInfo(name)  # a fixed date: equal contents give equal files
    assert archive.fp is not None
    # An entry's head is 30 bytes, its name and its extra field, which is id, length and padding.
    begin = archive.fp.tell() + 30 + len(name.encode()) + 4
    padding = -begin % _ALIGNMENT
    if memoryview(data).nbytes >= zipfile.ZIP64_LIMIT:
        padding = (padding - 20) % _ALIGNMENT  # zipfile puts a field of 20 bytes in front
    info.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
    archive.writestr(info, data)


@contextlib.contextmanager
def _opened(f: FileLike, mode: str) -> Iterator[IO[bytes]]:
    if isinstance(f, str | os.PathLike):
        with open(f, mode) as file:
            yield file
    else:
        yield f


def save(
    obj: Any,
    f: FileLike,
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object with tensors in it to a file.

    Args:
        obj: Anything that pickles. Tensors that share a storage share it again after `load`; the
            whole storage is written once, also when only a part of it is shown.
        f: A path or a writable file object.
        pickle_module: Accepted for torch's sake; the standard one is used.
        pickle_protocol: Protocol of ``data.pkl``.
        _use_new_zipfile_serialization: Accepted for torch's sake; the format is always the archive.

    Raises:
        OSError: Writing failed.
        pickle.PicklingError: Something in *obj* does not pickle.

    Source:
        torch.save.
    """
    if isinstance(f, str | os.PathLike):
        stem = os.path.splitext(os.path.basename(os.fspath(f)))[0] or "archive"
    else:
        stem = "archive"
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, pickle_protocol)
    pickler.dump(obj)
    with _opened(f, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        _write_record(archive, f"{stem}/data.pkl", buffer.getvalue())
        _write_record(archive, f"{stem}/byteorder", sys.byteorder.encode())
        for key, storage in enumerate(pickler.storages):
            if storage.device.type != "meta":
                _write_record(archive, f"{stem}/data/{key}", storage._view())
        _write_record(archive, f"{stem}/version", b"3\n")


# --- files: reading ---------------------------------------------------------------------------

_user_globals: list[Any] = []


def add_safe_globals(safe_globals: Iterable[Any]) -> None:
    """Let ``load(weights_only=True)`` use these classes and functions.

    Args:
        safe_globals: Classes or functions, or pairs of one and its full name.
    """
    _user_globals.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """Return what `add_safe_globals` was given."""
    return list(_user_globals)


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` was given."""
    _user_globals.clear()


class safe_globals:
    """Let ``load(weights_only=True)`` use these classes and functions inside a ``with`` block.

    Args:
        safe_globals: As of `add_safe_globals`.

    Source:
        torch.serialization.safe_globals.
    """

    def __init__(self, safe_globals: Iterable[Any]) -> None:
        self._items = list(safe_globals)

    def __enter__(self) -> None:
        add_safe_globals(self._items)

    def __exit__(self, *exception: object) -> None:
        for item in self._items:
            _user_globals.remove(item)


def _rebuild_torch_tensor(
    storage: Any,
    storage_offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool = False,
    backward_hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    """torch._utils._rebuild_tensor_v2, whose storage knows the dtype."""
    return rebuild_tensor(
        storage.untyped(),
        storage.dtype,
        storage_offset,
        size,
        stride,
        requires_grad,
        backward_hooks,
        **{bit: bool(set_) for bit, set_ in (metadata or {}).items() if bit in ("conj", "neg")},
    )


def _rebuild_torch_tensor_of_dtype(
    storage: Any,
    storage_offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    backward_hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """torch._utils._rebuild_tensor_v3, for the dtypes without an old-style storage class."""
    return rebuild_tensor(
        storage.untyped(), dtype, storage_offset, size, stride, requires_grad, backward_hooks
    )


def _rebuild_torch_parameter(
    data: Tensor, requires_grad: bool, backward_hooks: Any = None
) -> Tensor:
    from shmtensor.nn import Parameter  # nn stands above this module

    return Parameter(data, requires_grad)


def _known_globals() -> dict[str, Any]:
    """Full name -> what a file may use without harm."""
    from shmtensor import nn  # nn stands above this module

    known: dict[str, Any] = {
        "collections.OrderedDict": collections.OrderedDict,
        "collections.Counter": collections.Counter,
        "collections.deque": collections.deque,
        "torch._utils._rebuild_tensor_v2": _rebuild_torch_tensor,
        "torch._utils._rebuild_tensor_v3": _rebuild_torch_tensor_of_dtype,
        "torch._utils._rebuild_parameter": _rebuild_torch_parameter,
        "torch.Size": _C.Size,
        "torch.device": _C.device,
        "torch._tensor._rebuild_from_type_v2": _rebuild_from_torch_type,
        "torch.nn.parameter.Parameter": nn.Parameter,
        "torch.Tensor": Tensor,
        "torch.storage.UntypedStorage": "untyped",
    }
    for name in (
        "set",
        "frozenset",
        "bytearray",
        "complex",
        "slice",
        "range",
        "int",
        "float",
        "bool",
        "str",
        "bytes",
        "list",
        "tuple",
        "dict",
    ):
        known[f"builtins.{name}"] = known[f"__builtin__.{name}"] = getattr(builtins, name)
    own = (
        rebuild_storage,
        rebuild_meta_storage,
        rebuild_tensor,
        rebuild_subclass,
        Tensor,
        UntypedStorage,
        TypedStorage,
        nn.Parameter,
        nn.Buffer,
        _C.Size,
        _C.device,
        nn.parameter._rebuild_parameter,
    )
    for item in own:
        known[f"{item.__module__}.{item.__qualname__}"] = item
    for package in ("torch", "shmtensor", "shmtensor._C"):
        for name, value in vars(_C).items():
            if isinstance(value, _C.dtype | _C.layout | _C.memory_format):
                known[f"{package}.{name}"] = value
        for name, legacy in LEGACY_CLASSES.items():
            known[f"{package}.{name}"] = legacy
        known[f"{package}.Size"] = _C.Size
        known[f"{package}.device"] = _C.device
        known[f"{package}.Tensor"] = Tensor
    known["_codecs.encode"] = _encode
    known["shmtensor.storage.typed._rebuild_typed"] = _rebuild_typed
    for item in _user_globals:
        value, name = item if isinstance(item, tuple) else (item, "")
        known[name or f"{value.__module__}.{value.__qualname__}"] = value
    return known


def _rebuild_from_torch_type(
    function: Callable[..., Any], kind: type[Tensor], arguments: tuple[Any, ...], state: Any
) -> Tensor:
    """torch._tensor._rebuild_from_type_v2."""
    made: Tensor = function(*arguments)
    if isinstance(state, dict) and state:
        made.__dict__.update(state)
    return made


def _encode(value: str, encoding: str = "latin1") -> bytes:
    """_codecs.encode, which protocol 2 writes bytes with; only for that encoding."""
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"encoding '{encoding}' is not allowed in a file")
    return value.encode("latin1")


class _Unpickler(pickle.Unpickler):
    """Finds storages in the archive, and only known globals unless told otherwise."""

    def __init__(
        self, data: bytes, find_storage: Callable[[tuple[Any, ...]], Any], weights_only: bool
    ) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8")
        self._find_storage = find_storage
        self._weights_only = weights_only
        self._known = _known_globals()

    def find_class(self, module: str, name: str) -> Any:
        found = self._known.get(f"{module}.{name}")
        if found is not None:
            return found
        if self._weights_only:
            raise pickle.UnpicklingError(
                f"Weights only load failed: the file uses {module}.{name}, which is not one of the "
                "safe globals. If you trust the file, use add_safe_globals([...]) for it, or "
                "load(..., weights_only=False), which can run code from the file."
            )
        return super().find_class(module, name)

    def persistent_load(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
            raise pickle.UnpicklingError(f"unknown reference in the file: {pid!r}")
        return self._find_storage(pid)


class _Archive:
    """The records of a file that `save` or torch wrote."""

    def __init__(self, file: IO[bytes], path: str | None, map_location: MapLocation) -> None:
        try:
            self._zip = zipfile.ZipFile(file)
        except zipfile.BadZipFile as error:
            raise RuntimeError(
                f"load(): {path or 'the file'} is no archive of save(): {error}"
            ) from None
        names = [n for n in self._zip.namelist() if n.endswith("data.pkl")]
        if len(names) != 1:
            raise RuntimeError(
                f"load(): {path or 'the file'} holds {len(names)} records data.pkl, not 1"
            )
        self._stem = names[0].removesuffix("data.pkl")
        self._file = file
        self._map_location = map_location
        self._mapped = (
            None
            if path is None
            else UntypedStorage.from_file(path, shared=False, nbytes=os.path.getsize(path))
        )
        order = f"{self._stem}byteorder"
        has_order = order in self._zip.namelist()
        self._foreign = has_order and self._zip.read(order).decode() != sys.byteorder
        self._loaded: dict[str, UntypedStorage] = {}

    def pickled(self) -> bytes:
        """The record data.pkl."""
        return self._zip.read(f"{self._stem}data.pkl")

    def find_storage(self, pid: tuple[Any, ...]) -> Any:
        """The storage of a reference; typed for torch's."""
        _, kind, key, location, size = pid[:5]
        dtype = getattr(kind, "dtype", None)
        nbytes = size * dtype.itemsize if dtype is not None else size
        storage = self._loaded.get(key)
        if storage is None:
            storage = self._loaded[key] = self._place(
                self._read(key, nbytes, location, dtype), location
            )
        if nbytes > len(storage):
            raise RuntimeError(
                f"load(): record data/{key} has {len(storage)} bytes, but {nbytes} are referred to"
            )
        if dtype is None:
            return storage
        return TypedStorage(wrap_storage=storage, dtype=dtype, _internal=True)

    def _read(self, key: str, nbytes: int, location: str, dtype: Any) -> UntypedStorage:
        if location == "meta":
            return UntypedStorage(nbytes, device="meta")
        name = f"{self._stem}data/{key}"
        try:
            info = self._zip.getinfo(name)
        except KeyError:
            raise RuntimeError(f"load(): record {name} is missing") from None
        if self._mapped is not None and info.compress_type == zipfile.ZIP_STORED:
            begin = self._begin(info)
            storage: UntypedStorage = self._mapped[begin : begin + info.file_size]
            if begin % 16:  # the widest element wants its address to be a multiple of its size
                storage = storage.clone()
        else:
            storage = UntypedStorage(info.file_size)
            with self._zip.open(info) as record:
                storage._read_from(record, is_real_file=False)
        if self._foreign and dtype is not None:
            storage.byteswap(dtype)
        return storage

    def _begin(self, info: zipfile.ZipInfo) -> int:
        """Where a record's bytes begin: behind the name and extra field of its local head."""
        self._file.seek(info.header_offset + 26)
        head = self._file.read(4)
        return (
            info.header_offset
            + 30
            + int.from_bytes(head[:2], "little")
            + int.from_bytes(head[2:], "little")
        )

    def _place(self, storage: UntypedStorage, location: str) -> UntypedStorage:
        wanted = self._map_location
        if isinstance(wanted, dict):
            wanted = wanted.get(location)
        elif callable(wanted) and not isinstance(wanted, _C.device):
            placed = wanted(storage, location)
            return storage if placed is None else placed.untyped()
        if wanted is None:
            return storage
        device = _C.device(wanted)
        return (
            UntypedStorage(len(storage), device="meta") if device.type == "meta" else storage.cpu()
        )


def load(
    f: FileLike,
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read an object that `save` (or torch) wrote.

    Args:
        f: A path or a readable, seekable file object.
        map_location: Where storages go: a device, a map from device names, or a function of a
            storage and a device name. Storages of other devices come to the CPU.
        pickle_module: Accepted for torch's sake.
        weights_only: Refuse everything but tensors, plain containers and `add_safe_globals`.
        mmap: Map the file privately instead of reading it; *f* must be a path.
        **pickle_load_args: Accepted for torch's sake.

    Raises:
        RuntimeError: The file is no such archive, or it is damaged.
        pickle.UnpicklingError: The file uses something that *weights_only* forbids.

    Source:
        torch.load.
    """
    path = os.fspath(f) if isinstance(f, str | os.PathLike) else None
    if mmap and path is None:
        raise ValueError("f must be a file path in order to use the mmap argument")
    with _opened(f, "rb") as file:
        archive = _Archive(file, path if mmap else None, map_location)
        return _Unpickler(archive.pickled(), archive.find_storage, weights_only).load()
