"""Products of matrices in groups: of experts, each with its own rows and its own weights."""

from __future__ import annotations

from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor

__all__ = ["grouped_mm"]

_DTYPES = (_C.float32, _C.bfloat16, _C.float16)


@overridable
def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Multiply matrices group by group.

    A dimension that has both matrices in one piece is cut at *offs*: group *g* is
    ``offs[g - 1]:offs[g]``, from 0 on.

    ====================  ====================  ========================  ====================
    *mat_a*               *mat_b*               what is cut               result
    ====================  ====================  ========================  ====================
    ``(M, K)``            ``(G, K, N)``         rows of *mat_a*           ``(M, N)``
    ``(G, M, K)``         ``(K, N)``            columns of *mat_b*        ``(M, N)``
    ``(M, K)``            ``(K, N)``            what is summed over       ``(G, M, N)``
    ``(G, M, K)``         ``(G, K, N)``         nothing; without *offs*   ``(G, M, N)``
    ====================  ====================  ========================  ====================

    Args:
        mat_a: float32, bfloat16 or float16.
        mat_b: Of the same dtype.
        offs: ``(G,)``, int32: where each group ends. What lies behind the last one counts in no
            group; its rows or columns of the result are 0.
        bias: Not offered, here as in torch.
        out_dtype: That of *mat_a*, or None.

    Raises:
        RuntimeError: Dtypes or shapes do not fit; *offs* is missing, too many, of another dtype,
            decreases, or ends behind the matrix; there is a *bias* or another *out_dtype*.

    Source:
        torch.nn.functional.grouped_mm.
    """
    return _grouped_mm(mat_a, mat_b, offs, bias, out_dtype)


def _grouped_mm(
    self: Tensor,
    mat2: Tensor,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Return `grouped_mm`, by the arguments of ``torch._grouped_mm``."""
    _check(self, mat2, offs, bias, out_dtype)
    if offs is None:
        return self.bmm(mat2)
    if self.dim() == 3:
        return _by_rows(mat2.t(), self.transpose(1, 2), offs).t()
    if mat2.dim() == 3:
        return _by_rows(self, mat2, offs)
    parts = [self[:, start:end] @ mat2[start:end] for start, end in _spans(offs, self.shape[1])]
    return shmtensor.stack(parts) if parts else self.new_zeros(0, self.shape[0], mat2.shape[1])


def _by_rows(rows: Tensor, weights: Tensor, offs: Tensor) -> Tensor:
    """Multiply each group of rows ``(M, K)`` by its weights ``(G, K, N)``."""
    spans = _spans(offs, rows.shape[0])
    parts = [rows[start:end] @ weights[g] for g, (start, end) in enumerate(spans)]
    n_used = spans[-1][1] if spans else 0
    return shmtensor.cat([*parts, rows.new_zeros(rows.shape[0] - n_used, weights.shape[2])])


def _spans(offs: Tensor, length: int) -> list[tuple[int, int]]:
    """Return where the groups begin and end."""
    ends = offs.tolist()
    spans = list(zip([0, *ends], ends, strict=False))
    for start, end in spans:
        if not start <= end <= length:
            raise RuntimeError(
                f"grouped_mm(): offs must not decrease, nor end behind {length}; got {ends}"
            )
    return spans


def _check(a: Tensor, b: Tensor, offs: Tensor | None, bias: Tensor | None, out_dtype: Any) -> None:
    shapes = f"got {tuple(a.shape)} and {tuple(b.shape)}"
    for name, each in (("mat_a", a), ("mat_b", b)):
        if each.dtype not in _DTYPES:
            raise RuntimeError(
                f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {each.dtype}"
            )
        if each.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d, {shapes}")
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"contraction dimension of mat_a and mat_b must match, {shapes}")
    if (offs is None) != (a.dim() == b.dim() == 3):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are "
            f"3d; {shapes}{' without offs' if offs is None else ''}"
        )
    if offs is not None:
        if offs.dim() != 1:
            raise RuntimeError(f"offs has to be 1D, got {tuple(offs.shape)}")
        if offs.dtype is not _C.int32:
            raise RuntimeError(f"Offsets have to be int32, got {offs.dtype}")
    groups = [each.shape[0] for each in (a, b) if each.dim() == 3]
    if offs is not None and groups and groups != [offs.shape[0]]:
        raise RuntimeError(
            f"matrix batch sizes have to match, got {offs.shape[0]} offsets for {groups[0]}"
        )
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype is not a.dtype:
        raise RuntimeError(
            f"Grouped gemm output dtype must match `mat_a` dtype, got {out_dtype} for {a.dtype}"
        )
