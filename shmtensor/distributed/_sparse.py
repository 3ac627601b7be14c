"""Sums of sparse tensors over the ranks of a group.

The ranks hold different numbers of entries, at different places. Each gathers the entries of all,
padded to the longest list, and adds up those of one place; the order is the ranks', so that all
get bitwise equal sums.
"""

from __future__ import annotations

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.autograd import no_grad
from shmtensor.distributed._backend import Collectives
from shmtensor.sparse._construct import sparse_coo_tensor

__all__ = ["all_reduce_sparse"]


def all_reduce_sparse(tensor: Tensor, backend: Collectives, n_ranks: int) -> None:
    """Replace a COO tensor by the sum of all ranks' tensors.

    Raises:
        RuntimeError: The ranks' tensors differ in shape, or in the number of sparse dimensions.
    """
    own = tensor.detach().coalesce()
    facts = _C.tensor([own._nnz(), own.sparse_dim(), own.dense_dim(), *own.shape])
    all_facts = _gathered(facts, backend, n_ranks)
    for rank, theirs in enumerate(all_facts):
        if not _C.equal(theirs[1:], facts[1:]):
            raise RuntimeError(
                f"all_reduce of a sparse tensor of shape {tuple(own.shape)} with sparse_dim "
                f"{own.sparse_dim()}: rank {rank} has shape {tuple(theirs[3:].tolist())} with "
                f"sparse_dim {int(theirs[1])}"
            )
    counts = [int(theirs[0]) for theirs in all_facts]
    indices = _gathered_entries(own.indices().t(), counts, backend).t()
    values = _gathered_entries(own.values(), counts, backend)
    total = sparse_coo_tensor(indices, values, own.shape, check_invariants=False)
    with no_grad():
        tensor.copy_(total.coalesce())


def _gathered(tensor: Tensor, backend: Collectives, n_ranks: int) -> list[Tensor]:
    outputs = [_C.empty_like(tensor) for _ in range(n_ranks)]
    backend.all_gather(outputs, tensor)
    return outputs


def _gathered_entries(entries: Tensor, counts: list[int], backend: Collectives) -> Tensor:
    """The first dimension of all ranks' *entries*, one after the other."""
    padded = _C.zeros([max(counts), *entries.shape[1:]], dtype=entries.dtype)
    padded[: len(entries)] = entries
    everybodys = _gathered(padded, backend, len(counts))
    found: Tensor = _C.cat([part[:n] for part, n in zip(everybodys, counts, strict=True)])
    return found
