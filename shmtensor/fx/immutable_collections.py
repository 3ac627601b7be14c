"""Lists and dicts that cannot be changed: the arguments of nodes are made of them.

A node's users are kept in step with its arguments, so those change only by assigning new ones.

Source:
    torch.fx.immutable_collections.
"""

from __future__ import annotations

from typing import Any, NoReturn

from shmtensor.utils._pytree import register_pytree_node

__all__ = ["immutable_dict", "immutable_list"]


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. To change the args or kwargs "
        "of a node, assign a changed copy to node.args or node.kwargs"
    )


class immutable_list(list[Any]):
    """A list that cannot be changed."""

    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Any, Any]):
    """A dict that cannot be changed."""

    __delitem__ = __ior__ = __setitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)


register_pytree_node(
    immutable_list, lambda each: (list(each), None), lambda items, _: immutable_list(items)
)
register_pytree_node(
    immutable_dict,
    lambda each: (list(each.values()), list(each)),
    lambda values, keys: immutable_dict(zip(keys, values, strict=True)),
)
