"""Small tools that programs written for torch take from `torch._utils`."""

from __future__ import annotations

import copy
import importlib
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = [
    "ExceptionWrapper",
    "_element_size",
    "_flatten_dense_tensors",
    "_get_all_device_indices",
    "_get_available_device_type",
    "_get_device_index",
    "_get_device_module",
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


def _get_device_module(device_type: str) -> Any:
    """Return the module of a type of devices, such as `shmtensor.cpu`.

    Raises:
        RuntimeError: There is none.
    """
    package = __name__.partition(".")[0]
    try:
        return importlib.import_module(f"{package}.{device_type}")
    except ImportError:
        raise RuntimeError(f"there is no module for devices of the type '{device_type}'") from None


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


# --- exceptions of other threads and processes ---------------------------------------------------


class _PlainText(str):
    """The text of a KeyError, which shows the representation of what it is given."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception on its way to another thread or process, with its traceback as text.

    Args:
        exc_info: What `sys.exc_info` gave; by default, of the exception that is being handled.
        where: Where it was raised, for the text.

    Source:
        torch._utils.ExceptionWrapper.
    """

    exc_type: type[BaseException]

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        if kind is None:
            raise ValueError("ExceptionWrapper: no exception was given, and none is being handled")
        self.exc_type = kind
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))
        self.where = where
        self._name = kind.__name__

    def of_type(self, exc_type: type[BaseException]) -> ExceptionWrapper:
        """Return the same under another type, for who cannot have the exception's own."""
        other = copy.copy(self)
        other.exc_type = exc_type
        return other

    def reraise(self) -> NoReturn:
        """Raise an exception of that type whose text has the traceback.

        Raises:
            RuntimeError: In place of a type that cannot be made of a text alone.
        """
        text = f"Caught {self._name} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            text = _PlainText(text)
        try:
            if getattr(self.exc_type, "message", None):
                made = self.exc_type(message=text)  # type: ignore[call-arg] # it has such a field
            else:
                made = self.exc_type(text)
        except Exception:
            # The exception's class wants other arguments; its name is in the text.
            raise RuntimeError(text) from None
        raise made


def __getattr__(name: str) -> Any:
    if name.startswith("_rebuild_"):  # what files call; it stands above this module
        from shmtensor.serialization._names import REBUILDS

        function = REBUILDS.get(f"torch._utils.{name}")
        if function is not None:
            return function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
