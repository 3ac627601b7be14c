"""Numeric functions whose arguments take many forms: gradient, histogramdd, norm."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Sequence
from typing import Any

from shmtensor import _C
from shmtensor._core._arguments import checked, is_int
from shmtensor._core._overridable import Handed, overridable
from shmtensor._core._tensor import Tensor

__all__ = ["gradient", "histogramdd", "unravel_index"]


def _spacings(input: Tensor, spacing: Any, dims: list[int], given: bool) -> list[Any]:
    """One number or vector of coordinates per dimension."""
    if spacing is None:
        return [1] * len(dims)
    if isinstance(spacing, numbers.Number):
        return [spacing] * len(dims)
    if isinstance(spacing, Tensor):
        if spacing.dim() != 0:
            raise TypeError(
                "gradient(): argument 'spacing' must be a number, or a sequence of numbers or "
                f"tensors, not a Tensor of shape {tuple(spacing.shape)}"
            )
        return [spacing.item()] * len(dims)
    listed = list(spacing)
    if len(listed) != len(dims):
        wanted = (
            " or it's spacing and dim arguments to have the same length, but got a spacing "
            f"argument of length {len(listed)} and a dim argument of length {len(dims)}."
            if given
            else f", or a list of length equal to 'self.dim() = {input.dim()}', since dim argument "
            f"was not given, but got a list of length {len(listed)}"
        )
        raise RuntimeError(f"torch.gradient expected spacing to be unspecified, a scalar{wanted}")
    for each in listed:
        if isinstance(each, Tensor) and each.device != input.device:
            raise RuntimeError(
                "torch.gradient expected each tensor to be on the same device, but got devices "
                f"{input.device} and {each.device}!"
            )
    return listed


def _dims(input: Tensor, dim: Any) -> list[int]:
    n = input.dim()
    if dim is None:
        return list(range(n))
    result: list[int] = []
    if isinstance(dim, bool):
        raise TypeError("gradient(): argument 'dim' must be int or a sequence of ints, not bool")
    for d in [int(dim)] if is_int(dim) else list(dim):
        if not -max(n, 1) <= d < max(n, 1):
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-max(n, 1)}, "
                f"{max(n, 1) - 1}], but got {d})"
            )
        if d % max(n, 1) in result:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
        result.append(d % max(n, 1))
    return result


def _along(input: Tensor, dim: int, spacing: Any, edge_order: int) -> Tensor:
    """The derivative along one dimension: central inside, one-sided at both ends."""
    size = input.shape[dim]

    def at(begin: int, end: int | None = None) -> Tensor:
        return input.narrow(dim, begin, (begin + 1 if end is None else end) - begin)

    if isinstance(spacing, Tensor):
        if spacing.dim() != 1 or spacing.shape[0] != size:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one dimension, and as "
                f"many coordinates as dimension {dim} has elements, {size}; got shape "
                f"{tuple(spacing.shape)}"
            )
        shape = [1] * input.dim()
        shape[dim] = size - 1
        steps = spacing.diff().reshape(shape)
        left, right = steps.narrow(dim, 0, size - 2), steps.narrow(dim, 1, size - 2)
        first, second = steps.narrow(dim, 0, 1), steps.narrow(dim, min(1, size - 2), 1)
        last, before = steps.narrow(dim, size - 2, 1), steps.narrow(dim, max(size - 3, 0), 1)
    else:
        left = right = first = second = last = before = spacing
    if isinstance(spacing, Tensor):
        a, b = -right / (left * (left + right)), (right - left) / (left * right)
        c = left / (right * (left + right))
        inner = a * at(0, size - 2) + b * at(1, size - 1) + c * at(2, size)
    else:
        inner = (at(2, size) - at(0, size - 2)) / (2.0 * spacing)
    if edge_order == 1:
        begin = (at(1) - at(0)) / first
        end = (at(size - 1) - at(size - 2)) / last
    else:
        a = -(2.0 * first + second) / (first * (first + second))
        b, c = (first + second) / (first * second), -first / (second * (first + second))
        begin = a * at(0) + b * at(1) + c * at(2)
        a, b = last / (before * (before + last)), -(before + last) / (before * last)
        c = (2.0 * last + before) / (last * (before + last))
        end = a * at(size - 3) + b * at(size - 2) + c * at(size - 1)
    return _C.cat([begin, inner, end], dim)


@overridable(as_given=True)
@checked
def gradient(
    input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1
) -> tuple[Tensor, ...]:
    """Estimate derivatives of samples along dimensions by finite differences.

    Args:
        input: Samples, any shape; not uint8.
        spacing: The distance of the samples: a number, or per dimension a number or a vector of
            coordinates. 1 by default.
        dim: A dimension or several; all by default.
        edge_order: 1 or 2, the order of accuracy at both ends.

    Returns:
        One tensor of *input*'s shape per dimension.

    Raises:
        RuntimeError: *spacing* does not fit, or a dimension has too few samples.

    Source:
        torch.gradient.
    """
    if input.dtype is _C.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    dims = _dims(input, dim)
    spacings = _spacings(input, spacing, dims, dim is not None)
    if any(input.dim() == 0 or input.shape[d] < edge_order + 1 for d in dims):
        raise RuntimeError(
            "torch.gradient expected each dimension size to be at least edge_order+1"
        )
    return tuple(_along(input, d, s, edge_order) for d, s in zip(dims, spacings, strict=True))


def _hand_shape_over_by_name(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Handed:
    indices, shape = inspect.signature(function).bind(*args, **kwargs).args
    return (indices,), (indices,), {"shape": shape}


@overridable(hand_over=_hand_shape_over_by_name)
def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Turn positions in a flattened array into coordinates.

    Args:
        indices: Integers, any shape.
        shape: The array's sizes.

    Returns:
        One tensor of *indices*' shape per dimension.

    Raises:
        TypeError: *indices* are not integers, or *shape* is not a sequence of ints.
        ValueError: A size is negative.

    Source:
        torch.unravel_index.
    """
    if indices.is_complex() or indices.is_floating_point() or indices.dtype is _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if isinstance(shape, int):
        shape = (shape,)
    if not isinstance(shape, Sequence):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    for size in shape:
        if not isinstance(size, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(shape)}")
    if not shape:
        return ()
    steps = [1]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * size)
    coordinates = indices.unsqueeze(-1).div(
        _C.tensor(steps[::-1], device=indices.device), rounding_mode="floor"
    )
    return (coordinates % _C.tensor(list(shape), device=indices.device)).unbind(-1)


