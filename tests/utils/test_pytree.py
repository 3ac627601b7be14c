"""`utils._pytree`: structures, maps, paths, registration and texts."""

from __future__ import annotations

import pickle
import re
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

import shmtensor as T
from shmtensor.utils import _pytree as pytree

N = namedtuple("N", "a b")


class SubN(N):
    pass


class SubDict(dict):  # type: ignore[type-arg]
    pass


class Colour(Enum):
    RED = 1


@dataclass
class Data:
    a: Any
    b: Any
    c: Any = 0


@dataclass
class Initialised:
    a: int
    b: int = field(init=False, default=3)
    c: int = 4


class Plain:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def __repr__(self) -> str:
        return f"Plain({self.x}, {self.y})"


class Keyed(Plain):
    pass


class Constant:
    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class Odd:
    pass


TREE = {
    "b": 1,
    "a": [2, (3, None)],
    "c": N(4, {"z": 5}),
    "d": OrderedDict(q=6, p=7),
    "e": defaultdict(list, {"k": 8}),
    "f": deque([9], maxlen=3),
    "h": SubDict(a=1),
    "j": SubN(1, 2),
}

#: Expressions of p, the module, and m, the library.
EXPRESSIONS = r"""
p.tree_flatten(TREE)[0]
p.tree_structure(TREE)
p.tree_unflatten(*p.tree_flatten(TREE)) == TREE
(lambda s: (s.num_leaves, s.num_nodes, s.num_children, s.type, s.context, s.is_leaf(), s.child(0)))(p.tree_structure(TREE))
p.tree_unflatten([1], p.tree_structure([1, 2]))
p.tree_unflatten([1], 3)
p.tree_unflatten(iter([1, 2]), p.tree_structure([1, 2]))
[(p.keystr(k), v) for k, v in p.tree_flatten_with_path(TREE)[0]]
p.tree_leaves_with_path([1, {'a': 2}])
p.tree_flatten_with_path(3)
p.tree_flatten_with_path(OrderedDict(a=1), is_leaf=lambda v: isinstance(v, dict))
p.tree_map(lambda a: a * 2, [1, (2, {'a': 3})])
p.tree_map(lambda a, b: a + b, [1, (2, 3)], [10, (20, 30)])
p.tree_map(lambda a, b: a + b, [1, (2, 3)], [10, 20])
p.tree_map(lambda a, b: a + b, [1, (2, 3)], [10, [20, 30]])
p.tree_map(lambda a, b: a + b, [1, 2], [10])
p.tree_map(lambda a, b: a + b, {'a': 1}, {'b': 1})
p.tree_map(lambda a, b: (a, b), [1, 2], [{'a': 1}, [3, 4]])
p.tree_map(lambda a, b: (a, b), OrderedDict(a=1), {'a': 2})
p.tree_map(lambda a, b: (a, b), {'a': 1, 'b': 2}, {'b': 3, 'a': 4})
p.tree_map(lambda a, b: (a, b), defaultdict(int, {'a': 1}), defaultdict(list, {'a': 2}))
p.tree_map(lambda a, b: (a, b), deque([1], maxlen=2), deque([1], maxlen=3))
p.tree_map(lambda a, b: (a, b), N(1, 2), SubN(1, 3))
p.tree_map_with_path(lambda k, a: (p.keystr(k), a), [1, {'a': 2}])
p.tree_map_with_path(lambda k, a, b: (p.keystr(k), a, b), [1, {'a': 2}], [3, {'a': 4}])
p.tree_map_with_path(lambda k, a: a, [])
p.tree_map_(lambda a: 5, [1, 2])
p.tree_map_only(int, lambda a: -a, [1, 2.0, 's'])
p.tree_map_only((int, float), lambda a: -a, [1, 2.0])
p.tree_map_only(lambda v: v == 1, lambda a: -a, [1, 2.0])
p.tree_map_only(int | str, lambda a: a * 2, [1, 2.0, 's'])
p.tree_map_only(3, lambda a: a * 2, [1, 2.0, 's'])
p.tree_map_only_(int, lambda a: -a, [1, 2.0, 's'])
p.tree_all(lambda a: a > 0, [1, 2])
p.tree_any(lambda a: a > 1, [1, 2])
p.tree_all_only(int, lambda a: a > 0, [1, -2.0])
p.tree_any_only(float, lambda a: a > 0, [1, -2.0])
list(p.tree_iter([1, (2, 3)]))
p.tree_leaves([1, (2, 3)], is_leaf=lambda v: isinstance(v, tuple))
p.tree_structure([1, {'a': (2,)}])
(p.tree_is_leaf([1]), p.tree_is_leaf(1), p.tree_is_leaf([1], is_leaf=lambda x: True))
p.arg_tree_leaves(1, [2], a=3)
(p.tree_structure(3), p.tree_structure([]), p.tree_structure({}), p.treespec_leaf())
p.tree_structure([1]) == p.tree_structure([2])
p.tree_structure([1]) == p.tree_structure((2,))
hash(p.tree_structure([1])) == hash(p.tree_structure([2]))
p.tree_structure([1]).flatten_up_to([[3, 4]])
p.tree_structure([1]).flatten_up_to((1,))
p.tree_structure([1]).flatten_up_to([1, 2])
p.tree_structure({'a': 1}).flatten_up_to({'b': 1})
p.tree_structure([1]).flatten_up_to(3)
p.tree_structure(1).flatten_up_to([3])
p._broadcast_to_and_flatten(1, p.tree_structure([1, (2, 3)]))
p._broadcast_to_and_flatten([1, 2], p.tree_structure([1, (2, 3)]))
p._broadcast_to_and_flatten([1, 2, 3], p.tree_structure([1, (2, 3)]))
p._broadcast_to_and_flatten({'a': 1}, p.tree_structure({'a': [1, 2]}))
p.treespec_dumps(p.tree_structure([1, {'a': (2, None)}, OrderedDict(k=3)]))
p.treespec_loads(p.treespec_dumps(p.tree_structure([1, {'a': (2, None)}, OrderedDict(k=3)])))
p.treespec_dumps(p.tree_structure(defaultdict(list, a=1)))
p.treespec_loads(p.treespec_dumps(p.tree_structure(defaultdict(list, a=1))))
p.treespec_dumps(p.tree_structure(deque([1], maxlen=2)))
p.treespec_dumps(p.tree_structure({3: 1}))
p.treespec_dumps(p.tree_structure([1]), protocol=3)
p.treespec_loads('[3, {}]')
p.treespec_dumps(3)
p.treespec_dumps(p.tree_structure(N(1, 2)))
p._register_namedtuple(SubN, serialized_type_name='tests.SubN')
p.treespec_dumps(p.tree_structure(SubN(1, 2)))
p.treespec_loads(p.treespec_dumps(p.tree_structure(SubN(1, 2))))
p.treespec_pprint(p.tree_structure([1, (2, {'a': 3})]))
p.register_pytree_node(Plain, lambda o: ([o.x], o.y), lambda c, y: Plain(*c, y))
p.register_pytree_node(Plain, lambda o: ([o.x], o.y), lambda c, y: Plain(*c, y))
p.tree_map(lambda v: v + 1, [Plain(1, 2)])
p.tree_leaves(Keyed(1, 2)) == [1]
p.tree_flatten_with_path(Plain(1, 2))
p.treespec_dumps(p.tree_structure(Plain(1, 2)))
p._deregister_pytree_node(Plain)
p.tree_leaves(Plain(1, 2))
p._deregister_pytree_node(Plain)
p.register_pytree_node(Keyed, lambda o: ([o.x], o.y), lambda c, y: Keyed(*c, y), serialized_type_name='my.K', to_dumpable_context=lambda c: c, from_dumpable_context=lambda c: c, flatten_with_keys_fn=lambda o: ([(p.GetAttrKey('x'), o.x)], o.y))
p.treespec_dumps(p.tree_structure(Keyed(1, 2)))
p.treespec_loads(p.treespec_dumps(p.tree_structure(Keyed(1, 2))))
p.tree_flatten_with_path(Keyed(1, 2))
p.register_pytree_node(Odd, lambda o: ([], None), lambda c, y: Odd(), to_dumpable_context=str)
p.register_dataclass(Data)
p.tree_map(lambda v: v * 2, Data(1, [2], None))
p.tree_flatten_with_path(Data(1, [2], 3))
p.register_dataclass(Initialised, field_names=['a'])
p.register_dataclass(Initialised, field_names=['a'], drop_field_names=['b', 'c'])
p.tree_structure(Initialised(1))
p.register_dataclass(int)
p.register_constant(Constant)
p.tree_flatten([Constant(3)])[0]
p.tree_unflatten([], p.tree_structure(Constant(3))).value
p.is_constant_class(Constant)
p.register_constant(Odd)
p.key_get({'a': [1, N(2, 3)]}, (p.MappingKey('a'), p.SequenceKey(1), p.GetAttrKey('b')))
[p.MappingKey('a'), p.SequenceKey(1), p.GetAttrKey('b')]
[str(p.MappingKey('a')), str(p.SequenceKey(1)), str(p.GetAttrKey('b'))]
(p.is_namedtuple(N(1, 2)), p.is_namedtuple(N), p.is_namedtuple(SubN(1, 2)), p.is_namedtuple((1,)))
(p.is_namedtuple_class(N), p.is_namedtuple_instance(N(1, 2)), p.is_namedtuple_class(N(1, 2)))
(p.is_structseq(m.ones(2).max(0)), p.is_structseq_class(type(m.ones(2).max(0))), p.is_structseq_instance(3))
p.tree_map(lambda v: v + 1, m.tensor([1., 2.]).max(0))
p.tree_structure(m.tensor([1., 2.]).max(0))
p.tree_map(float, m.Size([1, 2]))
p.treespec_leaf()
p.treespec_tuple([p.treespec_leaf(), p.treespec_leaf()])
p.treespec_dict({'a': p.treespec_leaf()}, b=p.treespec_leaf())
p.treespec_tuple([1])
p.str_to_pytree(p.pytree_to_str(p.tree_structure([1])))
(p.BUILTIN_TYPES >= {list, dict}, p.STANDARD_DICT_TYPES == {dict, OrderedDict, defaultdict})
""".strip().splitlines()  # noqa: E501


