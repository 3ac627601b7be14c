"""Operations on sparse tensors; docs/sparse.md says what there is.

The tensors are ordinary ones with another layout: they are made by `shmtensor.sparse_coo_tensor`
and its like, by ``to_sparse``, and by the backward of embeddings with ``sparse=True``.
"""

from __future__ import annotations

from shmtensor._core._sparse_legacy import classes
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


globals().update(classes(__name__))