@overridable(as_given=True)
def histogramdd(
    input: Tensor,
    bins: Any,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """Count points of several dimensions in a grid of bins.

    Args:
        input: ``(..., D)`` points, float32 or float64.
        bins: The number of bins in each dimension, as one int or D of them, or D vectors of edges.
        range: Lowest and highest edge of each dimension, 2 D numbers; by default those of the data.
        weight: ``(...)``, what each point counts.
        density: Divide by the total and by each bin's volume.

    Returns:
        The counts, with one dimension per coordinate, and the edges used.

    Raises:
        RuntimeError: The number of bins or bounds does not fit, or edges are out of order.

    Source:
        torch.histogramdd.
    """
    if input.dim() < 2:
        raise RuntimeError(
            "torch.histogramdd: input tensor should have at least 2 dimensions, but got "
            f"{input.dim()}"
        )
    width = input.shape[-1]
    listed = [bins] * width if isinstance(bins, int) else list(bins)
    if len(listed) != width:
        raise RuntimeError(
            f"torch.histogramdd: expected {width} sequences of bin edges for a {width}-dimensional "
            f"histogram but got {len(listed)}"
        )
    given = [b for b in listed if isinstance(b, Tensor)]
    if len(given) == width:
        edges: tuple[Tensor, ...] = tuple(given)
    else:
        bounds = None if range is None else [float(r) for r in range]
        edges = tuple(_C._nn._histogramdd_bin_edges(input, listed, range=bounds, weight=weight))
    hist = _C._nn._histogramdd_from_bin_tensors(input, edges, weight=weight, density=density)
    return _C._named_result("histogramdd", "hist bin_edges", (hist, edges))
