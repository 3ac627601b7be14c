"""Old-style constructors of sparse tensors: ``sparse.FloatTensor(indices, values, size)``."""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._type_names import LEGACY_DTYPES
from shmtensor._core._warnings import warn_once

__all__ = ["classes", "new_sparse"]

_FORMS = (
    " * (*, torch.device device = None)\n"
    " * (Tensor indices, Tensor values, *, torch.device device = None)\n"
    " * (Tensor indices, Tensor values, tuple of ints size, *, torch.device device = None)\n"
    " * (tuple of ints size, *, torch.device device = None)\n"
)


def _is_int(value: Any) -> bool:
    return not isinstance(value, (bool, float)) and hasattr(type(value), "__index__")


def _refused(args: tuple[Any, ...]) -> TypeError:
    got = ", ".join(type(value).__name__ for value in args)
    return TypeError(
        f"new() received an invalid combination of arguments - got ({got}), but expected one of:\n"
        + _FORMS
    )


def new_sparse(dtype: Any, args: tuple[Any, ...], device: Any = None) -> Any:
    """Make a tensor in coordinate format as torch's old constructors do.

    Args:
        dtype: Of a tensor without entries; otherwise the values keep theirs.
        args: Nothing, sizes (ints or one ``Size``), or indices, values and perhaps a size.
        device: The CPU.

    Raises:
        TypeError: Other arguments.
        RuntimeError: Another device; what `sparse_coo_tensor` refuses.
    """
    if device is not None and _C.device(device).type != "cpu":
        raise RuntimeError(
            f"legacy constructor expects device type: cpu but device type: {device} was passed"
        )
    warn_once(
        "The old constructors of sparse tensors are deprecated in favor of "
        "sparse_coo_tensor(indices, values, size, dtype=, device=)"
    )
    if len(args) == 1 and isinstance(args[0], _C.Size):
        args = tuple(args[0])
    if all(_is_int(each) for each in args) and not any(
        isinstance(each, _C._TensorBase) for each in args
    ):
        return _C.zeros(args or (0,), dtype=dtype, layout=_C.sparse_coo)
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        raise TypeError(
            "new(): a sequence is taken for sizes only if it is a torch.Size; use "
            "sparse_coo_tensor(), or to_sparse() of a dense tensor"
        )
    if len(args) not in (2, 3) or not all(isinstance(t, _C._TensorBase) for t in args[:2]):
        raise _refused(args)
    if len(args) == 3 and not isinstance(args[2], (list, tuple)):
        raise _refused(args)
    size = args[2] if len(args) == 3 else None
    indices = args[0].detach().to(_C.int64)
    return _C._nn._sparse_coo_tensor_checked(indices, args[1], size, False, None)


class _SparseType(type):
    """The classes' class: calls make tensors, instances are sparse tensors of the dtype."""

    _legacy_dtype: Any

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        return new_sparse(cls._legacy_dtype, args, device)

    def __instancecheck__(cls, instance: object) -> bool:
        return (
            isinstance(instance, _C._TensorBase)
            and bool(instance.is_sparse)
            and instance.dtype is cls._legacy_dtype
        )

    @property
    def dtype(cls) -> Any:
        """The element type."""
        return cls._legacy_dtype

    @property
    def layout(cls) -> Any:
        """``sparse_coo``."""
        return _C.sparse_coo

    @property
    def is_sparse(cls) -> bool:
        """True."""
        return True


def classes(module: str) -> dict[str, type]:
    """One class for each dtype that has an old-style name, as members of *module*."""
    made: dict[str, type] = {}
    for name, dtype in LEGACY_DTYPES.items():
        doc = f"Make a COO tensor of {dtype} from indices and values, or from sizes."
        members = {"_legacy_dtype": dtype, "__doc__": doc, "__module__": module}
        made[name] = _SparseType(name, (), members)
    return made
