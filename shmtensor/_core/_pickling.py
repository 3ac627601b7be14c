"""Tensors to bytes in memory and back: pickling and deep copies.

A tensor is its storage plus geometry, so tensors that share memory share it again when they are
pickled together. With protocol 5 and a ``buffer_callback`` the bytes travel out of band and are not
copied; a tensor loaded from such buffers shows their memory.
"""

from __future__ import annotations

import collections
import copy
import importlib
import pickle
import reprlib
import warnings
from collections.abc import Iterator
from typing import Any

from shmtensor import _C
from shmtensor._boundary import storage as _c
from shmtensor._core._tensor import Tensor
from shmtensor.errors import ShmTensorWarning
from shmtensor.storage import UntypedStorage

__all__ = [
    "as_class",
    "deepcopy_tensor",
    "find_named",
    "has_memory",
    "make_wrapper",
    "rebuild_meta_storage",
    "rebuild_sparse",
    "rebuild_storage",
    "rebuild_subclass",
    "rebuild_tensor",
    "rebuild_wrapper",
    "reduce_storage",
    "reduce_tensor",
    "set_state",
    "sparse_parts",
    "state_of",
    "warn_of_hooks",
    "with_conj_neg_bits",
]


def find_named(module: str, name: str) -> Any:
    """Return what a module of this package has under a name; names with dots lead into classes.

    Messages of a program under `as_torch` call it: Note [Names under torch].

    Raises:
        UnpicklingError: It is a module of another package.
    """
    if module.partition(".")[0] != _C.__name__.partition(".")[0]:
        raise pickle.UnpicklingError(f"find_named(): {module} is not of this package")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def rebuild_storage(data: Any) -> UntypedStorage:
    """Unpickle a storage: bytes are copied, writable buffers from out of band are shown."""
    raw = memoryview(data)
    if isinstance(data, bytes | bytearray) or raw.readonly or raw.nbytes == 0:
        return UntypedStorage(raw)
    shown = UntypedStorage._of_tensor(_C.frombuffer(raw.cast("B"), dtype=_C.uint8))
    # The widest element wants its address to be a multiple of its size.
    return shown if shown.data_ptr() % 16 == 0 else shown.clone()


def rebuild_meta_storage(size: int) -> UntypedStorage:
    return UntypedStorage(size, device="meta")


def reduce_storage(storage: UntypedStorage, protocol: int) -> Any:
    """Do ``UntypedStorage.__reduce_ex__``.

    Args:
        storage: The storage.
        protocol: Pickle protocol; from 5 on the bytes may travel out of band.
    """
    if storage.device.type == "meta":
        return rebuild_meta_storage, (len(storage),)
    view = storage._view()
    return rebuild_storage, (pickle.PickleBuffer(view) if protocol >= 5 else bytes(view),)


def with_conj_neg_bits(tensor: Tensor, conj: bool, neg: bool) -> Tensor:
    """Return *tensor* as the conjugate, the negative or both of what its memory holds."""
    if conj:
        tensor = _C._conj(tensor)
    if neg:
        tensor = _C._neg_view(tensor)
    return tensor.detach() if conj or neg else tensor


def rebuild_tensor(
    storage: UntypedStorage,
    dtype: Any,
    storage_offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool = False,
    backward_hooks: Any = None,
    conj: bool = False,
    neg: bool = False,
) -> Tensor:
    """Unpickle a tensor: show *storage* with the given geometry."""
    tensor: Tensor = _c.tensor_over(storage._ref, size, stride, storage_offset, dtype._code)
    tensor = with_conj_neg_bits(tensor, conj, neg)
    if requires_grad:
        tensor.requires_grad_(True)
    return tensor


def as_class(tensor: Tensor, kind: type[Tensor]) -> Tensor:
    """Return a leaf of another class over the same memory."""
    if type(tensor) is kind:
        return tensor
    made = tensor.detach().as_subclass(kind)
    made.requires_grad_(tensor.requires_grad)
    return made


def rebuild_subclass(kind: type[Tensor], tensor: Tensor, state: Any) -> Tensor:
    """Unpickle a tensor of another class, or one with attributes."""
    made = as_class(tensor, kind)
    set_state(made, state)
    return made


