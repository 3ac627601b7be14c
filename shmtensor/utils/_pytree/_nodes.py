"""Which classes are nodes of trees, how each is taken apart, and how it is made again."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from shmtensor import _C

__all__ = [
    "BUILTIN_TYPES",
    "ConstantNode",
    "GetAttrKey",
    "KeyEntry",
    "MappingKey",
    "NAMEDTUPLE",
    "NodeDef",
    "SERIALIZED",
    "STANDARD_DICT_TYPES",
    "SUPPORTED_NODES",
    "SequenceKey",
    "Serialization",
    "is_constant_class",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
]

#: What stands for the class of every named tuple.
NAMEDTUPLE: Any = namedtuple


# --- keys ----------------------------------------------------------------------------------------


class KeyEntry(Protocol):
    """A step on the way to a leaf: it finds a child of a node, and prints as Python would."""

    def __hash__(self) -> int: ...

    def __eq__(self, other: object) -> bool: ...

    def __str__(self) -> str: ...

    def get(self, parent: Any) -> Any:
        """Return the child of *parent*."""
        ...


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """A step to an element by its number."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return the element."""
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A step to an element by its key."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return the element."""
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """A step to an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return the attribute."""
        return getattr(obj, self.name)


# --- the register --------------------------------------------------------------------------------

FlattenFn = Callable[[Any], tuple[list[Any], Any]]
UnflattenFn = Callable[[Iterable[Any], Any], Any]
FlattenWithKeysFn = Callable[[Any], tuple[list[tuple[Any, Any]], Any]]
ContextFn = Callable[[Any], Any]


class NodeDef(NamedTuple):
    """How a class of nodes is taken apart and made again."""

    type: Any
    flatten_fn: FlattenFn
    unflatten_fn: UnflattenFn
    flatten_with_keys_fn: FlattenWithKeysFn | None


class Serialization(NamedTuple):
    """What a class of nodes is called in a text, and how its context is written."""

    typ: Any
    serialized_type_name: str | None
    to_dumpable_context: ContextFn | None
    from_dumpable_context: ContextFn | None


SUPPORTED_NODES: dict[Any, NodeDef] = {}
SERIALIZED: dict[Any, Serialization] = {}
_CONSTANTS: set[type] = set()


def register_pytree_node(
    cls: type[Any],
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ContextFn | None = None,
    from_dumpable_context: ContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Let objects of a class, but not of its subclasses, be nodes.

    Args:
        cls: The class.
        flatten_fn: Takes an object; returns its children as a list, and a context: whatever else
            the object is made of, which can be compared.
        unflatten_fn: Takes children and a context; returns an object.
        serialized_type_name: Names the class in texts of `treespec_dumps`.
        to_dumpable_context: Makes of a context what JSON can hold.
        from_dumpable_context: Undoes that.
        flatten_with_keys_fn: As *flatten_fn*, with pairs of a key and a child for children.

    Raises:
        ValueError: The class is registered, or only one of the two functions for contexts is given.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(
        cls,
        flatten_fn,
        unflatten_fn,
        serialized_type_name=serialized_type_name,
        to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
        flatten_with_keys_fn=flatten_with_keys_fn,
    )


def _private_register_pytree_node(
    cls: Any,
    flatten_fn: FlattenFn,
    unflatten_fn: UnflattenFn,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: ContextFn | None = None,
    from_dumpable_context: ContextFn | None = None,
    flatten_with_keys_fn: FlattenWithKeysFn | None = None,
) -> None:
    """Register a class that may be known already; see `register_pytree_node`."""
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(
            f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
            "registered."
        )
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SERIALIZED[cls] = Serialization(
        cls, serialized_type_name, to_dumpable_context, from_dumpable_context
    )


def _register_pytree_node(
    cls: type[Any], flatten_fn: FlattenFn, unflatten_fn: UnflattenFn, **options: Any
) -> None:
    """Register a class; the older name of `register_pytree_node`, for classes known or not."""
    for unused in ("to_str_fn", "maybe_from_str_fn"):
        options.pop(unused, None)
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls: type[Any]) -> None:
    """Forget a class; its objects are leaves again.

    Raises:
        KeyError: It is not known.
    """
    del SUPPORTED_NODES[cls]
    del SERIALIZED[cls]
    _CONSTANTS.discard(cls)


