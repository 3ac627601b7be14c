"""NumPy's ``.npy`` files: one array, after a header that says its type and shape.

A file is a magic number with a version, the length of the header, the header, and the elements.
The header is the text of a Python dictionary. It is matched with a pattern, nothing is evaluated.

Source: NumPy's description of the format, versions 1.0, 2.0 and 3.0.
"""

from __future__ import annotations

import math
import os
import re
import sys
from dataclasses import dataclass
from typing import IO, Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._generated.dtypes import DTYPES
from shmtensor.storage import from_files

__all__ = ["Header", "elements", "header_of", "load_npy", "place", "read_header", "save_npy"]

_MAGIC = b"\x93NUMPY"
_ALIGNMENT = 64
#: NumPy writes 118 bytes for most arrays, and reads 10000 unless it is told to trust the file.
_MAX_HEADER_BYTES = 10_000
_MAX_DIMS = 64

_KINDS = {"bool": "b", "unsigned": "u", "signed": "i", "floating": "f", "complex": "c"}
#: Type and width as in ``<f8`` -> dtype.
_DTYPES: dict[str, Any] = {
    f"{_KINDS[row.kind]}{row.itemsize}": getattr(_C, row.name) for row in DTYPES if row.numpy
}
_CODES = {dtype: code for code, dtype in _DTYPES.items()}
_OWN_ORDER = "<" if sys.byteorder == "little" else ">"

