"""Functions on trees: leaves, structures, and maps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from types import UnionType
from typing import Any

from shmtensor.utils._pytree._nodes import SUPPORTED_NODES, _get_node_type
from shmtensor.utils._pytree._spec import TreeSpec, treespec_leaf

__all__ = [
    "Context",
    "PyTree",
    "arg_tree_leaves",
    "key_get",
    "keystr",
    "map_only",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any
Context = Any
KeyPath = tuple[Any, ...]
IsLeaf = Callable[[Any], bool] | None


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether a tree is a leaf.

    Args:
        tree: Any object.
        is_leaf: Says whether a node counts as a leaf.
    """
    if is_leaf is not None and is_leaf(tree):
        return True
    return _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


# --- leaves and structures -----------------------------------------------------------------------


def _collect(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    kind = _get_node_type(tree)
    if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return treespec_leaf()
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_collect(child, leaves, is_leaf) for child in children])


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves of a tree from left to right, and its structure.

    Args:
        tree: Any object.
        is_leaf: Says whether a node counts as a leaf.
    """
    leaves: list[Any] = []
    spec = _collect(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """Return the tree of a structure with these leaves.

    Raises:
        TypeError: *treespec* is no structure.
        ValueError: The leaves are too many, or too few.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """Give the leaves of a tree one after another."""
    kind = _get_node_type(tree)
    if kind not in SUPPORTED_NODES or (is_leaf is not None and is_leaf(tree)):
        yield tree
        return
    for child in SUPPORTED_NODES[kind].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree from left to right."""
    return list(tree_iter(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """Return the leaves of all arguments."""
    leaves: list[Any] = []
    for each in (*args, *kwargs.values()):
        leaves += tree_iter(each)
    return leaves


# --- maps ----------------------------------------------------------------------------------------


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Return a tree with *func* of each leaf of a tree.

    Args:
        func: Called with a leaf, and with what is in its place in each of *rests*.
        tree: Gives the structure.
        *rests: Trees that have the nodes of *tree* at least.
        is_leaf: Says whether a node counts as a leaf.

    Raises:
        ValueError: One of *rests* has other nodes.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten([func(*row) for row in zip(*columns, strict=True)])


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call *func* as `tree_map` does, for what it does to the leaves; returns *tree* itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    for row in zip(*columns, strict=True):
        func(*row)
    return tree


Chooser = type[Any] | tuple[type[Any], ...] | UnionType | Callable[[Any], bool]


def _is_one_of(kinds: Any, value: Any) -> bool:
    return isinstance(value, kinds)


def map_only(chooser: Chooser, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator: the function is called with what is chosen, the rest stays as it is.

    Args:
        chooser: A type, a tuple or union of types, or a function that says yes or no.

    Raises:
        TypeError: Something else.
    """
    chosen: Callable[[Any], bool]
    if isinstance(chooser, (type, tuple, UnionType)):
        chosen = functools.partial(_is_one_of, chooser)
    elif callable(chooser):
        chosen = chooser
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def wrapped(value: Any) -> Any:
            return func(value) if chosen(value) else value

        return wrapped

    return decorate


def tree_map_only(
    chooser: Chooser, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Map the leaves that are chosen (see `map_only`), and keep the others."""
    return tree_map(map_only(chooser)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    chooser: Chooser, /, func: Callable[[Any], Any], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call *func* with the leaves that are chosen (see `map_only`); returns *tree* itself."""
    return tree_map_(map_only(chooser)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether *pred* is true of all leaves."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether *pred* is true of any leaf."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf))


def tree_all_only(
    kinds: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Return whether *pred* is true of all leaves of some types."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, kinds))


def tree_any_only(
    kinds: Any, /, pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Return whether *pred* is true of any leaf of some types."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, kinds))


def _broadcast_to_and_flatten(
    tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None
) -> list[Any] | None:
    """Return a leaf of *tree* for each leaf of a structure, or None when they do not fit.

    A leaf of the tree stands for all leaves of the structure that are below its place.
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    if treespec.is_leaf() or kind != treespec.type:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found


# --- paths ---------------------------------------------------------------------------------------


def _with_paths(tree: Any, path: KeyPath, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    kind = _get_node_type(tree)
    flatten = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if flatten is None:
        raise ValueError(
            f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a "
            "flatten_with_keys_fn argument to register_pytree_node."
        )
    for key, child in flatten(tree)[0]:
        yield from _with_paths(child, (*path, key), is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Return pairs of the keys that lead to a leaf, and the leaf.

    Raises:
        ValueError: A class of nodes was registered without a function for this.
    """
    return list(_with_paths(tree, (), is_leaf))


def tree_flatten_with_path(
    tree: PyTree, is_leaf: IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return pairs of the keys that lead to a leaf and the leaf, and the structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Map as `tree_map` does; *func* is given the keys that lead to the leaf first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    rows = zip(*zip(*pairs, strict=True), *columns, strict=True) if pairs else ()
    return spec.unflatten([func(*row) for row in rows])


def keystr(kp: KeyPath) -> str:
    """Return keys as Python would write them after the tree: ``['a'][1].b``."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return what some keys lead to in a tree."""
    for key in kp:
        obj = key.get(obj)
    return obj