def has_memory(tensor: Tensor) -> bool:
    """Return whether a tensor has elements of its own; wrappers have none."""
    return type(tensor) is Tensor or "NoMemory" not in _C._dispatch_keys(tensor)


def make_wrapper(
    kind: type[Tensor],
    dtype: Any,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    storage_offset: int,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """Make a tensor without memory, whose class knows what it stands for."""
    made: Tensor = _C._TensorBase._make_wrapper_subclass(
        kind,
        size,
        strides=stride,
        storage_offset=storage_offset,
        dtype=dtype,
        layout=layout,
        device=device,
        requires_grad=bool(requires_grad),
    )
    return made


def rebuild_wrapper(
    kind: type[Tensor],
    size: tuple[int, ...],
    stride: tuple[int, ...],
    storage_offset: int,
    dtype: Any,
    device: Any,
    requires_grad: bool,
    state: Any,
) -> Tensor:
    """Unpickle a tensor without memory: its attributes are all there is."""
    made = make_wrapper(
        kind, dtype, size, stride, storage_offset, _C.strided, device, requires_grad
    )
    set_state(made, state)
    return made


def _slot_names(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                is_private = name.startswith("__") and not name.endswith("__")
                yield f"_{base.__name__.lstrip('_')}{name}" if is_private else name


def _values_of_slots(tensor: Tensor) -> dict[str, Any]:
    names = _slot_names(type(tensor))
    return {name: getattr(tensor, name) for name in names if hasattr(tensor, name)}


def state_of(tensor: Tensor) -> Any:
    """Return what a pickle has of a tensor beside its elements.

    That is what its ``__getstate__`` returns. By default it is a dictionary of the attributes, with
    values in slots a pair of that and of a dictionary of those, and None or empty without any.
    """
    if hasattr(tensor, "__getstate__"):  # from Python 3.11 on every object has it
        return tensor.__getstate__()
    attributes = dict(getattr(tensor, "__dict__", {}))
    slots = _values_of_slots(tensor)
    return (attributes, slots) if slots else attributes


def set_state(tensor: Tensor, state: Any) -> None:
    """Give a tensor what `state_of` returned: to its ``__setstate__``, if its class has one.

    Raises:
        RuntimeError: There is none, and *state* is not what `state_of` returns by default.
    """
    take = getattr(tensor, "__setstate__", None)
    if take is not None:
        take(state)
        return
    parts = state if isinstance(state, tuple) else (state, None)
    if len(parts) != 2 or not all(part is None or isinstance(part, dict) for part in parts):
        raise RuntimeError(
            f"{type(tensor).__name__} has no __setstate__, so that its state should be a "
            "dictionary of attributes or a pair of dictionaries, of attributes and of slots; "
            f"__getstate__ returned {reprlib.repr(state)}"
        )
    for part in parts:
        for name, value in (part or {}).items():
            setattr(tensor, name, value)


def sparse_parts(tensor: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors that a sparse one is made of; they share its memory."""
    plain = tensor.detach()
    if tensor.layout is _C.sparse_coo:
        return plain._indices(), plain._values()
    if tensor.layout is _C.sparse_csr:
        return plain.crow_indices(), plain.col_indices(), plain.values()
    return plain.ccol_indices(), plain.row_indices(), plain.values()


def rebuild_sparse(
    layout: Any,
    parts: tuple[Tensor, ...],
    size: tuple[int, ...],
    is_coalesced: bool,
    requires_grad: bool = False,
) -> Tensor:
    """Return the sparse tensor of these parts, which it shares.

    Their shapes are checked; indices are looked at by the operators that use them.

    Raises:
        RuntimeError: The parts do not fit together.
    """
    tensor: Tensor
    if layout is _C.sparse_coo:
        indices, values = parts
        tensor = _C._nn._sparse_coo_tensor_checked(indices, values, size, False, is_coalesced)
    else:
        compressed, plain, values = parts
        tensor = _C._sparse_compressed_tensor_unsafe(compressed, plain, values, size, layout)
    if requires_grad:
        tensor.requires_grad_(True)
    return tensor


def _reduce_sparse(tensor: Tensor) -> tuple[Any, ...]:
    """The arguments of `rebuild_sparse` for a tensor."""
    return (
        tensor.layout,
        sparse_parts(tensor),
        tuple(tensor.size()),
        tensor.layout is _C.sparse_coo and tensor.is_coalesced(),
        tensor.requires_grad,
    )


def warn_of_hooks(tensor: Tensor) -> None:
    """Warn if *tensor* has hooks, which stay behind when it is pickled."""
    if tensor._backward_hooks:
        warnings.warn(
            f"{len(tensor._backward_hooks)} backward hooks of a tensor of size "
            f"{tuple(tensor.shape)} are not serialized",
            ShmTensorWarning,
            stacklevel=4,
        )


def reduce_tensor(tensor: Tensor, protocol: int) -> Any:
    """Do ``Tensor.__reduce_ex__``.

    Args:
        tensor: Any tensor; of a non-leaf the value is kept and the history is not.
        protocol: Pickle protocol.
    """
    warn_of_hooks(tensor)
    if not has_memory(tensor):
        geometry = (tuple(tensor.size()), tensor.stride(), tensor.storage_offset())
        kind = (tensor.dtype, str(tensor.device), tensor.requires_grad)
        return rebuild_wrapper, (type(tensor), *geometry, *kind, state_of(tensor))
    state = state_of(tensor)
    if tensor.layout is not _C.strided:
        if type(tensor) is Tensor and not state:
            return rebuild_sparse, _reduce_sparse(tensor)
        plain = tensor.detach().as_subclass(Tensor).requires_grad_(tensor.requires_grad)
        return rebuild_subclass, (type(tensor), plain, state)
    arguments = (
        tensor.untyped_storage(),
        tensor.dtype,
        tensor.storage_offset(),
        tuple(tensor.size()),
        tensor.stride(),
        tensor.requires_grad,
        collections.OrderedDict(),
        *((tensor.is_conj(), tensor.is_neg()) if tensor.is_conj() or tensor.is_neg() else ()),
    )
    if type(tensor) is Tensor and not state:
        return rebuild_tensor, arguments
    return rebuild_subclass, (type(tensor), rebuild_tensor(*arguments), state)


def deepcopy_tensor(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """Do ``Tensor.__deepcopy__``: copy the storage once, so that aliases stay aliases.

    Raises:
        RuntimeError: The tensor has a history.

    Source:
        torch.Tensor.__deepcopy__.
    """
    if tensor.grad_fn is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            f"protocol at the moment; this one of size {tuple(tensor.shape)} is the result of "
            f"{tensor.grad_fn.name()}"
        )
    if id(tensor) in memo:
        known: Tensor = memo[id(tensor)]
        return known
    if tensor.layout is not _C.strided:
        result = tensor.detach().clone()
    elif not has_memory(tensor):
        result = tensor.clone().detach_() if tensor.requires_grad else tensor.clone()
        if type(result) is not type(tensor):
            raise RuntimeError(
                f"a {type(tensor).__name__} has no memory that could be copied, and its clone() "
                f"returned a {type(result).__name__}: __torch_dispatch__ should answer clone, or "
                "the class define __deepcopy__"
            )
    else:
        result = rebuild_tensor(
            tensor.untyped_storage().__deepcopy__(memo),
            tensor.dtype,
            tensor.storage_offset(),
            tuple(tensor.size()),
            tensor.stride(),
            conj=tensor.is_conj(),
            neg=tensor.is_neg(),
        )
    if type(result) is not type(tensor):
        result = result.as_subclass(type(tensor))
    if tensor.requires_grad:
        result.requires_grad_(True)
    memo[id(tensor)] = result
    if tensor.grad is not None:
        result.grad = copy.deepcopy(tensor.grad, memo)
    if type(tensor) is not Tensor or getattr(tensor, "__dict__", None):
        for name, value in _values_of_slots(tensor).items():
            setattr(result, name, copy.deepcopy(value, memo))
        result.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
    return result
