"""The classes of results with named fields: ``isinstance(t.sort(), return_types.sort)``.

Source: torch.return_types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, final

from shmtensor import _C

if TYPE_CHECKING:
    from shmtensor._core._tensor import Tensor

    aminmax = _C._result_aminmax
    cummax = _C._result_cummax
    cummin = _C._result_cummin
    frexp = _C._result_frexp
    geqrf = _C._result_geqrf
    histogram = _C._result_histogram
    kthvalue = _C._result_kthvalue
    linalg_cholesky_ex = _C._result_linalg_cholesky_ex
    linalg_eig = _C._result_linalg_eig
    linalg_eigh = _C._result_linalg_eigh
    linalg_inv_ex = _C._result_linalg_inv_ex
    linalg_ldl_factor = _C._result_linalg_ldl_factor
    linalg_ldl_factor_ex = _C._result_linalg_ldl_factor_ex
    linalg_lstsq = _C._result_linalg_lstsq
    linalg_lu = _C._result_linalg_lu
    linalg_lu_factor = _C._result_linalg_lu_factor
    linalg_lu_factor_ex = _C._result_linalg_lu_factor_ex
    linalg_qr = _C._result_linalg_qr
    linalg_slogdet = _C._result_linalg_slogdet
    linalg_solve_ex = _C._result_linalg_solve_ex
    linalg_svd = _C._result_linalg_svd
    lu_unpack = _C._result_lu_unpack
    max = _C._result_max
    median = _C._result_median
    min = _C._result_min
    mode = _C._result_mode
    nanmedian = _C._result_nanmedian
    qr = _C._result_qr
    slogdet = _C._result_slogdet
    sort = _C._result_sort
    svd = _C._result_svd
    topk = _C._result_topk
    triangular_solve = _C._result_triangular_solve

    @final
    class histogramdd(tuple[Tensor, tuple[Tensor, ...]]):
        __match_args__ = ("hist", "bin_edges")
        n_fields: ClassVar[int]
        n_sequence_fields: ClassVar[int]
        n_unnamed_fields: ClassVar[int]
        hist: Tensor
        bin_edges: tuple[Tensor, ...]


__all__ = [
    "aminmax",
    "cummax",
    "cummin",
    "frexp",
    "geqrf",
    "histogram",
    "histogramdd",
    "kthvalue",
    "linalg_cholesky_ex",
    "linalg_eig",
    "linalg_eigh",
    "linalg_inv_ex",
    "linalg_ldl_factor",
    "linalg_ldl_factor_ex",
    "linalg_lstsq",
    "linalg_lu",
    "linalg_lu_factor",
    "linalg_lu_factor_ex",
    "linalg_qr",
    "linalg_slogdet",
    "linalg_solve_ex",
    "linalg_svd",
    "lu_unpack",
    "max",
    "median",
    "min",
    "mode",
    "nanmedian",
    "qr",
    "slogdet",
    "sort",
    "svd",
    "topk",
    "triangular_solve",
]

_OTHERS = {"histogramdd": ["hist", "bin_edges"]}  # of what is not an operator


def _fields(name: str) -> list[str]:
    """The names of the results of an operator that gives several."""
    for overload in _C._operator_overloads(name):
        _, _, results = overload._schema.rpartition("->")
        fields = re.findall(r" (\w+)[,)]", results)
        if len(fields) > 1:
            return fields
    return _OTHERS[name]


def _class_of(name: str) -> type:
    fields = _fields(name)
    return type(_C._named_result(name, " ".join(fields), (None,) * len(fields)))


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = _class_of(name)
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
