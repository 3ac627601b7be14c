"""Names of types for annotations.

Source:
    torch.types.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from shmtensor._C import (
    Size,
)
from shmtensor._C import (
    device as _device,
)
from shmtensor._C import (
    dtype as _dtype,  # noqa: F401  (libraries import these names)
)
from shmtensor._C import (
    layout as _layout,  # noqa: F401
)
from shmtensor._core._symbols import SymBool, SymFloat, SymInt
from shmtensor._core._tensor import Tensor
from shmtensor.storage import TypedStorage, UntypedStorage

__all__ = [
    "BoolLikeType",
    "Device",
    "FileLike",
    "FloatLikeType",
    "IntLikeType",
    "Number",
    "PySymType",
    "Storage",
    "py_sym_types",
]

_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrOptionalTensors: TypeAlias = Tensor | Sequence[Tensor | None]
_size: TypeAlias = Size | list[int] | tuple[int, ...]
_symsize: TypeAlias = Size | Sequence[int | SymInt]
_dispatchkey: TypeAlias = str

_int: TypeAlias = int
_float: TypeAlias = float
_bool: TypeAlias = bool
_str: TypeAlias = str
_bytes: TypeAlias = bytes
_complex: TypeAlias = complex

IntLikeType: TypeAlias = int | SymInt
FloatLikeType: TypeAlias = float | SymFloat
BoolLikeType: TypeAlias = bool | SymBool
PySymType: TypeAlias = SymInt | SymFloat | SymBool
py_sym_types = (SymInt, SymFloat, SymBool)

Number: TypeAlias = int | float | bool
_Number = (int, float, bool)
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Device: TypeAlias = _device | str | int | None
Storage: TypeAlias = TypedStorage | UntypedStorage
