"""Free functions that are no operators: questions about objects, `asarray` and `from_file`."""

from __future__ import annotations

import sys
from typing import Any

from shmtensor import _C
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor._core._warnings import warn_once
from shmtensor.storage import TypedStorage, UntypedStorage

__all__ = [
    "_is_all_true",
    "_is_any_true",
    "asarray",
    "detach_",
    "from_file",
    "get_device",
    "is_complex",
    "is_floating_point",
    "is_inference",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_tensor",
    "numel",
]


def require_tensors(name: str, **arguments: object) -> None:
    """Refuse arguments that are no tensors.

    Raises:
        TypeError: One is of another type; *name* is the function's, the order that of positions.
    """
    for position, (key, value) in enumerate(arguments.items(), 1):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name}(): argument '{key}' (position {position}) must be Tensor, "
                f"not {type(value).__name__}"
            )


@overridable(as_given=True)
def detach_(input: Tensor) -> Tensor:
    """Cut *input* from its history; returns it."""
    require_tensors("detach_", input=input)
    return input.detach_()


def is_tensor(obj: object) -> bool:
    """Return True when *obj* is a tensor (of any subclass)."""
    return isinstance(obj, Tensor)


@overridable(as_given=True)
def numel(input: Tensor) -> int:
    """Return the number of elements of *input*."""
    require_tensors("numel", input=input)
    return int(input.numel())


@overridable(as_given=True)
def get_device(input: Tensor) -> int:
    """Return the number of the device of *input*: -1, which is the CPU."""
    require_tensors("get_device", input=input)
    return int(input.get_device())


@overridable(as_given=True)
def is_floating_point(input: Tensor) -> bool:
    """Return True when the dtype of *input* is real and floating."""
    require_tensors("is_floating_point", input=input)
    return bool(input.is_floating_point())


@overridable(as_given=True)
def is_complex(input: Tensor) -> bool:
    """Return True when the dtype of *input* is complex."""
    require_tensors("is_complex", input=input)
    return bool(input.is_complex())


@overridable(as_given=True)
def is_signed(input: Tensor) -> bool:
    """Return True when elements of *input* may be negative."""
    require_tensors("is_signed", input=input)
    return bool(input.is_signed())


@overridable(as_given=True)
def is_inference(input: Tensor) -> bool:
    """Return True when *input* was made in inference mode."""
    require_tensors("is_inference", input=input)
    return bool(input.is_inference())


@overridable(as_given=True)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return True when both have the same size."""
    require_tensors("is_same_size", input=input)
    return bool(input.is_same_size(other))


@overridable(as_given=True)
def is_nonzero(input: Tensor) -> bool:
    """Return the truth of the only element of *input*.

    Raises:
        RuntimeError: There is not exactly one element.
    """
    require_tensors("is_nonzero", input=input)
    return bool(input)


@overridable(as_given=True)
def _is_all_true(input: Tensor) -> Tensor:
    """Return whether all elements of a bool tensor are true, as a tensor.

    Raises:
        RuntimeError: *input* is of another dtype.
    """
    _require_bool("_is_all_true", input)
    return input.all()


@overridable(as_given=True)
def _is_any_true(input: Tensor) -> Tensor:
    """Return whether an element of a bool tensor is true, as a tensor.

    Raises:
        RuntimeError: *input* is of another dtype.
    """
    _require_bool("_is_any_true", input)
    return input.any()


def _require_bool(function: str, input: Tensor) -> None:
    require_tensors(function, input=input)
    if input.dtype is not _C.bool:
        raise RuntimeError(f"{function}(): expected a tensor of bools, got {input.dtype}")


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj).release()
    except (TypeError, BufferError):
        return False
    return True


def _lends_memory(obj: Any) -> bool:
    """Does *obj* offer its memory by a protocol of arrays?"""
    return any(hasattr(type(obj), name) for name in ("__dlpack__", "__array_interface__"))


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Turn *obj* into a tensor, sharing its memory where that is possible.

    Args:
        obj: A tensor, a NumPy array or number, a DLPack capsule, a storage or any object with the
            buffer protocol (``bytes``, ``array.array``, ``mmap`` ...), whose bytes are taken for
            elements of *dtype* or the default dtype, a number or nested sequences of numbers.
        dtype: Element type; a different one than *obj* has means a copy.
        device: ``"cpu"`` or ``"meta"``.
        copy: True always copies, False never (an error where it must), None when needed.
        requires_grad: Record operations on the result; None as *obj* does, whose history it keeps.

    Raises:
        RuntimeError: *copy* is False and *obj* is a NumPy number, which has no memory to share.
        ValueError: *copy* is False and the memory cannot be shared.

    Source:
        torch.asarray.
    """
    if isinstance(obj, Tensor):
        if requires_grad is None and obj.requires_grad:
            warn_once(
                "asarray(): requires_grad is by default obj.requires_grad, no longer False. "
                "requires_grad=False gives the old result and silences this warning"
            )
        keeps = requires_grad is None or obj.requires_grad == requires_grad
        result = obj if keeps else obj.detach()
    else:
        numpy = sys.modules.get("numpy")  # who has a number of NumPy's has loaded it
        is_number = numpy is not None and isinstance(obj, numpy.generic)
        if copy is False and is_number:
            raise RuntimeError(
                "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray."
            )
        is_array = numpy is not None and isinstance(obj, numpy.ndarray)
        is_storage = isinstance(obj, (TypedStorage, UntypedStorage))
        is_capsule = type(obj).__name__ == "PyCapsule"
        is_buffer = not (is_number or is_array or is_storage) and _has_buffer(obj)
        shares = is_array or is_storage or is_capsule or is_buffer or _lends_memory(obj)
        if copy is False and not shares:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        if is_capsule:
            result = _C.from_dlpack(obj)
        elif is_buffer:
            result = _C.frombuffer(obj, dtype=_C.get_default_dtype() if dtype is None else dtype)
        else:
            # In the wanted dtype at once: by way of the default one numbers lose digits, and the
            # bytes of a storage are elements of that dtype.
            at_once = not shares or is_storage
            result = _C.as_tensor(obj, dtype=dtype) if at_once else _C.as_tensor(obj)
    changed = result.to(
        device=result.device if device is None else device,
        dtype=result.dtype if dtype is None else dtype,
    )
    if copy is False and changed is not result:
        if changed.device != result.device:
            raise ValueError(
                f"can't alias tensor from device '{result.device}' to '{changed.device}'."
            )
        old, new = (t.type().rpartition(".")[2].removesuffix("Tensor") for t in (result, changed))
        raise ValueError(f"can't alias tensor with dtype '{old}' into dtype '{new}'.")
    if copy and changed is result:
        changed = result.clone()
    return changed.requires_grad_() if requires_grad else changed


