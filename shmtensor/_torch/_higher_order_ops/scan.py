"""A loop over the slices of tensors that carries values along.

Source:
    torch._higher_order_ops.scan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor.utils._pytree import tree_leaves, tree_map

__all__ = ["scan"]


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Call ``carry, result = combine_fn(carry, slice)`` for each slice of *xs* along *dim*.

    Args:
        combine_fn: Takes what is carried and a slice, and returns what is carried and a result.
        init: What is carried at first: a tensor or a tree of tensors.
        xs: A tensor or a tree of tensors of one length along *dim*.
        dim: The dimension.
        reverse: Begin at the end; the results are in the order of *xs* all the same.

    Returns:
        What is carried at last, and the results, stacked along a new dimension *dim*.

    Raises:
        RuntimeError: *combine_fn* is not a function, or *xs* has no tensors, no slices, or tensors
            of other lengths.
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    lengths = {x.shape[dim] for x in tree_leaves(xs)}
    if len(lengths) != 1 or 0 in lengths:
        raise RuntimeError(
            f"All xs leaves must have one size along dim {dim} that is not 0, got {sorted(lengths)}"
        )
    order = range(next(iter(lengths)))
    carry, results = init, []
    for i in reversed(order) if reverse else order:
        carry, result = combine_fn(carry, tree_map(lambda x, i=i: x.select(dim, i), xs))
        results.append(result)
    if reverse:
        results.reverse()
    return carry, tree_map(lambda *parts: shmtensor.stack(parts, dim), *results)
