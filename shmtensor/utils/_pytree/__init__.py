"""Trees of Python's containers: taken apart into leaves, put together again, and mapped over.

A node is an object of a registered class: ``tuple``, ``list``, ``dict``, ``OrderedDict``,
``defaultdict``, ``deque``, named tuples, results with named fields, and what `register_pytree_node`
was told. Whatever else stands in a tree is a leaf, None too.

Source:
    torch.utils._pytree.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque

from shmtensor.utils._pytree._nodes import (
    BUILTIN_TYPES as BUILTIN_TYPES,
)
from shmtensor.utils._pytree._nodes import (
    NAMEDTUPLE,
)
from shmtensor.utils._pytree._nodes import (
    STANDARD_DICT_TYPES as STANDARD_DICT_TYPES,
)
from shmtensor.utils._pytree._nodes import (
    SUPPORTED_NODES as SUPPORTED_NODES,
)
from shmtensor.utils._pytree._nodes import (
    ConstantNode as ConstantNode,
)
from shmtensor.utils._pytree._nodes import (
    GetAttrKey as GetAttrKey,
)
from shmtensor.utils._pytree._nodes import (
    KeyEntry as KeyEntry,
)
from shmtensor.utils._pytree._nodes import (
    MappingKey as MappingKey,
)
from shmtensor.utils._pytree._nodes import (
    NodeDef as NodeDef,
)
from shmtensor.utils._pytree._nodes import (
    SequenceKey as SequenceKey,
)
from shmtensor.utils._pytree._nodes import (
    _deregister_pytree_node as _deregister_pytree_node,
)
from shmtensor.utils._pytree._nodes import (
    _get_node_type as _get_node_type,
)
from shmtensor.utils._pytree._nodes import (
    _private_register_pytree_node as _private_register_pytree_node,
)
from shmtensor.utils._pytree._nodes import (
    _register_namedtuple as _register_namedtuple,
)
from shmtensor.utils._pytree._nodes import (
    _register_pytree_node as _register_pytree_node,
)
from shmtensor.utils._pytree._nodes import (
    is_constant_class as is_constant_class,
)
from shmtensor.utils._pytree._nodes import (
    is_namedtuple as is_namedtuple,
)
from shmtensor.utils._pytree._nodes import (
    is_namedtuple_class as is_namedtuple_class,
)
from shmtensor.utils._pytree._nodes import (
    is_namedtuple_instance as is_namedtuple_instance,
)
from shmtensor.utils._pytree._nodes import (
    is_structseq as is_structseq,
)
from shmtensor.utils._pytree._nodes import (
    is_structseq_class as is_structseq_class,
)
from shmtensor.utils._pytree._nodes import (
    is_structseq_instance as is_structseq_instance,
)
from shmtensor.utils._pytree._nodes import (
    register_constant as register_constant,
)
from shmtensor.utils._pytree._nodes import (
    register_dataclass as register_dataclass,
)
from shmtensor.utils._pytree._nodes import (
    register_pytree_node as register_pytree_node,
)
from shmtensor.utils._pytree._spec import (
    LeafSpec as LeafSpec,
)
from shmtensor.utils._pytree._spec import (
    PyTreeSpec as PyTreeSpec,
)
from shmtensor.utils._pytree._spec import (
    TreeSpec as TreeSpec,
)
from shmtensor.utils._pytree._spec import (
    _is_constant_holder as _is_constant_holder,
)
from shmtensor.utils._pytree._spec import (
    _retrieve_constant as _retrieve_constant,
)
from shmtensor.utils._pytree._spec import (
    treespec_dict as treespec_dict,
)
from shmtensor.utils._pytree._spec import (
    treespec_leaf as treespec_leaf,
)
from shmtensor.utils._pytree._spec import (
    treespec_tuple as treespec_tuple,
)
from shmtensor.utils._pytree._text import (
    pytree_to_str as pytree_to_str,
)
from shmtensor.utils._pytree._text import (
    str_to_pytree as str_to_pytree,
)
from shmtensor.utils._pytree._text import (
    treespec_dumps as treespec_dumps,
)
from shmtensor.utils._pytree._text import (
    treespec_loads as treespec_loads,
)
from shmtensor.utils._pytree._text import (
    treespec_pprint as treespec_pprint,
)
from shmtensor.utils._pytree._walk import (
    Context as Context,
)
from shmtensor.utils._pytree._walk import (
    PyTree as PyTree,
)
from shmtensor.utils._pytree._walk import (
    _broadcast_to_and_flatten as _broadcast_to_and_flatten,
)
from shmtensor.utils._pytree._walk import (
    _is_leaf as _is_leaf,
)
from shmtensor.utils._pytree._walk import (
    arg_tree_leaves as arg_tree_leaves,
)
from shmtensor.utils._pytree._walk import (
    key_get as key_get,
)
from shmtensor.utils._pytree._walk import (
    keystr as keystr,
)
from shmtensor.utils._pytree._walk import (
    map_only as map_only,
)
from shmtensor.utils._pytree._walk import (
    tree_all as tree_all,
)
from shmtensor.utils._pytree._walk import (
    tree_all_only as tree_all_only,
)
from shmtensor.utils._pytree._walk import (
    tree_any as tree_any,
)
from shmtensor.utils._pytree._walk import (
    tree_any_only as tree_any_only,
)
from shmtensor.utils._pytree._walk import (
    tree_flatten as tree_flatten,
)
from shmtensor.utils._pytree._walk import (
    tree_flatten_with_path as tree_flatten_with_path,
)
from shmtensor.utils._pytree._walk import (
    tree_is_leaf as tree_is_leaf,
)
from shmtensor.utils._pytree._walk import (
    tree_iter as tree_iter,
)
from shmtensor.utils._pytree._walk import (
    tree_leaves as tree_leaves,
)
from shmtensor.utils._pytree._walk import (
    tree_leaves_with_path as tree_leaves_with_path,
)
from shmtensor.utils._pytree._walk import (
    tree_map as tree_map,
)
from shmtensor.utils._pytree._walk import (
    tree_map_ as tree_map_,
)
from shmtensor.utils._pytree._walk import (
    tree_map_only as tree_map_only,
)
from shmtensor.utils._pytree._walk import (
    tree_map_only_ as tree_map_only_,
)
from shmtensor.utils._pytree._walk import (
    tree_map_with_path as tree_map_with_path,
)
from shmtensor.utils._pytree._walk import (
    tree_structure as tree_structure,
)
from shmtensor.utils._pytree._walk import (
    tree_unflatten as tree_unflatten,
)

#: Python's containers by the names of their functions, which serve for classes like them too.
_CONTAINERS = {
    "defaultdict": defaultdict,
    "deque": deque,
    "dict": dict,
    "list": list,
    "namedtuple": NAMEDTUPLE,
    "odict": OrderedDict,
    "ordereddict": OrderedDict,
    "tuple": tuple,
}
for _name, _kind in _CONTAINERS.items():
    _node = SUPPORTED_NODES[_kind]
    globals()[f"_{_name}_flatten"] = _node.flatten_fn
    globals()[f"_{_name}_flatten_with_keys"] = _node.flatten_with_keys_fn
    globals()[f"_{_name}_unflatten"] = _node.unflatten_fn