def outcome(expression: str, m: Any, p: Any) -> str:
    try:
        text = str(eval(expression, {**globals(), "m": m, "p": p}))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return re.sub(r" at 0x\w+", "", text)


@pytest.fixture
def _known_classes() -> Any:
    yield
    for cls in (Keyed, Data, Initialised, Constant):
        for module in modules():
            module.SUPPORTED_NODES.pop(cls, None)


def modules() -> list[Any]:
    torch = pytest.importorskip("torch")
    return [pytree, torch.utils._pytree]


@pytest.mark.check
@pytest.mark.usefixtures("_known_classes")
def test_everything_is_as_torch_has_it() -> None:
    torch = pytest.importorskip("torch")
    import torch.utils._pytree as theirs

    differing = []
    for expression in EXPRESSIONS:
        pair = outcome(expression, T, pytree), outcome(expression, torch, theirs)
        if pair[0] != pair[1]:
            differing.append((expression, *pair))
    assert differing == []


def test_structure_prints_and_counts() -> None:
    leaves, spec = pytree.tree_flatten({"a": [1, (2, 3)], "b": None})
    assert leaves == [1, 2, 3, None]
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (4, 7, 2)
    assert repr(spec) == (
        "TreeSpec(dict, ['a', 'b'], [TreeSpec(list, None, [*,\n"
        "    TreeSpec(tuple, None, [*,\n"
        "      *])]),\n"
        "  *])"
    )
    assert pytree.tree_unflatten([4, 5, 6, 7], spec) == {"a": [4, (5, 6)], "b": 7}


