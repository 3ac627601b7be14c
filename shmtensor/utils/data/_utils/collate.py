"""Makes batches from lists of samples.

In a worker process, the tensors of a batch are made in shared memory, so that sending them copies
nothing.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._core._torch_memory import memory_of, shown
from shmtensor.utils.data._utils.interop import (
    from_torch,
    has_torch_dtype,
    is_array,
    is_torch_tensor,
)
from shmtensor.utils.data._utils.tree import (
    is_namedtuple,
    is_sequence,
    like_mapping,
    like_sequence,
)
from shmtensor.utils.data._utils.worker import get_worker_info

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_err_msg_format",
    "default_collate_fn_map",
    "default_convert",
    "new_batch",
    "np_str_obj_array_pattern",
]

_Functions = dict[Any, Callable[..., Any]]

#: Arrays whose dtype's text has one of these letters are of text or objects.
np_str_obj_array_pattern = re.compile(r"[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def _is_of_text_or_objects(dtype: np.dtype[Any]) -> bool:
    return np_str_obj_array_pattern.search(dtype.str) is not None


def new_batch(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return memory for a batch: shared in a worker process, private elsewhere."""
    return _C.empty(shape, dtype=dtype, shared=get_worker_info() is not None)


def default_convert(data: Any) -> Any:
    """Convert the arrays in a sample to tensors.

    Args:
        data: A value, or mappings and sequences of values. NumPy arrays and numbers become tensors,
            but not arrays of classes that are not NumPy's own, such as masked arrays. Torch
            tensors become tensors over the same memory, unless only torch has their dtype. Other
            values stay as they are.

    Returns:
        Containers like those of *data*, but tuples become lists, except for named tuples.

    Source:
        torch.utils.data.default_convert.
    """
    if isinstance(data, Tensor):
        return data
    if is_array(data) and type(data).__module__ == "numpy":  # not of masked arrays and their like
        return data if _is_of_text_or_objects(data.dtype) else _C.as_tensor(data)
    if "numpy" in sys.modules and isinstance(data, sys.modules["numpy"].generic):
        return data if isinstance(data, (str, bytes)) else _C.as_tensor(data)
    if is_torch_tensor(data):
        return data if has_torch_dtype(data) else from_torch(data)
    if isinstance(data, Mapping):
        return like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if is_namedtuple(data):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if is_sequence(data):
        return like_sequence(data, [default_convert(value) for value in data])
    return data


