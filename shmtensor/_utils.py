"""Small tools that programs written for torch take from `torch._utils`."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from shmtensor import _C
from shmtensor._tensor import Tensor

__all__ = [
    "_element_size",
    "_flatten_dense_tensors",
    "_get_all_device_indices",
    "_get_available_device_type",
    "_get_device_index",
    "_import_dotted_name",
    "_reorder_tensors_as",
    "_take_tensors",
    "_unflatten_dense_tensors",
]


def _element_size(dtype: _C.dtype) -> int:
    """Return the bytes of one element of *dtype*."""
    if not isinstance(dtype, _C.dtype):
        raise RuntimeError(f"expected torch.dtype, but got {type(dtype)}")
    return int(dtype.itemsize)


def _import_dotted_name(name: str) -> Any:
    """Return what a name such as ``"package.module.Class"`` stands for, importing the package."""
    first, *rest = name.split(".")
    found: Any = importlib.import_module(first)
    for part in rest:
        found = getattr(found, part)
    return found


# --- many tensors as one -------------------------------------------------------------------------


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """Return a copy of the elements of all *tensors*, of one dtype, one after another: 1-d."""
    result: Tensor = _C.cat([t.contiguous().view(-1) for t in tensors])
    return result


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Return views of *flat* with the shapes of *tensors*; undoes `_flatten_dense_tensors`.

    A tensor without elements is new instead: it keeps its place, and shares nothing.
    """
    views, start = [], 0
    for t in tensors:
        n = t.numel()
        views.append(flat.narrow(0, start, n).view_as(t) if n else flat.new_empty(t.shape))
        start += n
    return tuple(views)


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Group *tensors* by dtype into lists of at least *size_limit* bytes; rests come last.

    A list is given as soon as the next tensor of its dtype would pass the limit.
    """
    groups: dict[str, tuple[list[Tensor], int]] = {}
    for t in tensors:
        group, size = groups.get(t.type(), ([], 0))
        nbytes = t.numel() * t.element_size()
        if group and size + nbytes > size_limit:
            yield group
            group, size = [], 0
        group.append(t)
        groups[t.type()] = (group, size + nbytes)
    for group, _ in groups.values():
        if group:
            yield group


def _reorder_tensors_as(
    tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]
) -> tuple[Tensor, ...]:
    """Return *tensors*, which come grouped by type, in the order of types of *ordered_tensors*."""
    by_type: dict[str, list[Tensor]] = {}
    for t in tensors:
        by_type.setdefault(t.type(), []).append(t)
    rests = {name: iter(group) for name, group in by_type.items()}
    return tuple(next(rests[t.type()]) for t in ordered_tensors)


# --- devices -------------------------------------------------------------------------------------


def _get_available_device_type() -> str | None:
    """Return the type of the accelerator: None, there is none."""
    return None


def _get_all_device_indices() -> list[int] | None:
    """Return the numbers of all accelerators: None, there are none."""
    return None


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int | None:
    """Return the number in *device*, which is a number, a device or its name.

    Args:
        device: What to look at; None and a device without a number have the current one.
        optional: Take them: without an accelerator, the result is None.
        allow_cpu: Take the CPU; its number is -1.

    Raises:
        ValueError: The CPU, or no number, where that is not allowed.
    """
    if isinstance(device, int):
        return device
    name = str(device) if isinstance(device, (str, _C.device)) else ""
    kind, _, index = name.partition(":")
    if kind == "cpu":
        if allow_cpu:
            return -1
        raise ValueError(f"Expected a non cpu device, but got: {device}")
    if index:
        return int(index)
    if optional:
        return None
    raise ValueError(
        f"Expected a torch.device with a specified index or an integer, but got:{device}"
    )