def from_file(
    filename: str,
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of shape ``(size,)`` over the beginning of a file that is mapped.

    Args:
        filename: The file.
        shared: Writes reach the file, which is made and grown where needed, also those of processes
            that the tensor is sent to. Otherwise writes stay with this tensor.
        size: Number of elements.
        dtype: Of the elements; the default dtype when left out.
        layout: ``strided``.
        device: ``"cpu"``.
        pin_memory: False; there is no device to pin memory for.
        requires_grad: Record operations on the result.

    Raises:
        RuntimeError: The file cannot be opened, is not a regular file, or is too small for a
            private map.
        NotImplementedError: Another device or layout.
        MemoryError: The disk is full.

    Source:
        torch.from_file.
    """
    if not isinstance(filename, str):
        kind = type(filename).__name__
        raise TypeError(f"from_file(): argument 'filename' (position 1) must be str, not {kind}")
    if device is not None and _C.device(device).type != "cpu":
        raise NotImplementedError(f"from_file(): device '{device}' has no files mapped to it")
    if layout not in (None, _C.strided):
        raise NotImplementedError(f"from_file(): layout {layout}, only strided tensors have one")
    if pin_memory:
        raise RuntimeError("tensors constructed from a file cannot be pinned")
    result = _C.empty(0, dtype=dtype)
    if size < 0:
        raise RuntimeError(f"from_file(): size {size} is negative")
    nbytes = size * result.element_size()
    storage = UntypedStorage.from_file(filename, bool(shared), nbytes)
    return result.set_(storage, 0, (size,)).requires_grad_(requires_grad)


def _shape_as_tensor(self: Tensor) -> Tensor:
    """Return the shape of *self* as int64, ``(dim,)``."""
    return _C.tensor(list(self.shape), dtype=_C.int64)  # type: ignore[no-any-return]


@overridable(as_given=True)
def _assert_async(self: Tensor, assert_msg: str | None = None) -> None:
    """Check that a tensor of one element is not zero.

    Raises:
        RuntimeError: It is, with *assert_msg* as its text; or it has not one element.
    """
    if not bool(self):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _convert_indices_from_coo_to_csr(self: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Return where each row begins among sorted row indices.

    Args:
        self: ``(N,)``, integers, sorted.
        size: Number of rows.
        out_int32: Return int32 instead of int64.

    Returns:
        ``(size + 1,)``.
    """
    rows = _C.arange(size + 1, dtype=self.dtype, device=self.device)
    return _C.searchsorted(self, rows, out_int32=out_int32)  # type: ignore[no-any-return]


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor,
    col_indices: Tensor,
    *,
    out_int32: bool = False,
    transpose: bool = False,
) -> Tensor:
    """Return the row and column of every element; undoes `_convert_indices_from_coo_to_csr`.

    Args:
        crow_indices: ``(R + 1,)``, where each row begins.
        col_indices: ``(N,)``.
        out_int32: Return int32 instead of int64.
        transpose: Columns first.

    Returns:
        ``(2, N)``.
    """
    counts = crow_indices.diff()
    rows = _C.repeat_interleave(_C.arange(len(counts), device=counts.device), counts)
    parts = (col_indices, rows) if transpose else (rows, col_indices)
    dtype = _C.int32 if out_int32 else _C.int64
    return _C.stack([part.to(dtype) for part in parts])  # type: ignore[no-any-return]


@overridable(as_given=True)
def dsmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of a sparse matrix and a dense one: another name of `mm`."""
    return _C.mm(input, mat2)  # type: ignore[no-any-return]


# Names that begin with an underscore are not exported by ``*`` unless they are listed.
__all__ += [
    "_assert_async",
    "_convert_indices_from_coo_to_csr",
    "_convert_indices_from_csr_to_coo",
    "_shape_as_tensor",
    "dsmm",
]