def collate(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Merge samples, by the type of the first one.

    Args:
        batch: A sequence of samples with the same structure.
        collate_fn_map: For a type, or a tuple of types, the function that merges values of that
            type. It is called as ``function(values, collate_fn_map=collate_fn_map)``. An exact type
            wins over base classes, which are tried in the order of the map.

    Returns:
        Mappings and sequences of merged values; see `default_collate`.

    Raises:
        RuntimeError: Sequences have different lengths.
        TypeError: There is no function for a value.

    Source:
        torch.utils.data._utils.collate.collate.
    """
    if not _knows_numpy and "numpy" in sys.modules:
        _add_numpy()
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        if kind in collate_fn_map:
            return collate_fn_map[kind](batch, collate_fn_map=collate_fn_map)
        for known, function in collate_fn_map.items():
            if isinstance(first, known):
                return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        merged = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return like_mapping(first, merged)
    if is_namedtuple(first):
        columns = zip(*batch, strict=False)
        return kind(*(collate(column, collate_fn_map=collate_fn_map) for column in columns))
    if is_sequence(first):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = zip(*batch, strict=True)
        values = [collate(column, collate_fn_map=collate_fn_map) for column in columns]
        return values if isinstance(first, tuple) else like_sequence(first, values)
    if is_torch_tensor(first):
        return _collate_torch(batch, collate_fn_map)
    raise TypeError(default_collate_err_msg_format.format(kind))


def _collate_torch(batch: Any, collate_fn_map: _Functions | None) -> Any:
    """Stack torch tensors, in the dtype of the first. A dtype that only torch has stays torch's."""
    if not has_torch_dtype(batch[0]):
        tensors = [from_torch(t) if is_torch_tensor(t) else t for t in batch]
        return collate_tensor_fn(tensors, collate_fn_map=collate_fn_map)
    parts = [memory_of(t) if is_torch_tensor(t) else (t, None) for t in batch]
    names = {name for _, name in parts}
    if len(names) > 1:
        raise RuntimeError(f"default_collate: batch has tensors of {batch[0].dtype} and of others")
    stacked = collate_tensor_fn([t for t, _ in parts], collate_fn_map=collate_fn_map)
    return shown(stacked, names.pop())


def collate_tensor_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Stack tensors.

    Raises:
        RuntimeError: Their shapes differ, or they are sparse.
        TypeError: Not all are tensors.
    """
    first = batch[0]
    if isinstance(first, Tensor) and first.layout is not _C.strided:
        raise RuntimeError(
            "Batches of sparse tensors are not currently supported by the default collate_fn; "
            "please provide a custom collate_fn to handle them appropriately."
        )
    # Subclasses of Tensor make the batch themselves.
    is_plain = isinstance(batch, (list, tuple)) and all(
        type(t) is Tensor and t.dtype == first.dtype and not t.requires_grad and not t.is_meta
        for t in batch
    )
    if not is_plain:
        return _C.stack(batch, 0)
    out = new_batch((len(batch), *first.shape), first.dtype)
    return _C.stack(batch, 0, out=out)


def collate_numpy_array_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Stack NumPy arrays into a tensor.

    Raises:
        RuntimeError: Their shapes differ.
        TypeError: Their dtype is text, object or another that tensors do not have.
    """
    first = batch[0]
    if _is_of_text_or_objects(first.dtype):
        raise TypeError(default_collate_err_msg_format.format(first.dtype))
    is_regular = all(
        is_array(array) and array.dtype == first.dtype and array.shape == first.shape
        for array in batch
    )
    if not is_regular:
        return collate([_C.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)
    import numpy as np  # it is loaded already

    dtype = _C.as_tensor(np.empty(0, first.dtype)).dtype
    out = new_batch((len(batch), *first.shape), dtype)
    if out.numel():
        np.stack(batch, out=out.numpy())
    return out


def collate_numpy_scalar_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Make a tensor from NumPy scalars."""
    return _of_numbers(_C.as_tensor(batch))


def collate_float_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Make a float64 tensor from numbers."""
    return _of_numbers(_C.tensor(batch, dtype=_C.float64))


def collate_int_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Make a tensor from numbers, with the dtype that `tensor` chooses."""
    return _of_numbers(_C.tensor(batch))


def _of_numbers(tensor: Any) -> Any:
    if get_worker_info() is None:
        return tensor
    return new_batch(tuple(tensor.shape), tensor.dtype).copy_(tensor)


def collate_str_fn(batch: Any, *, collate_fn_map: _Functions | None = None) -> Any:
    """Return the list of strings unchanged."""
    return batch


#: For each type, the function that merges values of it; programs add theirs.
default_collate_fn_map: _Functions = {
    Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}

_knows_numpy = False


def _add_numpy() -> None:
    """Add NumPy's types to the map, before `float`, which is a base class of one."""
    import numpy as np

    global _knows_numpy
    _knows_numpy = True
    others = dict(default_collate_fn_map)
    default_collate_fn_map.clear()
    default_collate_fn_map[Tensor] = others.pop(Tensor, collate_tensor_fn)
    default_collate_fn_map[np.ndarray] = collate_numpy_array_fn
    default_collate_fn_map[(np.bool_, np.number, np.object_)] = collate_numpy_scalar_fn
    default_collate_fn_map.update(others)


if "numpy" in sys.modules:
    _add_numpy()


def default_collate(batch: Any) -> Any:
    """Merge samples into a batch. Tensors get a new first dimension.

    Args:
        batch: Samples with the same structure. Tensors, torch tensors, arrays and numbers are
            stacked; torch tensors of a dtype that only torch has (float8) into one of torch.
            Strings and bytes become a list. Mappings are merged key by key, and sequences index by
            index.

    Returns:
        A batch. Tuples become lists, except for named tuples. In a worker process, its tensors are
        in shared memory.

    Raises:
        RuntimeError: Tensors have different shapes, or sequences different lengths.
        TypeError: A sample is of another type.

    Source:
        torch.utils.data.default_collate.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