_ENTRY = re.compile(
    r"""\s*(?P<q>['"])(?P<key>\w+)(?P=q)\s*:\s*
    (?: (?P<r>['"])(?P<text>[^'"\\]*)(?P=r)
      | (?P<truth>True|False)
      | \(\s*(?P<shape>(?:\d{1,19}L?\s*,\s*)*(?:\d{1,19}L?)?)\s*\) )\s*(?:,|$)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Header:
    """What a header says, checked.

    Attributes:
        dtype: The dtype of the elements.
        shape: The sizes.
        fortran_order: The first index varies fastest, rather than the last.
        swapped: The byte order of the elements is not this machine's.
    """

    dtype: Any
    shape: tuple[int, ...]
    fortran_order: bool
    swapped: bool

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.shape) * int(self.dtype.itemsize)

    @property
    def strides(self) -> list[int]:
        """The strides in elements."""
        sizes = self.shape if self.fortran_order else self.shape[::-1]
        strides = [math.prod(sizes[:i]) for i in range(len(sizes))]
        return strides if self.fortran_order else strides[::-1]


# --- the header --------------------------------------------------------------------------------


def _dtype_of(descr: str) -> tuple[Any, bool]:
    """The dtype for an entry such as ``<f8``, and whether its bytes are swapped."""
    order, code = (descr[:1], descr[1:]) if descr[:1] in "<>=|" else ("=", descr)
    dtype = _DTYPES.get(code)
    if dtype is None:
        raise ValueError(f"tensors cannot have the NumPy type {descr!r}")
    return dtype, dtype.itemsize > 1 and order in "<>" and order != _OWN_ORDER


def _parse(text: str) -> Header:
    """Read the text of a dictionary with the three entries, in any order."""
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ValueError(f"the header is not a dictionary: {text[:80]!r}")
    inner = inner[1:-1].strip()
    found: dict[str, re.Match[str]] = {}
    at = 0
    while at < len(inner):
        entry = _ENTRY.match(inner, at)
        if entry is None:
            if "descr" in inner[at : at + 10] and "[" in inner[at:]:
                raise ValueError("structured types have no tensors")
            raise ValueError(f"unknown entry in the header: {inner[at : at + 80]!r}")
        if entry["key"] in found:
            raise ValueError(f"the header has {entry['key']!r} twice")
        found[entry["key"]] = entry
        at = entry.end()
    if set(found) != {"descr", "fortran_order", "shape"}:
        raise ValueError(f"the header has {sorted(found)}, not descr, fortran_order and shape")
    descr, truth, shape = (
        found[key][group]
        for key, group in (("descr", "text"), ("fortran_order", "truth"), ("shape", "shape"))
    )
    if descr is None or truth is None or shape is None:
        raise ValueError(f"the header has values of other types: {text[:80]!r}")
    sizes = tuple(int(n.strip().removesuffix("L")) for n in shape.split(",") if n.strip())
    dtype, swapped = _dtype_of(descr)
    if len(sizes) > _MAX_DIMS:
        raise ValueError(f"{len(sizes)} dimensions, tensors have at most {_MAX_DIMS}")
    # Sizes whose product is 0 because of one of them must not hide others that are too large.
    if math.prod(max(n, 1) for n in sizes) * dtype.itemsize >= 2**63:
        raise ValueError(f"shape {sizes} has too many elements")
    return Header(dtype, sizes, truth == "True", swapped)


def read_header(file: IO[bytes], size: int) -> tuple[Header, int]:
    """Read the header at the file's position.

    Args:
        file: The file.
        size: How many bytes the array may take from there.

    Returns:
        The header, and how many bytes it takes.

    Raises:
        ValueError: It is not such a file, or has too few bytes.
    """
    head = file.read(12)
    if head[:6] != _MAGIC:
        raise ValueError(f"not a .npy file, it begins with {head[:6]!r}")
    version = tuple(head[6:8])
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"version {'.'.join(map(str, version))} of the format is not known")
    width = 2 if version == (1, 0) else 4
    length = int.from_bytes(head[8 : 8 + width], "little")
    if length > _MAX_HEADER_BYTES:
        raise ValueError(f"a header of {length} bytes, at most {_MAX_HEADER_BYTES} are read")
    begin = 8 + width + length
    rest = file.read(max(begin - len(head), 0))
    raw = (head[8 + width :] + rest)[:length]
    if len(raw) < length or begin > size:
        raise ValueError(f"a header of {length} bytes does not fit in {size} bytes")
    try:
        header = _parse(raw.decode("utf-8" if version == (3, 0) else "latin-1"))
    except UnicodeDecodeError as error:
        raise ValueError(f"the header is not text: {error}") from None
    if header.nbytes > size - begin:
        raise ValueError(
            f"shape {header.shape} of {header.dtype} takes {header.nbytes} bytes, there are "
            f"{size - begin}"
        )
    return header, begin


def header_of(tensor: Tensor, fortran_order: bool) -> bytes:
    """The beginning of a file with *tensor*; a multiple of 64 bytes."""
    code = _CODES.get(tensor.dtype)
    if code is None:
        raise TypeError(f"NumPy has no type for {tensor.dtype}, and .npy files neither")
    order = _OWN_ORDER if tensor.dtype.itemsize > 1 else "|"
    text = (
        f"{{'descr': '{order}{code}', 'fortran_order': {fortran_order}, "
        f"'shape': {tuple(tensor.shape)}, }}"
    ).encode()
    length = len(text) + 1
    length += -(10 + length) % _ALIGNMENT
    return _MAGIC + b"\1\0" + length.to_bytes(2, "little") + text.ljust(length - 1) + b"\n"


# --- elements ----------------------------------------------------------------------------------


def place(
    whole: IO[bytes],
    file: IO[bytes],
    header: Header,
    begin: int,
    mode: str | None,
    shared: bool,
) -> Tensor:
    """Map the elements of an array, or read them from the file's position.

    Args:
        whole: The file, to map it.
        file: The file or a part of it, at the beginning of the elements.
        header: What they are.
        begin: Where they begin in the whole file; negative if they are not in it as they are.
        mode: See `load_npy`.
        shared: See `load_npy`.

    Raises:
        ValueError: They cannot be mapped, and *mode* wants that.
    """
    dtype, nbytes = header.dtype, header.nbytes
    if nbytes == 0:
        empty: Tensor = _C.empty(header.shape, dtype=dtype, shared=shared)
        return empty
    obstacle = None
    if begin < 0:
        obstacle = "it is compressed"
    elif header.swapped:
        obstacle = "its byte order is not this machine's"
    elif begin % dtype.itemsize:
        obstacle = f"it begins at byte {begin}, which is not a multiple of {dtype.itemsize}"
    if obstacle and mode in ("r", "r+"):
        raise ValueError(f"the array cannot be mapped: {obstacle}; mode 'c' or None reads it")
    if mode is None or obstacle:
        storage, offset = from_files.read(file, nbytes, shared), 0
    else:
        storage, offset = from_files.mapped(whole, begin, nbytes, mode)
    if header.swapped:
        storage.byteswap(dtype)
    result: Tensor = from_files.tensor_over(storage, offset, dtype, header.shape, header.strides)
    return result


def elements(tensor: Tensor) -> tuple[Tensor, bool]:
    """The elements of a tensor as bytes in one dimension, and whether the first index is fastest.

    They are copied only where the tensor is contiguous in neither order.
    """
    plain = tensor.detach().resolve_conj().resolve_neg()
    transposed = plain.permute(tuple(range(plain.dim())[::-1]))
    fortran_order = not plain.is_contiguous() and transposed.is_contiguous()
    dense = transposed if fortran_order else plain.contiguous()
    return dense.reshape(-1).view(_C.uint8), fortran_order


def load_npy(
    path: str | os.PathLike[str], mode: str | None = "c", *, shared: bool = False
) -> Tensor:
    """Return the array of a ``.npy`` file.

    Args:
        path: The file. You may replace or delete it afterwards, but not truncate it.
        mode: ``"r"`` maps the file, and the tensor is read-only. ``"c"`` maps it so that writes
            stay in this process; arrays that cannot be mapped, because of their byte order or
            place, are read. ``"r+"`` maps it so that writes reach the file, even those of processes
            that get the tensor. None reads the file.
        shared: Read the elements straight into shared memory: other processes get the tensor by
            handle. *mode* is ``"c"`` or None, and the file is not mapped.

    Returns:
        A tensor of the file's shape; column by column in memory if the file is.

    Raises:
        ValueError: The file is not a ``.npy`` file of numbers or bools, is too short, or cannot be
            mapped in this *mode*; there is no such mode.
        OSError: It cannot be opened.
    """
    mode = from_files.check_mode(mode, shared)
    with from_files.open_regular(path) as (file, size):
        try:
            header, begin = read_header(file, size)
            file.seek(begin)
            return place(file, file, header, begin, mode, shared)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from None


def save_npy(path: str | os.PathLike[str], tensor: Tensor) -> None:
    """Write a tensor to a ``.npy`` file, which appears complete or not at all.

    Args:
        path: The file; replaced if it exists, also behind a link. Nothing is added to its name.
        tensor: Any tensor of a dtype that NumPy has.

    Raises:
        TypeError: NumPy has no such dtype.
        ValueError: There is a pipe or a device at *path*.
        OSError: Writing failed; an existing file is as it was.
    """
    data, fortran_order = elements(tensor)
    head = header_of(tensor, fortran_order)
    with from_files.replaced(path) as file:
        file.write(head)
        file.write(memoryview(data))
