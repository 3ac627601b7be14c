"""Checkpoints in the safetensors format, read without copying.

A file is a length (8 bytes, little-endian), a JSON object of that length, and the bytes of the
tensors. The object maps a name to dtype, shape and the range of its bytes; ``__metadata__`` may
hold strings. Loading maps the file: pages are read when they are touched, and a write to a loaded
tensor reaches the file only in mode ``"r+"``. Nothing in a file is executed.

The reader trusts nothing: the header's size, every range, the product of every shape, names
given twice, overlaps and holes are checked before a tensor is made.

Source: the format's description at github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np

import shmtensor
from shmtensor._core._signal_handlers import raise_of_handler
from shmtensor._core._tensor import Tensor
from shmtensor.errors import ShmTensorError
from shmtensor.storage import from_files

__all__ = [
    "OpenFile",
    "SafetensorsError",
    "load",
    "load_file",
    "open_file",
    "read_metadata",
    "save",
    "save_file",
]

MAX_HEADER_BYTES = 100_000_000

# name in the file, dtype's name, NumPy type of the same width
_DTYPES: tuple[tuple[str, str, str], ...] = (
    ("BOOL", "bool", "?"),
    ("U8", "uint8", "<u1"),
    ("I8", "int8", "<i1"),
    ("I16", "int16", "<i2"),
    ("U16", "uint16", "<u2"),
    ("F16", "float16", "<f2"),
    ("BF16", "bfloat16", "<u2"),
    ("I32", "int32", "<i4"),
    ("U32", "uint32", "<u4"),
    ("F32", "float32", "<f4"),
    ("F64", "float64", "<f8"),
    ("I64", "int64", "<i8"),
    ("U64", "uint64", "<u8"),
    ("C64", "complex64", "<c8"),
)
_BY_FILE_NAME = {row[0]: row for row in _DTYPES}
_BY_DTYPE_NAME = {row[1]: row for row in _DTYPES}


class SafetensorsError(ShmTensorError, ValueError):
    """A file or buffer is no valid safetensors data, or a tensor has no place in the format."""


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _row(name: str, tensor: Tensor) -> tuple[str, str, str]:
    row = _BY_DTYPE_NAME.get(_dtype_name(tensor))
    if row is None:
        raise SafetensorsError(f"{name}: safetensors has no dtype {tensor.dtype}")
    return row


# --- writing -----------------------------------------------------------------------------------


def _array(tensor: Tensor, code: str) -> np.ndarray[Any, np.dtype[Any]]:
    """The tensor's values as a contiguous little-endian array."""
    dense = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if _dtype_name(tensor) == "bfloat16":
        dense = dense.view(shmtensor.uint16)
    return np.ascontiguousarray(dense.numpy(), dtype=np.dtype(code))


def _layout(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None
) -> tuple[bytes, list[str]]:
    """The header, and the names in the order of their bytes.

    Wide elements come first, so that every tensor lies at a multiple of its element size.
    """
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name == "__metadata__":
            raise SafetensorsError(f"a tensor can not be named {name!r}")
        if not isinstance(tensor, Tensor):
            raise SafetensorsError(f"{name}: expected a Tensor, got {type(tensor).__name__}")
    names = sorted(tensors, key=lambda n: (-tensors[n].element_size(), n))
    header: dict[str, Any] = {}
    if metadata:
        for key, value in metadata.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise SafetensorsError(
                    f"metadata must map strings to strings, got {key!r}: {value!r}"
                )
        header["__metadata__"] = dict(metadata)
    offset = 0
    for name in names:
        tensor = tensors[name]
        nbytes = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _row(name, tensor)[0],
            "shape": [int(n) for n in tensor.shape],
            "data_offsets": [offset, offset + nbytes],
        }
        offset += nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, names


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The file's content as bytes; arguments as ``save_file``."""
    head, names = _layout(tensors, metadata)
    parts = [_array(tensors[n], _row(n, tensors[n])[2]).tobytes() for n in names]
    return b"".join([head, *parts])


