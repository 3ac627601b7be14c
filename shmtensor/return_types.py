"""The classes of results with named fields: ``isinstance(t.sort(), return_types.sort)``.

Source: torch.return_types.
"""

from __future__ import annotations

import re
from typing import Any

from shmtensor import _C

_NAMES = """
    aminmax cummax cummin frexp geqrf histogram histogramdd kthvalue linalg_cholesky_ex
    linalg_eig linalg_eigh linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_lstsq
    linalg_lu linalg_lu_factor linalg_lu_factor_ex linalg_qr linalg_slogdet linalg_solve_ex
    linalg_svd lu_unpack max median min mode nanmedian qr slogdet sort svd topk
    triangular_solve
""".split()

__all__ = list(_NAMES)

_OTHERS = {"histogramdd": ["hist", "bin_edges"]}  # of what is no operator


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
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = _class_of(name)
    return found


def __dir__() -> list[str]:
    return sorted(_NAMES)
