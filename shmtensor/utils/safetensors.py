"""Checkpoints in the safetensors format, read without copying.

A file is a length (8 bytes, little-endian), a JSON object of that length, and the bytes of the
tensors. The object maps a name to dtype, shape and the range of its bytes; ``__metadata__`` may
hold strings. Loading maps the file privately: pages are read when they are touched, and a write
to a loaded tensor never reaches the file. Nothing in a file is executed.

The reader trusts nothing: the header's size, every range, the product of every shape, names
given twice, overlaps and holes are checked before a tensor is made.

Source: the format's description at github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

import shmtensor
from shmtensor._tensor import Tensor

__all__ = ["SafetensorsError", "load", "load_file", "read_metadata", "save", "save_file"]

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


class SafetensorsError(ValueError):
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
    dense = tensor.detach().contiguous()
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
        filename: Where to; replaced if it exists.
        metadata: Strings to keep beside the tensors.

    Raises:
        SafetensorsError: A name, dtype or metadata entry the format has no place for.
        OSError: Writing failed; an existing file is as it was.
    """
    head, names = _layout(tensors, metadata)
    path = os.fspath(filename)
    folder, base = os.path.split(os.path.abspath(path))
    fd, aside = tempfile.mkstemp(prefix=f".{base}.", dir=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(head)
            for name in names:
                array = _array(tensors[name], _row(name, tensors[name])[2])
                if array.size:
                    file.write(array.reshape(-1).view(np.uint8).data)
            file.flush()
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(aside, 0o666 & ~umask)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise


# --- reading -----------------------------------------------------------------------------------


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise SafetensorsError(f"the name {key!r} occurs twice in the header")
        result[key] = value
    return result


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _check_entry(name: str, entry: Any) -> tuple[str, list[int], int, int]:
    """``(dtype, shape, begin, end)`` of one header entry."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise SafetensorsError(f"{name}: expected dtype, shape and data_offsets, got {entry!r}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BY_FILE_NAME:
        raise SafetensorsError(f"{name}: unknown dtype {dtype!r}")
    if not isinstance(shape, list) or not all(map(_is_size, shape)) or len(shape) > 64:
        raise SafetensorsError(f"{name}: shape must be at most 64 sizes, got {shape!r}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        raise SafetensorsError(f"{name}: data_offsets must be two sizes, got {offsets!r}")
    begin, end = offsets
    nbytes = math.prod(shape) * np.dtype(_BY_FILE_NAME[dtype][2]).itemsize
    if end - begin != nbytes:
        raise SafetensorsError(
            f"{name}: {dtype} of shape {shape} takes {nbytes} bytes, but data_offsets "
            f"[{begin}, {end}] say {end - begin}"
        )
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
        header = json.loads(bytes(data[8 : 8 + n_header]), object_pairs_hook=_no_duplicates)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise SafetensorsError(f"header is no JSON: {error}") from error
    if not isinstance(header, dict):
        raise SafetensorsError(f"header is no JSON object but {type(header).__name__}")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise SafetensorsError(f"__metadata__ must map strings to strings, got {metadata!r}")
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


def _tensors(data: Any) -> dict[str, Tensor]:
    """Tensors over *data*, which they keep alive."""
    if sys.byteorder != "little":
        raise SafetensorsError("safetensors data can only be mapped on a little-endian machine")
    entries, _, start = _parse(data)
    result: dict[str, Tensor] = {}
    for name, (dtype, shape, begin, _) in entries.items():
        _, own_name, code = _BY_FILE_NAME[dtype]
        element = np.dtype(code)
        count = math.prod(shape)
        if count == 0:
            result[name] = shmtensor.empty(shape, dtype=getattr(shmtensor, own_name))
            continue
        array = np.frombuffer(data, element, count, start + begin).reshape(shape)
        if (start + begin) % element.itemsize:
            array = array.copy()  # kernels need aligned elements
        tensor = shmtensor.from_numpy(array)
        result[name] = tensor.view(shmtensor.bfloat16) if own_name == "bfloat16" else tensor
    return result


def load(data: bytes) -> dict[str, Tensor]:
    """Tensors of a file's content; they have memory of their own.

    Raises:
        SafetensorsError: *data* is no valid safetensors data.
    """
    return _tensors(bytearray(data))


def load_file(filename: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Tensors of a file, mapped privately and read when they are touched.

    Args:
        filename: What to read. It may be replaced or deleted afterwards, not truncated.

    Returns:
        Name to tensor, in the order of the header. Writing to them does not change the file.

    Raises:
        SafetensorsError: The file is no valid safetensors file.
        OSError: It can not be opened.
    """
    return _tensors(_map(filename))


def tensors_of(storage: Any) -> dict[str, Tensor]:
    """Tensors over a storage that holds a file's content, which they keep alive.

    Raises:
        SafetensorsError: It is no valid safetensors data.
    """
    if sys.byteorder != "little":
        raise SafetensorsError("safetensors data can only be mapped on a little-endian machine")
    entries, _, start = _parse(storage._view())
    result: dict[str, Tensor] = {}
    for name, (dtype_name, shape, begin, end) in entries.items():
        dtype: Any = getattr(shmtensor, _BY_FILE_NAME[dtype_name][1])
        tensor: Any = shmtensor.empty(0, dtype=dtype)
        if begin == end:
            tensor = shmtensor.empty(shape, dtype=dtype)
        elif (start + begin) % dtype.itemsize == 0:
            strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
            tensor.set_(storage, (start + begin) // dtype.itemsize, shape, strides)
        else:  # kernels need aligned elements
            part: Any = shmtensor.empty(0, dtype=shmtensor.uint8)
            part.set_(storage, start + begin, [end - begin], [1])
            tensor = part.clone().view(dtype).reshape(shape)
        result[name] = tensor
    return result


def read_metadata(filename: str | os.PathLike[str]) -> dict[str, str]:
    """The strings that were saved beside the tensors."""
    return _parse(_map(filename))[1]


def _map(filename: str | os.PathLike[str]) -> Any:
    with open(filename, "rb") as file:
        if os.fstat(file.fileno()).st_size == 0:
            raise SafetensorsError(f"{os.fspath(filename)}: the file is empty")
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
