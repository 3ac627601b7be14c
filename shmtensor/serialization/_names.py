"""The names in files of functions, storages, dtypes and layouts.

They are torch's, in both directions: `save` writes ``torch._utils._rebuild_tensor_v2`` for a
tensor, and `load` finds the function of this module under that name. So each package reads the
other's files, and none of the names must be importable.
"""

from __future__ import annotations

import _compat_pickle
import collections
import functools
import pickle
from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor._core import _legacy
from shmtensor._core._pickling import (
    as_class,
    has_memory,
    make_wrapper,
    rebuild_sparse,
    rebuild_tensor,
    sparse_parts,
    state_of,
    warn_of_hooks,
)
from shmtensor._core._tensor import Tensor
from shmtensor.serialization._budget import brief
from shmtensor.storage import TypedStorage, UntypedStorage
from shmtensor.storage.typed import LEGACY_CLASSES

__all__ = [
    "CONTAINERS",
    "REBUILDS",
    "allowed",
    "is_blocked",
    "name_in_files",
    "name_of_today",
    "readable",
    "reduce_for_file",
    "user_globals",
]

# --- what a file calls to make tensors --------------------------------------------------------


def _storage_of(value: Any) -> UntypedStorage:
    if not isinstance(value, TypedStorage | UntypedStorage):
        raise pickle.UnpicklingError(f"expected a storage, got {type(value).__name__}")
    return value.untyped()


def _flag(requires_grad: Any) -> bool:
    if type(requires_grad) is not bool:
        raise pickle.UnpicklingError("requires_grad must be a bool")
    return requires_grad


def _rebuild_tensor_v2(
    storage: TypedStorage,
    storage_offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool = False,
    backward_hooks: Any = None,
    metadata: dict[str, bool] | None = None,
) -> Tensor:
    """Make a tensor over a typed storage."""
    return _rebuild_tensor_v3(
        storage,
        storage_offset,
        size,
        stride,
        requires_grad,
        backward_hooks,
        storage.dtype if isinstance(storage, TypedStorage) else _C.uint8,
        metadata,
    )


def _rebuild_tensor_v3(
    storage: TypedStorage | UntypedStorage,
    storage_offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    backward_hooks: Any,
    dtype: Any,
    metadata: dict[str, bool] | None = None,
) -> Tensor:
    """Make a tensor of a dtype for which torch has no storage class."""
    if not isinstance(dtype, _C.dtype):
        raise pickle.UnpicklingError(f"expected a dtype, got {type(dtype).__name__}")
    if any(type(number) is not int for number in (storage_offset, *size, *stride)):
        raise pickle.UnpicklingError("the geometry of a tensor is of integers")
    lazy = {} if metadata is None else metadata
    if type(lazy) is not dict:
        raise pickle.UnpicklingError(f"expected dict, got {type(lazy).__name__}")
    return rebuild_tensor(
        _storage_of(storage),
        dtype,
        storage_offset,
        size,
        stride,
        _flag(requires_grad),
        backward_hooks,
        conj=bool(lazy.get("conj")),
        neg=bool(lazy.get("neg")),
    )


def _rebuild_meta_tensor_no_storage(
    dtype: Any, size: tuple[int, ...], stride: tuple[int, ...], requires_grad: bool
) -> Tensor:
    made: Tensor = _C.empty_strided(
        size, stride, dtype=dtype, device="meta", requires_grad=_flag(requires_grad)
    )
    return made


def _rebuild_wrapper_subclass(*facts: Any) -> Tensor:
    return make_wrapper(*facts)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any = None) -> Tensor:
    from shmtensor.nn import Parameter  # nn stands above this module

    return Parameter(data, _flag(requires_grad))


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any
) -> Tensor:
    return _with_state(_rebuild_parameter(data, requires_grad), state)


def _with_state(tensor: Tensor, state: Any) -> Tensor:
    """Set a tensor's attributes: a dictionary, or a pair of it and the values of slots.

    A class with a ``__setstate__`` does it. The program has allowed that class.
    """
    take = getattr(type(tensor), "__setstate__", None)
    if take is not None:
        take(tensor, state)
        return tensor
    attributes, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    tensor.__dict__.update(attributes or {})
    for name, value in (slots or {}).items():
        # Those of tensors are properties that work on the elements, as `real` does.
        if hasattr(Tensor, name):
            raise pickle.UnpicklingError(f"a file sets the attribute {brief(name)} of a tensor")
        setattr(tensor, name, value)
    return tensor


def _rebuild_from_type_v2(
    function: Callable[..., Tensor], kind: type[Tensor], arguments: tuple[Any, ...], state: Any
) -> Tensor:
    """Make a tensor of another class, or one with attributes."""
    if not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise pickle.UnpicklingError(f"expected a class of tensors, got {brief(kind)}")
    return _with_state(as_class(function(*arguments), kind), state)


