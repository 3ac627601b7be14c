"""Prefixes of an associative operation.

Source:
    torch._higher_order_ops.associative_scan; Hillis and Steele, "Data parallel algorithms", 1986.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

__all__ = ["associative_scan"]

Leaves = list[Tensor]


def _by_doubling(combine: Callable[[Leaves, Leaves], Leaves], leaves: Leaves) -> Leaves:
    """Combine each position with the one 1, 2, 4, ... before it, all positions at once."""
    step, length = 1, leaves[0].shape[0]
    while step < length:
        later = combine([x[:-step] for x in leaves], [x[step:] for x in leaves])
        leaves = [shmtensor.cat([x[:step], new]) for x, new in zip(leaves, later, strict=True)]
        step *= 2
    return leaves


def _one_by_one(combine: Callable[[Leaves, Leaves], Leaves], leaves: Leaves) -> Leaves:
    """Combine what there is so far with the next position, without the dimension."""
    results = [[x[0] for x in leaves]]
    for i in range(1, leaves[0].shape[0]):
        results.append(combine(results[-1], [x[i] for x in leaves]))
    return [shmtensor.stack(list(column)) for column in zip(*results, strict=True)]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Return what the operation makes of the first element, the first two, and so on along *dim*.

    Args:
        combine_fn: Takes two values and returns one, each of the structure of *xs*; associative.
        xs: A tensor, or a tree of tensors of one shape.
        dim: The dimension.
        reverse: Begin at the end.
        combine_mode: ``"pointwise"`` for an operation on single elements, which is called with
            many positions at once; ``"generic"`` for any, which is called for each position.

    Returns:
        A tree like *xs* of tensors of its shapes.

    Raises:
        ValueError: *combine_fn* is not a function, *combine_mode* is unknown, or no tensor came.
        RuntimeError: The tensors have other lengths along *dim*.
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}"
        )
    leaves, structure = tree_flatten(xs)
    if not leaves or not all(isinstance(x, Tensor) for x in leaves):
        raise ValueError(f"xs leaves must be Tensors, at least one, but got {leaves}")
    lengths = {x.shape[dim] for x in leaves}
    if len(lengths) > 1:
        raise RuntimeError(f"xs leaves must have one size along dim {dim}, got {sorted(lengths)}")

    def combine(before: Leaves, after: Leaves) -> Leaves:
        made = combine_fn(tree_unflatten(before, structure), tree_unflatten(after, structure))
        return tree_leaves(made)

    moved = [x.movedim(dim, 0) for x in leaves]
    if reverse:
        moved = [x.flip(0) for x in moved]
    if lengths != {0}:
        moved = (_by_doubling if combine_mode == "pointwise" else _one_by_one)(combine, moved)
    if reverse:
        moved = [x.flip(0) for x in moved]
    return tree_unflatten([x.movedim(0, dim) for x in moved], structure)
