"""Collectives that return a new tensor instead of writing into a given one.

They return when the result is there, so `wait_tensor` has nothing to wait for.

Source:
    torch.distributed._functional_collectives.
"""

from __future__ import annotations

from typing import Any

from shmtensor import _C
from shmtensor._core._not_offered import unavailable_class, unavailable_names
from shmtensor._core._tensor import Tensor
from shmtensor.distributed import _collectives as collectives
from shmtensor.distributed._group import get_world_size
from shmtensor.distributed._names import ReduceOp

_REFUSED = ["permute_tensor"]

__all__ = [
    "AsyncCollectiveTensor",
    "all_gather_tensor",
    "all_reduce",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "reduce_scatter_tensor",
    "wait_tensor",
    *_REFUSED,
]

__getattr__, __dir__ = unavailable_names(
    __name__, _REFUSED, "of the collectives that return tensors, this one is not here"
)

AsyncCollectiveTensor: Any = unavailable_class(
    "AsyncCollectiveTensor", __name__, "collectives wait for their result here"
)


def _op(name: Any) -> Any:
    return ReduceOp[name.upper()] if isinstance(name, str) else name


def wait_tensor(tensor: Tensor) -> Tensor:
    """Return *tensor*, which is complete."""
    return tensor


def broadcast(self: Tensor, src: int, group: Any = None, tag: str = "") -> Tensor:
    """Return rank *src*'s tensor.

    Args:
        self: The tensor to send; on the other ranks only its shape and dtype count.
        src: Global rank that sends.
        group: The group; None: all ranks.
        tag: Ignored.
    """
    result = self.clone()
    collectives.broadcast(result, src, group)
    return result


def all_reduce(self: Tensor, reduceOp: str, group: Any = None, tag: str = "") -> Tensor:
    """Return the combination of all ranks' tensors.

    Args:
        self: Of the same shape and dtype on all ranks.
        reduceOp: ``"sum"``, ``"avg"``, ``"product"``, ``"min"``, ``"max"``.
        group: The group; None: all ranks.
        tag: Ignored.
    """
    result = self.clone()
    collectives.all_reduce(result, _op(reduceOp), group)
    return result


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any = None, tag: str = "") -> Tensor:
    """Return all ranks' tensors, joined along *gather_dim*.

    Args:
        self: Of the same shape and dtype on all ranks.
        gather_dim: Dimension that grows by the number of ranks.
        group: The group; None: all ranks.
        tag: Ignored.
    """
    parts = [_C.empty_like(self) for _ in range(get_world_size(group))]
    collectives.all_gather(parts, self.contiguous(), group)
    result: Tensor = _C.cat(parts, gather_dim)
    return result


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any = None, tag: str = ""
) -> Tensor:
    """Return this rank's part of the combination of all ranks' tensors.

    Args:
        self: Of the same shape and dtype on all ranks.
        reduceOp: As in `all_reduce`.
        scatter_dim: Dimension that is divided among the ranks.
        group: The group; None: all ranks.
        tag: Ignored.

    Raises:
        AssertionError: The size of *scatter_dim* is not a multiple of the number of ranks.
    """
    size = get_world_size(group)
    assert self.size(scatter_dim) % size == 0, (
        f"dimension {scatter_dim} has {self.size(scatter_dim)} elements, "
        f"not a multiple of {size} ranks"
    )
    parts = [part.contiguous() for part in self.chunk(size, scatter_dim)]
    result = _C.empty_like(parts[0])
    collectives.reduce_scatter(result, parts, _op(reduceOp), group)
    return result


def all_to_all_single(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any = None,
    tag: str = "",
) -> Tensor:
    """Send a part of *self* to every rank, and return what they send, joined along dimension 0.

    Args:
        self: What to send.
        output_split_sizes: Rows that come from each rank; None: as many as go there.
        input_split_sizes: Rows for each rank; None: equal parts.
        group: The group; None: all ranks.
        tag: Ignored.
    """
    rows = self.size(0) if output_split_sizes is None else sum(output_split_sizes)
    result: Tensor = self.new_empty((rows, *self.shape[1:]))
    collectives.all_to_all_single(
        result, self.contiguous(), output_split_sizes, input_split_sizes, group
    )
    return result


def all_to_all_single_autograd(
    self: Tensor,
    output_split_sizes: list[int] | None,
    input_split_sizes: list[int] | None,
    group: Any = None,
    tag: str = "",
) -> Tensor:
    """`all_to_all_single` with a derivative: gradients take the way back."""
    from shmtensor.distributed.nn.functional import _AllToAllSingle  # it imports this module

    result: Tensor = _AllToAllSingle.apply(self, output_split_sizes, input_split_sizes, group)
    return result
