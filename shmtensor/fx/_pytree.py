"""Collections taken apart by a given description, which the code of traced functions does.

A function that was traced with collections among its arguments may be called with other ones of
the same shape: what stands in them under the description's keys and positions is taken.

Source:
    torch.fx._pytree.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from shmtensor.utils._pytree import TreeSpec

__all__ = ["register_pytree_flatten_spec", "tree_flatten_spec"]

FlattenFuncSpec = Callable[[Any, TreeSpec], list[Any]]
FlattenFuncExactMatchSpec = Callable[[Any, TreeSpec], bool]

#: How objects of a class are taken apart, and how they are compared with the description.
SUPPORTED_NODES: dict[type[Any], FlattenFuncSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[type[Any], FlattenFuncExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: type[Any],
    flatten_fn_spec: FlattenFuncSpec,
    flatten_fn_exact_match_spec: FlattenFuncExactMatchSpec | None = None,
) -> None:
    """Say how objects of a class are taken apart.

    Args:
        cls: The class.
        flatten_fn_spec: Takes an object and the description, and returns the children.
        flatten_fn_exact_match_spec: Returns whether an object has just the described children.
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _children(tree: Any, spec: TreeSpec) -> list[Any]:
    kind: Any = spec.type
    if kind not in SUPPORTED_NODES:
        raise RuntimeError(
            f"{type(tree)} does not have a flatten_fn_spec associated with it. Please register one "
            "with register_pytree_flatten_spec of shmtensor.fx._pytree"
        )
    return SUPPORTED_NODES[kind](tree, spec)


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """Return the leaves of a tree that a description has, in its order.

    Args:
        pytree: The tree.
        spec: The description.

    Raises:
        RuntimeError: A class in the description is not registered here.
    """
    if spec.is_leaf():
        return [pytree]
    found: list[Any] = []
    for child, described in zip(_children(pytree, spec), spec.children(), strict=True):
        found += tree_flatten_spec(child, described)
    return found


def _flatten_dict(d: dict[Any, Any], spec: TreeSpec) -> list[Any]:
    return [d[key] for key in spec.context]


def _flatten_sequence(items: Any, spec: TreeSpec) -> list[Any]:
    return [items[i] for i in range(spec.num_children)]


class _Named(NamedTuple):
    """Only to ask `pytree` by which class it knows named tuples."""

    one: Any


def _register() -> None:
    from shmtensor.utils._pytree import tree_structure

    for kind in (list, tuple, tree_structure(_Named(0)).type):
        register_pytree_flatten_spec(
            kind, _flatten_sequence, lambda items, spec: len(items) == spec.num_children
        )
    for kind in (dict, OrderedDict):
        register_pytree_flatten_spec(
            kind, _flatten_dict, lambda d, spec: len(d) == spec.num_children
        )


_register()