def register_dataclass(
    cls: type[Any],
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Let objects of a data class be nodes; their fields that are not None are the children.

    Args:
        cls: The class. It need be no data class where *field_names* says what it has.
        field_names: The fields that ``__init__`` takes; all such of a data class when left out.
        drop_field_names: Fields of a data class that are left out, and have a default.
        serialized_type_name: As for `register_pytree_node`.

    Raises:
        ValueError: *field_names* and *drop_field_names* are not all fields.
    """
    dropped = set(drop_field_names or ())
    if dataclasses.is_dataclass(cls):
        known = [f.name for f in dataclasses.fields(cls) if f.init]
        if field_names is None:
            field_names = [name for name in known if name not in dropped]
        else:
            missing = set(known) - set(field_names) - dropped
            unknown = set(field_names) - set(known)
            if missing or unknown:
                problems = ""
                if missing:
                    problems += (
                        f"Missing fields in `field_names`: {missing}. If you want to include these "
                        "fields in the pytree, please add them to `field_names`, otherwise please "
                        "add them to `drop_field_names`.\n"
                    )
                if unknown:
                    problems += f"`field_names` that the class does not have: {unknown}.\n"
                raise ValueError(f"field_names does not include all dataclass fields.\n{problems}")
    elif field_names is None:
        raise ValueError(
            "field_names must be specified with a list of all fields used to initialize "
            f"{cls}, as it is not a dataclass."
        )
    names = list(field_names)

    def split(obj: Any) -> tuple[list[str], list[str]]:
        absent = [name for name in names if getattr(obj, name) is None]
        return [name for name in names if name not in absent], absent

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        present, absent = split(obj)
        return [getattr(obj, name) for name in present], [present, absent]

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Any]:
        present, absent = split(obj)
        return [(GetAttrKey(name), getattr(obj, name)) for name in present], [present, absent]

    def unflatten(values: Iterable[Any], context: Any) -> Any:
        present, absent = context
        return cls(**dict(zip(present, values, strict=True)), **dict.fromkeys(absent))

    _private_register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


@dataclasses.dataclass(frozen=True)
class ConstantNode:
    """The context of a node without children that is the same object in every tree."""

    value: Any


def register_constant(cls: type[Any]) -> None:
    """Let objects of a class be nodes without children; they must be comparable and hashable.

    Raises:
        TypeError: The class compares or hashes by identity.
    """
    if cls.__eq__ is object.__eq__:  # type: ignore[comparison-overlap]
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__eq__` implementation."
        )
    if cls.__hash__ in (None, object.__hash__):  # type: ignore[comparison-overlap]
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__hash__` implementation."
        )

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        return [], ConstantNode(obj)

    def unflatten(values: Iterable[Any], context: Any) -> Any:
        return context.value

    def flatten_with_keys(obj: Any) -> tuple[list[tuple[Any, Any]], Any]:
        return [], ConstantNode(obj)

    _private_register_pytree_node(cls, flatten, unflatten, flatten_with_keys_fn=flatten_with_keys)
    _CONSTANTS.add(cls)


def is_constant_class(cls: type[Any]) -> bool:
    """Return whether `register_constant` was told of the class."""
    return isinstance(cls, type) and cls in _CONSTANTS


# --- tuples with names ---------------------------------------------------------------------------


def is_namedtuple_class(cls: type) -> bool:
    """Return whether a class is one of named tuples, or a subclass of such."""
    if not (isinstance(cls, type) and issubclass(cls, tuple)):
        return False
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(fields, tuple)
        and all(isinstance(name, str) for name in fields)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_namedtuple_instance(obj: object) -> bool:
    """Return whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: object | type) -> bool:
    """Return whether an object is a named tuple, or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: type) -> bool:
    """Return whether a class is one of tuples with names that C code makes."""
    return (
        isinstance(cls, type)
        and cls.__bases__ == (tuple,)
        and all(
            isinstance(getattr(cls, name, None), int)
            for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields")
        )
    )


def is_structseq_instance(obj: object) -> bool:
    """Return whether an object is a tuple with names that C code has made."""
    return is_structseq_class(type(obj))


def is_structseq(obj: object | type) -> bool:
    """Return whether an object is a tuple with names that C code has made, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(tree: Any) -> Any:
    """What a node's class is found by in `SUPPORTED_NODES`; for leaves, something not there."""
    kind = type(tree)
    if kind in SUPPORTED_NODES:
        return kind
    if isinstance(tree, tuple):
        if is_namedtuple_class(kind):
            return NAMEDTUPLE
        if kind.__module__ == "torch.return_types":  # so named, as texts are
            _register_result(kind)
    return kind


# --- Python's containers -------------------------------------------------------------------------


def _by_number(flatten: FlattenFn) -> FlattenWithKeysFn:
    def with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, context = flatten(node)
        return [(SequenceKey(i), child) for i, child in enumerate(children)], context

    return with_keys


