"""Sparse tensors from indices and values."""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.sparse._invariants import check_sparse_tensor_invariants

__all__ = [
    "_sparse_coo_tensor_unsafe",
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]

_nn = _C._nn


def _as_indices(data: Any, name: str, dtypes: tuple[Any, ...] = (_C.int64,)) -> Tensor:
    """Indices as a tensor of an integer dtype; a tensor that is one already is shared."""
    tensor: Tensor = data.detach() if isinstance(data, Tensor) else _C.tensor(data)
    if tensor.is_complex():
        raise TypeError(f"{name} must be integers, got {tensor.dtype}")
    return tensor if tensor.dtype in dtypes else tensor.to(_C.int64)


def _as_values(data: Any, dtype: Any, device: Any) -> Tensor:
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    made: Tensor = _C.tensor(data, dtype=dtype, device=device)
    return made


def _refuse_meta(device: Any) -> None:
    if device is not None and _C.device(device).type == "meta":
        raise NotImplementedError("there are no sparse meta tensors")


def _refuse_pinning(pin_memory: bool) -> None:
    if pin_memory:
        raise RuntimeError("Cannot access accelerator device when none is available.")


def _check(check_invariants: bool | None) -> bool:
    if check_invariants is None:
        return check_sparse_tensor_invariants.is_enabled()
    return check_invariants


def _finish(made: Tensor, requires_grad: bool) -> Tensor:
    if requires_grad:
        made = made.detach()
        made.requires_grad_(True)
    return made


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """Make a tensor in coordinate format.

    Tensors that are given are shared, not copied. ``sparse_coo_tensor(size)`` and
    ``sparse_coo_tensor(size=size)`` have no entries.

    Args:
        indices: ``(sparse_dim, nnz)``, integers: a column for each entry.
        values: ``(nnz, ...)``; further dimensions are the dense ones of the result.
        size: Sizes of all dimensions; None takes the smallest that holds the indices.
        dtype: Element type of the values; None keeps theirs.
        device: The CPU.
        pin_memory: False; there is no device to pin memory for.
        requires_grad: Record operations on the result. Without it, the result's gradient goes to
            *values* where these require one.
        check_invariants: Look at every index; None does what `check_sparse_tensor_invariants`
            says.
        is_coalesced: Say that no place has two entries, and that they are in row-major order.

    Raises:
        RuntimeError: Shapes do not fit; an index is negative where *size* is None, or out of range
            where indices are looked at.
        TypeError: Indices without values, or values without indices.
        NotImplementedError: *device* is meta.

    Source:
        torch.sparse_coo_tensor.
    """
    _refuse_meta(device)
    _refuse_pinning(pin_memory)
    if values is None and (indices is None) != (size is None):
        given = indices if size is None else size
        sizes = (given,) if size is None and isinstance(given, int) else tuple(given)
        empty: Tensor = _C.zeros(sizes, dtype=dtype, layout=_C.sparse_coo)
        return _finish(empty, requires_grad)
    if indices is None or values is None:
        got = {"indices": indices, "values": values, "size": size}
        names = ", ".join(name for name, value in got.items() if value is not None)
        raise TypeError(
            "sparse_coo_tensor() received an invalid combination of arguments - got "
            f"({names}), but expected indices and values, with or without size, or size alone"
        )
    made = _nn._sparse_coo_tensor_checked(
        _as_indices(indices, "indices"),
        _as_values(values, dtype, device),
        size,
        _check(check_invariants),
        is_coalesced,
    )
    return _finish(made, requires_grad)


def _sparse_coo_tensor_unsafe(
    indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """Make a tensor in coordinate format without a look at its indices.

    Source:
        torch._sparse_coo_tensor_unsafe.
    """
    return sparse_coo_tensor(
        indices,
        values,
        size,
        dtype=dtype,
        device=device,
        requires_grad=requires_grad,
        check_invariants=bool(check_invariants),
        is_coalesced=is_coalesced,
    )


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """Make a matrix in compressed row or column format.

    Args:
        compressed_indices: ``(rows + 1,)`` or ``(columns + 1,)``: where the entries of each begin,
            and the number of all.
        plain_indices: ``(nnz,)``: the column or the row of each entry, increasing within a row or
            a column.
        values: ``(nnz, ...)``: the further dimensions are those of each entry.
        size: Rows, columns and the dimensions of an entry; None takes the smallest that holds the
            indices.
        dtype: Element type of the values; None keeps theirs.
        layout: ``sparse_csr`` or ``sparse_csc``.
        device: The CPU.
        pin_memory: False; there is no device to pin memory for.
        requires_grad: Record operations on the result.
        check_invariants: Look at every index; None does what `check_sparse_tensor_invariants`
            says.

    Raises:
        RuntimeError: Shapes do not fit, *layout* is missing or another one; an index is out of
            range or order where indices are looked at.

    Source:
        torch.sparse_compressed_tensor.
    """
    _refuse_meta(device)
    _refuse_pinning(pin_memory)
    if layout is None:
        raise RuntimeError(
            "expected compressed sparse tensor layout (SparseCsr, SparseCsc) but got none"
        )
    integers = (_C.int64, _C.int32)
    compressed = _as_indices(compressed_indices, "compressed_indices", integers)
    plain = _as_indices(plain_indices, "plain_indices", integers)
    if compressed.dtype != plain.dtype:
        compressed, plain = compressed.to(_C.int64), plain.to(_C.int64)
    entries = _as_values(values, dtype, device)
    if size is None:
        by, other = compressed.numel() - 1, int(plain.max()) + 1 if plain.numel() else 0
        size = (by, other) if layout is _C.sparse_csr else (other, by)
        size += tuple(entries.shape[1:])
    made = _C._sparse_compressed_tensor_unsafe(compressed, plain, entries, size, layout)
    if _check(check_invariants):
        _nn._validate_sparse(made)
    return _finish(made, requires_grad)


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, **options: Any
) -> Tensor:
    """Make a matrix in compressed row format; see `sparse_compressed_tensor`.

    Args:
        crow_indices: ``(rows + 1,)``: where the entries of each row begin, and the number of all.
        col_indices: ``(nnz,)``: the column of each entry.
        values: ``(nnz, ...)``.
        size: Rows, columns and the dimensions of an entry.
        **options: Those of `sparse_compressed_tensor`.

    Source:
        torch.sparse_csr_tensor.
    """
    options["layout"] = _C.sparse_csr
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, **options)


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **options: Any
) -> Tensor:
    """Make a matrix in compressed column format; see `sparse_compressed_tensor`.

    Args:
        ccol_indices: ``(columns + 1,)``: where the entries of each column begin, and their number.
        row_indices: ``(nnz,)``: the row of each entry.
        values: ``(nnz, ...)``.
        size: Rows, columns and the dimensions of an entry.
        **options: Those of `sparse_compressed_tensor`.

    Source:
        torch.sparse_csc_tensor.
    """
    options["layout"] = _C.sparse_csc
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, **options)