def _get_layout(name: str) -> Any:
    layout = getattr(_C, name.removeprefix("torch."), None) if type(name) is str else None
    if not isinstance(layout, _C.layout):
        raise pickle.UnpicklingError(f"there is no layout {brief(name)}")
    return layout


def _encode(value: str, encoding: str = "latin1") -> bytes:
    """``_codecs.encode`` for latin1 only; protocol 2 writes bytes by it."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"encoding {brief(encoding)} is not allowed in a file")
    return value.encode("latin1")


def _rebuild_sparse_tensor(layout: Any, data: Any) -> Tensor:
    """A sparse tensor in torch's files: parts, size and, for COO, whether it is coalesced."""
    if layout is _C.sparse_coo:
        indices, values, size, *rest = data
        is_coalesced = bool(rest[0]) if rest else False
        return rebuild_sparse(layout, (indices, values), tuple(size), is_coalesced)
    if layout in (_C.sparse_csr, _C.sparse_csc):
        compressed, plain, values, size = data
        return rebuild_sparse(layout, (compressed, plain, values), tuple(size), False)
    raise RuntimeError(f"load(): cannot read tensors of layout {layout}")


def _refusal(name: str, kind: str) -> Callable[..., Any]:
    def refuse(*arguments: Any) -> Any:
        raise RuntimeError(f"load(): the file holds a {kind} tensor, and only dense ones are read")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


_REFUSED = {
    "_rebuild_nested_tensor": "nested",
    "_rebuild_qtensor": "quantized",
}

#: Full name in files -> function that makes a tensor.
REBUILDS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta_tensor_no_storage,
    "torch._utils._rebuild_wrapper_subclass": _rebuild_wrapper_subclass,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type_v2,
    "torch._utils._rebuild_sparse_tensor": _rebuild_sparse_tensor,
    "torch.serialization._get_layout": _get_layout,
    "_codecs.encode": _encode,
    **{f"torch._utils.{name}": _refusal(name, kind) for name, kind in _REFUSED.items()},
}

#: Full name in files -> class of values that any file may make.
CONTAINERS: dict[str, Any] = {
    "collections.Counter": collections.Counter,
    "collections.OrderedDict": collections.OrderedDict,
    "collections.deque": collections.deque,
    "torch.Size": _C.Size,
    "torch.device": _C.device,
    "__builtin__.xrange": range,
    **{
        f"{module}.{kind.__name__}": kind
        for module in ("builtins", "__builtin__")
        for kind in (bytearray, complex, frozenset, range, set, slice)
    },
}

# --- names ------------------------------------------------------------------------------------

#: What `add_safe_globals` was given.
user_globals: list[Any] = []

#: Modules of which a file may use nothing, whatever `add_safe_globals` was given.
_BLOCKED = {"nt", "os", "posix", "sys"}


def is_blocked(module: str) -> bool:
    """Return whether a file may use nothing of a module, or of the package that it is in."""
    return module.partition(".")[0] in _BLOCKED