def test_structures_are_pickled_and_hashed() -> None:
    spec = pytree.tree_structure([1, {"a": (2,)}, N(1, 2)])
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(pytree.tree_structure({"a": [1]})) == hash(pytree.tree_structure({"a": [2]}))


@pytest.mark.check
def test_paths_print_as_python_would() -> None:
    tree = [1, {"k": N(2, (3,))}]
    paths = [pytree.keystr(path) for path, _ in pytree.tree_leaves_with_path(tree)]
    assert paths == ["[0]", "[1]['k'].a", "[1]['k'].b[0]"]
    for path, leaf in pytree.tree_leaves_with_path(tree):
        assert pytree.key_get(tree, path) is leaf


def test_maps_of_several_trees_need_the_same_nodes() -> None:
    assert pytree.tree_map(max, [1, {"a": 5}], [3, {"a": 2}]) == [3, {"a": 5}]
    with pytest.raises(ValueError, match="Node type mismatch"):
        pytree.tree_map(max, [1, (2,)], [1, 2])
    with pytest.raises(ValueError, match="Node arity mismatch; expected 2, but got 1"):
        pytree.tree_map(max, [1, 2], [1])


def test_enumerations_as_keys_are_written_and_read() -> None:
    spec = pytree.tree_structure({Colour.RED: 1})
    text = pytree.treespec_dumps(spec)
    assert "__enum__" in text
    module, name = Colour.__module__, Colour.__qualname__
    assert f"{module}:{name}" in text.replace("\\", "")


def test_registered_classes_are_nodes_until_they_are_forgotten() -> None:
    pytree.register_pytree_node(Plain, lambda o: ([o.x], o.y), lambda c, y: Plain(*c, y))
    try:
        mapped = pytree.tree_map(lambda v: v + 1, Plain(1, "same"))
        assert (mapped.x, mapped.y) == (2, "same")
        with pytest.raises(ValueError, match="already registered"):
            pytree.register_pytree_node(Plain, lambda o: ([], None), lambda c, y: Plain(1, 2))
    finally:
        pytree._deregister_pytree_node(Plain)
    assert pytree.tree_is_leaf(Plain(1, 2))
