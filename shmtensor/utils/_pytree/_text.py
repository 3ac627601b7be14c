"""Structures of trees as JSON texts."""

from __future__ import annotations

import enum
import json
import warnings
from importlib import import_module
from typing import Any

from shmtensor.utils._pytree._nodes import SERIALIZED, Serialization
from shmtensor.utils._pytree._spec import TreeSpec, treespec_leaf

__all__ = [
    "pytree_to_str",
    "str_to_pytree",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
]

_PROTOCOL = 1


class _Encoder(json.JSONEncoder):
    def default(self, obj: Any) -> Any:
        if isinstance(obj, enum.Enum):
            kind = type(obj)
            return {
                "__enum__": True,
                "fqn": f"{kind.__module__}:{kind.__qualname__}",
                "name": obj.name,
            }
        return super().default(obj)


def _decode_enum(obj: dict[str, Any]) -> Any:
    if "__enum__" not in obj:
        return obj
    module, _, name = obj["fqn"].partition(":")
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found[obj["name"]]


def _refuse_other_protocols(protocol: Any) -> None:
    if protocol != _PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [{_PROTOCOL}]")


def _to_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    known = SERIALIZED.get(spec.type)
    if known is None or known.serialized_type_name is None:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your "
            "_register_pytree_node call with a `serialized_type_name` kwarg."
        )
    if known.to_dumpable_context is not None:
        context = known.to_dumpable_context(spec.context)
    else:
        try:
            context = json.dumps(spec.context, cls=_Encoder)
        except TypeError as error:
            raise TypeError(
                "Unable to serialize context. Please make the context json dump-able, or register "
                "a custom serializer using _register_pytree_node."
            ) from error
    return {
        "type": known.serialized_type_name,
        "context": context,
        "children_spec": [_to_json(child) for child in spec.children_specs],
    }


def _from_json(found: dict[str, Any]) -> TreeSpec:
    if found["type"] is None and found["context"] is None and not found["children_spec"]:
        return treespec_leaf()
    known: Serialization | None = None
    for each in SERIALIZED.values():
        if each.serialized_type_name == found["type"]:
            known = each
    if known is None:
        raise NotImplementedError(f"Deserializing {found['type']} in pytree is not registered.")
    if known.from_dumpable_context is not None:
        context = known.from_dumpable_context(found["context"])
    else:
        context = json.loads(found["context"], object_hook=_decode_enum)
    children = [_from_json(child) for child in found["children_spec"]]
    return TreeSpec(known.typ, context, children)


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return a structure as a text: JSON that torch reads too.

    Args:
        treespec: The structure.
        protocol: 1, the only one.

    Raises:
        TypeError: It is no structure.
        ValueError: There is no such protocol.
        NotImplementedError: A class of nodes has no name for this.
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "Expected `treespec` to be an instance of PyTreeSpec but got item of type "
            f"{type(treespec)}."
        )
    _refuse_other_protocols(_PROTOCOL if protocol is None else protocol)
    return json.dumps([_PROTOCOL, _to_json(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the structure that `treespec_dumps` has written.

    Raises:
        ValueError: It was written with another protocol.
        NotImplementedError: A class of nodes is not known here.
    """
    protocol, found = json.loads(serialized)
    _refuse_other_protocols(protocol)
    return _from_json(found)


class _Asterisk:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return the tree of a structure as Python prints it, with ``*`` for leaves."""
    return repr(treespec.unflatten([_Asterisk()] * treespec.num_leaves))


def _is_old(old: str, new: str) -> None:
    warnings.warn(
        f"`{old}` is deprecated. Please use `{new}` instead.", FutureWarning, stacklevel=3
    )


def pytree_to_str(treespec: TreeSpec) -> str:
    """Return `treespec_dumps` of a structure; this is an older name."""
    _is_old("pytree_to_str", "treespec_dumps")
    return treespec_dumps(treespec)


def str_to_pytree(json: str) -> TreeSpec:
    """Return `treespec_loads` of a text; this is an older name."""
    _is_old("str_to_pytree", "treespec_loads")
    return treespec_loads(json)
