"""Operations on sparse tensors; docs/sparse.md says what there is.

The tensors are ordinary ones with another layout: they are made by `shmtensor.sparse_coo_tensor`
and its like, by ``to_sparse``, and by the backward of embeddings with ``sparse=True``.
"""

from __future__ import annotations

from typing import Any

from shmtensor._core import _legacy
from shmtensor._core._tensor import Tensor
from shmtensor.sparse._functions import (
    addmm,
    log_softmax,
    mm,
    sampled_addmm,
    softmax,
    spdiags,
    sum,
)
from shmtensor.sparse._invariants import check_sparse_tensor_invariants

__all__ = [
    "addmm",
    "check_sparse_tensor_invariants",
    "log_softmax",
    "mm",
    "sampled_addmm",
    "softmax",
    "spdiags",
    "sum",
]


def _typed_classes() -> dict[str, Any]:
    """Return classes for `isinstance`: sparse tensors of one dtype, by their old names."""

    def is_one(dtype: Any) -> Any:
        def check(cls: type, value: object) -> bool:
            return isinstance(value, Tensor) and value.is_sparse and value.dtype is dtype

        return check

    classes = {}
    for name in _legacy.__all__:
        if not name.endswith("Tensor") or name == "Tensor":
            continue
        dtype = getattr(_legacy, name).dtype
        meta = type(f"_{name}Meta", (type,), {"__instancecheck__": is_one(dtype)})
        doc = f"COO tensors of {dtype}; has no instances of its own."
        classes[name] = meta(name, (), {"__module__": __name__, "__doc__": doc, "dtype": dtype})
    return classes


globals().update(_typed_classes())
