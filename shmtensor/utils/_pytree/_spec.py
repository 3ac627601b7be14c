"""The structure of a tree: its nodes without the leaves."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from shmtensor.utils._pytree._nodes import (
    STANDARD_DICT_TYPES,
    SUPPORTED_NODES,
    ConstantNode,
    _get_node_type,
)

__all__ = [
    "LeafSpec",
    "PyTreeSpec",
    "TreeSpec",
    "treespec_dict",
    "treespec_leaf",
    "treespec_tuple",
]


class TreeSpec:
    """A node of a structure. Two are equal when classes, contexts and children are.

    Args:
        type: The class of the node; None for a leaf.
        context: What it is made of besides its children.
        children_specs: The structures of its children.
    """

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec]) -> None:
        self._type = type
        self._context = context
        self._children = children_specs
        self.num_children = len(children_specs)
        self.num_nodes: int = 1 + sum(child.num_nodes for child in children_specs)
        self.num_leaves: int = (
            1 if type is None else sum(child.num_leaves for child in children_specs)
        )

    @property
    def type(self) -> Any:
        """The class of the node; None for a leaf."""
        return self._type

    @property
    def context(self) -> Any:
        """What the node is made of besides its children."""
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        """The structures of the children."""
        return self._children

    def children(self) -> list[TreeSpec]:
        """Return the structures of the children."""
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        """Return the structure of one child."""
        return self._children[index]

    def is_leaf(self) -> bool:
        """Return whether this is a leaf."""
        return self._type is None

    # --- text and comparison ---------------------------------------------------------------------

    def _text(self, indent: int) -> str:
        if self.is_leaf():
            return "*"
        inner = indent + 2
        children = [child._text(inner) for child in self._children]
        listed = f",\n{' ' * inner}".join(children)
        return f"TreeSpec({self._type.__name__}, {self._context}, [{listed}])"

    def __repr__(self) -> str:
        return self._text(0)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (
            self._type == other._type
            and self._context == other._context
            and self._children == other._children
        )

    def __hash__(self) -> int:
        context = self._context
        if self._type in STANDARD_DICT_TYPES:
            context = tuple(str(each) for each in context)
        elif isinstance(context, list):
            context = str(context)
        return hash((self._type, context, tuple(self._children)))

    # --- taking trees apart and putting them together --------------------------------------------

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return what stands in *tree* where this structure has leaves.

        Raises:
            ValueError: The tree has other nodes than the structure, down to its leaves.
        """
        found: list[Any] = []
        self._flatten_up_to(tree, found)
        return found

    def _flatten_up_to(self, tree: Any, found: list[Any]) -> None:
        if self.is_leaf():
            found.append(tree)
            return
        children = self._matching_children(tree, _get_node_type(tree))
        for spec, child in zip(self._children, children, strict=True):
            spec._flatten_up_to(child, found)

    def _matching_children(self, tree: Any, kind: Any) -> list[Any]:
        """The children of a node that must be like this one, in this one's order."""
        both_dicts = self._type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if kind != self._type and not both_dicts:
            raise ValueError(f"Node type mismatch; expected {self._type!r}, but got {kind!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != self.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {self.num_children}, but got {len(children)}."
            )
        if both_dicts:
            keys = self._context[1] if self._type is defaultdict else self._context
            if set(keys) != set(tree):
                missing, extra = set(keys) - set(tree), set(tree) - set(keys)
                raise ValueError(
                    "Node keys mismatch"
                    + (f"; missing key(s): {missing}" if missing else "")
                    + (f"; extra key(s): {extra}" if extra else "")
                    + "."
                )
            return [tree[key] for key in keys]
        if kind is not deque and context != self._context:  # a deque's limit does not count
            raise ValueError(
                f"Node context mismatch for node type {self._type!r}; expected {self._context!r}, "
                f"but got {context!r}."
            )
        return children

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree of this structure with these leaves.

        Raises:
            ValueError: They are too many, or too few.
        """
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec "
                f"refers to a pytree that holds {self.num_leaves} items ({self})."
            )
        return self._unflatten(iter(leaves))

    def _unflatten(self, leaves: Any) -> Any:
        if self.is_leaf():
            return next(leaves)
        children = [child._unflatten(leaves) for child in self._children]
        return SUPPORTED_NODES[self._type].unflatten_fn(children, self._context)


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])


_LEAF = LeafSpec()


def treespec_leaf() -> LeafSpec:
    """Return the structure of a leaf."""
    return _LEAF


def _checked(specs: list[Any], what: str) -> None:
    if not all(isinstance(each, TreeSpec) for each in specs):
        raise ValueError(f"Expected a {what} of TreeSpec values, got: {specs}.")


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """Return the structure of a tuple of such structures.

    Raises:
        ValueError: Something else is among them.
    """
    children = list(iterable)
    _checked(children, "tuple")
    return TreeSpec(tuple, None, children)


def treespec_dict(
    mapping: Mapping[Any, TreeSpec] | Iterable[tuple[Any, TreeSpec]] = (),
    /,
    **kwargs: TreeSpec,
) -> TreeSpec:
    """Return the structure of a dict of such structures.

    Raises:
        ValueError: Something else is among them.
    """
    children = dict(mapping, **kwargs)
    _checked(list(children.values()), "dictionary")
    return TreeSpec(dict, list(children), list(children.values()))


def _is_constant_holder(spec: TreeSpec) -> bool:
    """Return whether the structure is of an object that `register_constant` made a node."""
    return isinstance(spec.context, ConstantNode)


def _retrieve_constant(spec: TreeSpec) -> Any:
    """Return that object."""
    assert _is_constant_holder(spec)
    return spec.unflatten([])
