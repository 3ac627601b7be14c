"""A function of each slice of tensors.

Source:
    torch._higher_order_ops.map.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor.utils._pytree import tree_leaves, tree_map

__all__ = ["map"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """Return ``f(slice, *args)`` for each slice of *xs* along its first dimension, stacked.

    Args:
        f: Takes a slice, and returns a tensor or a tree of tensors.
        xs: A tensor or a tree of tensors of one length.
        *args: Further arguments.

    Raises:
        RuntimeError: There is no slice, or the tensors have other lengths.
    """
    lengths = {x.shape[0] for x in tree_leaves(xs)}
    if len(lengths) != 1 or 0 in lengths:
        raise RuntimeError(f"Leading dimensions of mapped xs must be equal and not 0: {lengths}")
    results = [f(tree_map(lambda x, i=i: x[i], xs), *args) for i in range(next(iter(lengths)))]
    return tree_map(lambda *parts: shmtensor.stack(parts), *results)