def _by_key(flatten: FlattenFn) -> FlattenWithKeysFn:
    def with_keys(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
        children, context = flatten(node)
        return [
            (MappingKey(key), child) for key, child in zip(node, children, strict=True)
        ], context

    return with_keys


def _by_field(node: Any) -> tuple[list[tuple[Any, Any]], Any]:
    names = zip(node._fields, node, strict=True)
    return [(GetAttrKey(name), child) for name, child in names], type(node)


def _sequence(kind: type, name: str, made: type | None = None) -> None:
    make = kind if made is None else made

    def flatten(node: Any) -> tuple[list[Any], Any]:
        return list(node), None

    _private_register_pytree_node(
        kind,
        flatten,
        lambda values, context: make(values),
        serialized_type_name=name,
        flatten_with_keys_fn=_by_number(flatten),
    )


def _register_result(kind: type) -> None:
    name = f"{kind.__module__}.{kind.__name__}"

    def flatten(node: Any) -> tuple[list[Any], Any]:
        return list(node), None

    _private_register_pytree_node(
        kind,
        flatten,
        lambda values, context: kind(list(values)),
        serialized_type_name=name,
        flatten_with_keys_fn=_by_number(flatten),
    )


def _dict_flatten(node: Any) -> tuple[list[Any], Any]:
    return list(node.values()), list(node)


def _defaultdict_flatten(node: Any) -> tuple[list[Any], Any]:
    return list(node.values()), [node.default_factory, list(node)]


def _deque_flatten(node: Any) -> tuple[list[Any], Any]:
    return list(node), node.maxlen


def _factory_to_names(context: Any) -> Any:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _factory_from_names(dumped: Any) -> Any:
    from importlib import import_module

    module = import_module(dumped["default_factory_module"])
    return [getattr(module, dumped["default_factory_name"]), dumped["dict_context"]]


_tuple_names: dict[type, str] = {}


def _register_namedtuple(cls: type[Any], *, serialized_type_name: str) -> None:
    """Give a class of named tuples a name for texts of `treespec_dumps`."""
    _tuple_names[cls] = serialized_type_name


def _tuple_to_name(context: Any) -> Any:
    if context not in _tuple_names:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a "
            "serializated_type_name. Please register using `_register_namedtuple`."
        )
    return _tuple_names[context]


def _tuple_from_name(dumped: Any) -> Any:
    for cls, name in _tuple_names.items():
        if name == dumped:
            return cls
    raise NotImplementedError(
        f"Can't deserialize TreeSpec of namedtuple class {dumped} because we couldn't find a "
        "serializated name."
    )


_sequence(tuple, "builtins.tuple")
_sequence(list, "builtins.list")
_private_register_pytree_node(
    dict,
    _dict_flatten,
    lambda values, keys: dict(zip(keys, values, strict=True)),
    serialized_type_name="builtins.dict",
    flatten_with_keys_fn=_by_key(_dict_flatten),
)
_private_register_pytree_node(
    NAMEDTUPLE,
    lambda node: (list(node), type(node)),
    lambda values, kind: kind(*values),
    serialized_type_name="collections.namedtuple",
    to_dumpable_context=_tuple_to_name,
    from_dumpable_context=_tuple_from_name,
    flatten_with_keys_fn=_by_field,
)
_private_register_pytree_node(
    OrderedDict,
    _dict_flatten,
    lambda values, keys: OrderedDict(zip(keys, values, strict=True)),
    serialized_type_name="collections.OrderedDict",
    flatten_with_keys_fn=_by_key(_dict_flatten),
)
_private_register_pytree_node(
    defaultdict,
    _defaultdict_flatten,
    lambda values, context: defaultdict(context[0], zip(context[1], values, strict=True)),
    serialized_type_name="collections.defaultdict",
    to_dumpable_context=_factory_to_names,
    from_dumpable_context=_factory_from_names,
    flatten_with_keys_fn=_by_key(_defaultdict_flatten),
)
_private_register_pytree_node(
    deque,
    _deque_flatten,
    lambda values, maxlen: deque(values, maxlen=maxlen),
    serialized_type_name="collections.deque",
    flatten_with_keys_fn=_by_number(_deque_flatten),
)
BUILTIN_TYPES: frozenset[Any] = frozenset(SUPPORTED_NODES)
STANDARD_DICT_TYPES: frozenset[type] = frozenset({dict, OrderedDict, defaultdict})
_sequence(_C.Size, "torch.Size", tuple)  # its leaves may become something else than ints
