"""Functions that give arrays another shape or order, join them and take from them."""

from __future__ import annotations

from collections.abc import Sequence

import shmtensor as engine
from shmtensor._core._tensor import Tensor
from shmtensor.array_api._axes import axis_index, axis_indices, only_axis
from shmtensor.array_api._dtypes import promoted

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "take",
    "take_along_axis",
    "tile",
    "unstack",
]


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Return the arrays with one shape in common; views."""
    return list(engine.broadcast_tensors(*arrays))


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Return *x* repeated along axes of length 1 and new ones; a view."""
    return engine.broadcast_to(x, shape)


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Return arrays joined along an axis that they have; None flattens them first."""
    parts = promoted(arrays)
    if axis is None:
        return engine.cat([x.reshape(-1) for x in parts])
    axis = axis_index(axis, parts[0].ndim)
    # The engine passes over parts of shape (0,), whatever the others' shapes are.
    for part in parts:
        if part.ndim != parts[0].ndim:
            shapes = [tuple(x.shape) for x in parts]
            raise ValueError(f"concat(): arrays must have as many axes each, got {shapes}")
    return engine.cat(parts, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Return arrays of one shape joined along a new axis."""
    return engine.stack(promoted(arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the parts of *x* along an axis, without that axis; views."""
    return tuple(engine.unbind(x, axis_index(axis, x.ndim)))


def expand_dims(x: Tensor, /, axis: int) -> Tensor:
    """Return *x* with a new axis of length 1 at *axis*; a view."""
    return engine.unsqueeze(x, axis_index(axis, x.ndim + 1))


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """Return *x* without axes of length 1; a view.

    Raises:
        ValueError: An axis is longer.
    """
    axes = axis_indices(axis, x.ndim)
    for n in axes:
        if x.shape[n] != 1:
            raise ValueError(f"squeeze(): axis {n} has length {x.shape[n]}, not 1")
    return engine.squeeze(x, axes)


def flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return *x* with the order along *axis*, or all axes, reversed."""
    return engine.flip(x, axis_indices(axis, x.ndim))


def roll(
    x: Tensor,
    /,
    shift: int | tuple[int, ...],
    *,
    axis: int | tuple[int, ...] | None = None,
) -> Tensor:
    """Return *x* with elements shifted along axes; what leaves at the end enters at the start.

    Args:
        x: Any array.
        shift: By how much, for all axes or for each.
        axis: Along which axes; None flattens for the shift.

    Raises:
        ValueError: *shift* and *axis* are tuples of two lengths.
    """
    if axis is None:
        if not isinstance(shift, int):
            raise ValueError(f"roll(): axis must be given for several shifts, got {shift!r}")
        return engine.roll(x, shift)
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    shifts = (shift,) * len(axes) if isinstance(shift, int) else tuple(shift)
    axes = axes * len(shifts) if isinstance(axis, int) else axes
    if len(shifts) != len(axes):
        raise ValueError(f"roll(): {len(shifts)} shifts do not go with {len(axes)} axes")
    return engine.roll(x, shifts, [axis_index(n, x.ndim) for n in axes])


def moveaxis(
    x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /
) -> Tensor:
    """Return *x* with axes moved to other places; a view."""
    return engine.movedim(x, axis_indices(source, x.ndim), axis_indices(destination, x.ndim))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Return *x* with its axes in another order; a view."""
    return engine.permute(x, axes)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return the elements of *x* in another shape.

    Args:
        x: Any array.
        shape: The shape; -1 stands for the length that fits.
        copy: True copies always, False never; None copies when it must.

    Raises:
        ValueError: A copy is needed and *copy* is False.
    """
    if copy:
        return engine.reshape(engine.clone(x), shape)
    result = engine.reshape(x, shape)
    if copy is False and x.numel() and result.data_ptr() != x.data_ptr():
        raise ValueError(
            f"reshape(): shape {tuple(x.shape)} with strides {x.stride()} needs a copy to become "
            f"{tuple(shape)}"
        )
    return result


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return *x* with each element repeated along *axis*; None flattens *x* first.

    Args:
        x: Any array.
        repeats: How many times, for all elements or for each along the axis.
        axis: The axis.
    """
    if axis is not None:
        axis = axis_index(axis, x.ndim)
    if isinstance(repeats, Tensor):
        repeats = repeats.to(engine.int64)
    return engine.repeat_interleave(x, repeats, axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Return *x* as a whole repeated along its axes, and new ones in front."""
    return engine.tile(x, tuple(repetitions))


# --- taking -----------------------------------------------------------------------------------


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return the parts of *x* at *indices* along an axis.

    Args:
        x: Any array.
        indices: Integers; negative ones count from the end.
        axis: The axis; may be None when there is but one.

    Raises:
        IndexError: An index is out of range.
    """
    axis = only_axis(x, axis, "take")
    # Not as they are: the engine takes uint8 for a mask.
    return x[(slice(None),) * axis + (indices.to(engine.int64),)]


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return for every place the element of *x* at the index in that place.

    Args:
        x: Any array.
        indices: Integers with as many axes as *x*, broadcast with it but for *axis*; negative
            ones count from the end.
        axis: The axis that the indices are for.
    """
    axis = axis_index(axis, x.ndim)
    where = indices.to(engine.int64)
    return engine.take_along_dim(x, engine.where(where < 0, where + x.shape[axis], where), axis)
