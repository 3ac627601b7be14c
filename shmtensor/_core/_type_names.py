"""Names of types of the old style: a float32 tensor is of type ``torch.FloatTensor``."""

from __future__ import annotations

from typing import Any

from shmtensor import _C

__all__ = ["LEGACY_DTYPES", "NAMES", "dtype_of"]

#: Those that have a class, `_legacy` has these.
LEGACY_DTYPES = {
    "ByteTensor": _C.uint8,
    "CharTensor": _C.int8,
    "ShortTensor": _C.int16,
    "IntTensor": _C.int32,
    "LongTensor": _C.int64,
    "HalfTensor": _C.float16,
    "BFloat16Tensor": _C.bfloat16,
    "FloatTensor": _C.float32,
    "DoubleTensor": _C.float64,
    "BoolTensor": _C.bool,
    "ComplexFloatTensor": _C.complex64,
    "ComplexDoubleTensor": _C.complex128,
}
#: All that `Tensor.type` knows.
_DTYPES = LEGACY_DTYPES | {
    "UInt16Tensor": _C.uint16,
    "UInt32Tensor": _C.uint32,
    "UInt64Tensor": _C.uint64,
    "ComplexHalfTensor": _C.complex32,
}
#: The name of each dtype.
NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def dtype_of(kind: Any) -> Any:
    """The dtype that *kind* stands for: itself, or of an old-style class or its name.

    Raises:
        TypeError: It is of another type.
        ValueError: The name, or the class, is unknown.
        RuntimeError: It names a device that does not exist here.
    """
    if isinstance(kind, _C.dtype):
        return kind
    if hasattr(kind, "_legacy_dtype"):
        return kind._legacy_dtype
    if not isinstance(kind, (str, type)):
        raise TypeError("dtype must be a type, str, or dtype object")
    if kind == "torch.Tensor":
        return _C.get_default_dtype()
    package, _, name = kind.rpartition(".") if isinstance(kind, str) else ("", "", "")
    if package == "torch.cuda" and name in LEGACY_DTYPES:
        raise RuntimeError(f"type {kind}: there is no accelerator device, tensors live on the CPU")
    if name not in _DTYPES:
        raise ValueError(f"invalid type: '{kind if isinstance(kind, str) else kind.__name__}'")
    return _DTYPES[name]