def name_of_today(module: str, name: str) -> tuple[str, str]:
    """Return the name that Python 3 has for one of Python 2, which protocols up to 2 write."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        return _compat_pickle.NAME_MAPPING[module, name]
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


def allowed(item: Any) -> tuple[Any, str | None]:
    """Return the class or function of an item of `user_globals`, and the name that it was given.

    Raises:
        ValueError, TypeError: The item is a tuple, but not a pair with a string.
    """
    if not isinstance(item, tuple):
        return item, None
    if len(item) != 2:
        raise ValueError(
            "Expected tuple of length 2 (global, str of callable full path), but got tuple of "
            f"length: {len(item)}"
        )
    value, name = item
    if type(name) is not str:
        raise TypeError(
            f"Expected second item in tuple to be str of callable full path, but got: {type(name)}"
        )
    return value, name


@functools.cache
def _fixed() -> dict[str, Any]:
    """Return what every file may use, by full name."""
    from shmtensor.nn import Parameter  # nn stands above this module

    known: dict[str, Any] = {
        **REBUILDS,
        **CONTAINERS,
        "torch.Tensor": Tensor,
        "torch.nn.parameter.Parameter": Parameter,
        "torch.storage.TypedStorage": TypedStorage,
        "torch.storage.UntypedStorage": UntypedStorage,
    }
    for name, value in vars(_C).items():
        if isinstance(value, _C.dtype | _C.layout | _C.memory_format):
            known[f"torch.{name}"] = value
    for name, legacy in LEGACY_CLASSES.items():
        known[f"torch.{name}"] = known[f"torch.cuda.{name}"] = legacy
    for name in _legacy.__all__:
        known[f"torch.{name}"] = known[f"torch.cuda.{name}"] = getattr(_legacy, name)
    return known


def readable() -> dict[str, Any]:
    """Return what a file may use, by full name: the fixed names and `add_safe_globals`."""
    known: dict[str, Any] = {}
    for item in user_globals:
        value, name = allowed(item)
        if name is None:
            module, plain = torch_name(value) or (value.__module__, value.__qualname__)
            known[f"{module}.{plain}"] = value
            name = f"{value.__module__}.{value.__qualname__}"
        known[name] = value
    return known | _fixed()  # whose checks rely on them


def torch_name(obj: Any) -> tuple[str, str] | None:
    """Return module and name of torch's counterpart of a class or function of this package."""
    module, name = getattr(obj, "__module__", None), getattr(obj, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    package, _, rest = module.partition(".")
    if package != _C.__name__.partition(".")[0]:
        return None
    if rest.startswith("nn.functional."):  # one module there, a package here
        rest = "nn.functional"
    elif obj is _C._TensorBase:
        name = "TensorBase"
    elif rest == "_C":
        rest = ""
    return f"torch.{rest}".removesuffix("."), name


@functools.cache
def _written() -> dict[int, tuple[str, str]]:
    """Identity of an object -> its module and name in files; the objects live forever."""
    names: dict[int, tuple[str, str]] = {}
    for full, value in _fixed().items():
        module, _, name = full.rpartition(".")
        if module.startswith("torch"):
            names.setdefault(id(value), (module, name))
    for dtype in {v for v in _fixed().values() if isinstance(v, _C.dtype)}:
        names[id(dtype)] = ("torch", str(dtype).removeprefix("torch."))
    for full in ("torch._utils._rebuild_tensor_v2", "torch._tensor._rebuild_from_type_v2"):
        module, _, name = full.rpartition(".")
        names[id(REBUILDS[full])] = (module, name)
    return names


def name_in_files(obj: Any) -> tuple[str, str] | None:
    """Return the module and name that files use for *obj*; None: its own.

    Classes and functions of this package are named as torch's, so that torch reads the modules
    that `save` writes whole.
    """
    return _written().get(id(obj)) or torch_name(obj)


# --- what a tensor becomes in a file ----------------------------------------------------------

_OLD_DTYPES = {legacy.dtype for legacy in LEGACY_CLASSES.values()}


def _arguments(tensor: Tensor) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    """Return the function and arguments that rebuild a tensor without its attributes."""
    if not has_memory(tensor):
        return _rebuild_wrapper_subclass, (
            type(tensor),
            tensor.dtype,
            tuple(tensor.size()),
            tensor.stride(),
            tensor.storage_offset(),
            tensor.layout,
            tensor.device,
            tensor.requires_grad,
        )
    if tensor.layout is not _C.strided:
        known = (tensor.is_coalesced(),) if tensor.is_sparse else ()
        data = (*sparse_parts(tensor), tensor.size(), *known)
        return _rebuild_sparse_tensor, (tensor.layout, data)
    if tensor.is_meta:
        return _rebuild_meta_tensor_no_storage, (
            tensor.dtype,
            tuple(tensor.size()),
            tensor.stride(),
            tensor.requires_grad,
        )
    old = tensor.dtype in _OLD_DTYPES
    storage = tensor.untyped_storage()
    lazy = {"conj": tensor.is_conj(), "neg": tensor.is_neg()}
    metadata = {bit: True for bit, is_set in lazy.items() if is_set}
    arguments = (
        TypedStorage(wrap_storage=storage, dtype=tensor.dtype, _internal=True) if old else storage,
        tensor.storage_offset(),
        tuple(tensor.size()),
        tensor.stride(),
        tensor.requires_grad,
        collections.OrderedDict(),  # hooks are not saved
        *(() if old else (tensor.dtype,)),
        *((metadata,) if metadata else ()),
    )
    return (_rebuild_tensor_v2 if old else _rebuild_tensor_v3), arguments


def reduce_for_file(obj: Any) -> Any:
    """Return how *obj* is pickled into a file; NotImplemented: in the usual manner."""
    if isinstance(obj, _C.layout):
        return _get_layout, (str(obj),)
    if not isinstance(obj, Tensor):
        return NotImplemented
    from shmtensor.nn import Parameter  # nn stands above this module

    warn_of_hooks(obj)
    state = state_of(obj)
    if type(obj) is Parameter:
        head: tuple[Any, ...] = (obj.data, obj.requires_grad, collections.OrderedDict())
        if state:
            return _rebuild_parameter_with_state, (*head, state)
        return _rebuild_parameter, head
    if type(obj).__reduce_ex__ is not Tensor.__reduce_ex__:
        return NotImplemented
    function, arguments = _arguments(obj)
    if type(obj) is Tensor and not state:
        return function, arguments
    return _rebuild_from_type_v2, (function, type(obj), arguments, state)