def save_file(
    tensors: Mapping[str, Tensor],
    filename: str | os.PathLike[str],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to a file, which appears complete or not at all.

    Args:
        tensors: Name to tensor; any strides. Tensors that share memory are written one by one.
        filename: Where to; replaced if it exists, also behind a link.
        metadata: Strings to keep beside the tensors.

    Raises:
        SafetensorsError: A name, dtype or metadata entry the format has no place for.
        ValueError: There is a pipe or a device at *filename*.
        OSError: Writing failed; an existing file is as it was.
    """
    head, names = _layout(tensors, metadata)
    with from_files.replaced(filename) as file:
        file.write(head)
        for name in names:
            array = _array(tensors[name], _row(name, tensors[name])[2])
            if array.size:
                file.write(array.reshape(-1).view(np.uint8).data)


# --- reading -----------------------------------------------------------------------------------


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise SafetensorsError(f"the name {key!r} occurs twice in the header")
        result[key] = value
    return result


def _short_int(digits: str) -> int:
    """An integer of a header; reading one of many digits would take long."""
    if len(digits) > 20:
        raise SafetensorsError(f"header has an integer of {len(digits)} digits")
    return int(digits)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_entry(name: str, entry: Any) -> tuple[str, list[int], int, int]:
    """``(dtype, shape, begin, end)`` of one header entry."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise SafetensorsError(
            f"{name}: expected dtype, shape and data_offsets, got {entry!r:.200}"
        )
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BY_FILE_NAME:
        raise SafetensorsError(f"{name}: unknown dtype {dtype!r:.200}")
    if not isinstance(shape, list) or not all(map(_is_size, shape)) or len(shape) > 64:
        raise SafetensorsError(f"{name}: shape must be at most 64 sizes, got {shape!r:.200}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise SafetensorsError(f"{name}: data_offsets must be two sizes, got {offsets!r:.200}")
    begin, end = offsets
    itemsize = np.dtype(_BY_FILE_NAME[dtype][2]).itemsize
    nbytes = math.prod(shape) * itemsize
    if end - begin != nbytes:
        raise SafetensorsError(
            f"{name}: {dtype} of shape {shape} takes {nbytes} bytes, but data_offsets "
            f"[{begin}, {end}] say {end - begin}"
        )
    # Sizes whose product is 0 because of one of them must not hide others that are too large.
    if math.prod(max(n, 1) for n in shape) * itemsize >= 2**63:
        raise SafetensorsError(f"{name}: shape {shape} has too many elements")
    return dtype, shape, begin, end


def _parse(data: Any) -> tuple[dict[str, Any], dict[str, str], int]:
    """Checked header entries, metadata, and where the data begins."""
    total = len(data)
    if total < 8:
        raise SafetensorsError(f"header too small: {total} bytes, at least 8 are needed")
    n_header = int.from_bytes(data[:8], "little")
    if n_header > MAX_HEADER_BYTES:
        raise SafetensorsError(f"header too large: {n_header} bytes, at most {MAX_HEADER_BYTES}")
    if n_header > total - 8:
        raise SafetensorsError(f"header of {n_header} bytes does not fit in {total} bytes")
    try:
        header = json.loads(
            bytes(data[8 : 8 + n_header]),
            object_pairs_hook=_no_duplicates,
            parse_int=_short_int,
        )
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise SafetensorsError(f"header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise SafetensorsError(f"header is not a JSON object but {type(header).__name__}")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise SafetensorsError(f"__metadata__ must map strings to strings, got {metadata!r:.200}")
    entries = {name: _check_entry(name, entry) for name, entry in header.items()}
    start = 8 + n_header
    at = 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != at:
            what = "overlaps the tensor before" if begin < at else "leaves a hole before it"
            raise SafetensorsError(f"{name}: data_offsets [{begin}, {end}] {what}, expected {at}")
        at = end
    if start + at != total:
        raise SafetensorsError(
            f"the header describes {at} bytes of data, there are {total - start}"
        )
    return entries, metadata, start


def _tensor(
    storage: Any, start: int, name: str, entry: tuple[str, list[int], int, int], *, part_of: Any
) -> Tensor:
    """The tensor of one header entry; *start* is where the data begins in *storage*.

    *part_of* makes the storage that it gets of that, or is None where it shows the whole.
    """
    dtype_name, shape, begin, end = entry
    dtype: Any = getattr(shmtensor, _BY_FILE_NAME[dtype_name][1])
    strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    if begin == end:
        return shmtensor.empty(shape, dtype=dtype)
    if (start + begin) % dtype.itemsize:  # kernels need aligned elements
        if storage.filename is not None:
            raise SafetensorsError(
                f"{storage.filename}: {name}: begins at byte {start + begin}, which is not a "
                f"multiple of {dtype.itemsize}: writes to it cannot reach the file"
            )
        part: Any = shmtensor.empty(0, dtype=shmtensor.uint8)
        part.set_(storage, start + begin, [end - begin], [1])
        return part.clone().view(dtype).reshape(shape)  # type: ignore[no-any-return]
    if part_of is not None:
        storage, start, begin = part_of(storage, start + begin, end - begin), 0, 0
    tensor: Tensor = from_files.tensor_over(storage, start + begin, dtype, shape, strides)
    return tensor


def tensors_of(storage: Any, *, apart: bool = False) -> dict[str, Tensor]:
    """Tensors over a storage that holds a file's content, which they keep alive.

    Args:
        storage: An untyped storage.
        apart: Give each tensor a storage of its own, over its part of the memory: one that is sent
            to another process does not take the others along.

    Raises:
        SafetensorsError: It is no valid safetensors data.
    """
    return OpenFile(storage, apart=apart)._all()


def _shown_part(storage: Any, begin: int, nbytes: int) -> Any:
    return storage[begin : begin + nbytes]


class OpenFile(Mapping[str, Tensor]):
    """The tensors of a file by name, each made at its first use. `open_file` makes one.

    Tensors keep the file's memory; the object itself need not be kept or closed.

    Attributes:
        metadata: The strings that were saved beside the tensors.
    """

    def __init__(self, storage: Any, *, apart: bool) -> None:
        if sys.byteorder != "little":
            raise SafetensorsError("safetensors data can only be mapped on a little-endian machine")
        self._storage, self._apart = storage, apart
        self._entries, self.metadata, self._start = _parse(storage._view())

    def __getitem__(self, name: str) -> Tensor:
        return self._make(name, _shown_part if self._apart else None)

    def _all(self) -> dict[str, Tensor]:
        """All tensors. Each is made once, so nothing else shows its part."""
        part_of = from_files.own_part if self._apart else None
        return {name: self._make(name, part_of) for name in self}

    def _make(self, name: str, part_of: Any) -> Tensor:
        return _tensor(self._storage, self._start, name, self._entries[name], part_of=part_of)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"OpenFile({len(self)} tensors, {len(self._storage)} bytes)"

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without making it."""
        return tuple(self._entries[name][1])


def load(data: bytes) -> dict[str, Tensor]:
    """Tensors of a file's content, with their own memory.

    Raises:
        SafetensorsError: *data* is no valid safetensors data.
    """
    return tensors_of(shmtensor.UntypedStorage(data), apart=True)


def open_file(
    filename: str | os.PathLike[str], mode: str | None = "c", *, shared: bool = False
) -> OpenFile:
    """Open a file and make its tensors one by one; the arguments are those of `load_file`."""
    mode = from_files.check_mode(mode, shared)
    with from_files.open_regular(filename) as (file, _):
        return _open(file, mode, shared)


def _open(file: IO[bytes], mode: str | None, shared: bool) -> OpenFile:
    try:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise SafetensorsError("the file is empty")
        if mode is None:
            storage = from_files.read(file, size, shared)
        else:
            storage, _ = from_files.mapped(file, 0, size, mode)
        return OpenFile(storage, apart=not shared and mode != "r+")
    except (SafetensorsError, EOFError) as error:
        raise_of_handler(error)
        raise SafetensorsError(f"{os.fsdecode(file.name)}: {error}") from None


def check_file(file: IO[bytes]) -> None:
    """Check an open file.

    Raises:
        SafetensorsError: It is no valid safetensors file.
    """
    _open(file, "r", False)


def load_file(
    filename: str | os.PathLike[str], mode: str | None = "c", *, shared: bool = False
) -> dict[str, Tensor]:
    """Tensors of a file; it is mapped, and pages are read when they are touched.

    Args:
        filename: What to read. It may be replaced or deleted afterwards, not truncated.
        mode: ``"c"``: writes to the tensors stay in this process. ``"r"``: they are read-only.
            ``"r+"``: writes reach the file, also those of processes that the tensors are sent to.
            None reads the file instead.
        shared: Read the file straight into shared memory, as one block: other processes get its
            tensors by handle. *mode* is ``"c"`` or None, and the file is not mapped.

    Returns:
        Name to tensor, in the order of the header.

    Raises:
        SafetensorsError: The file is no valid safetensors file.
        ValueError: There is no such mode.
        OSError: It can not be opened.
    """
    return open_file(filename, mode, shared=shared)._all()


def read_metadata(filename: str | os.PathLike[str]) -> dict[str, str]:
    """The strings that were saved beside the tensors."""
    return open_file(filename, "r").metadata
