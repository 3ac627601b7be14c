"""Functions of several tensors that take them one by one, such as ``meshgrid(a, b)``.

The other functions that torch has under this path are found here too.

Source:
    torch.functional.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from shmtensor import _C
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor
from shmtensor._core._warnings import warn_once

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block_diag",
    "broadcast_shapes",
    "broadcast_tensors",
    "cartesian_prod",
    "meshgrid",
    "split_copy",
    "split_with_sizes_copy",
    "unbind_copy",
]

#: Those that the package has from elsewhere.
_OTHERS = """
    cdist chain_matmul einsum istft lu norm pca_lowrank split stft svd_lowrank tensordot unique
    unique_consecutive unravel_index
""".split()


def __getattr__(name: str) -> Any:
    if name in _OTHERS:
        import shmtensor

        return getattr(shmtensor, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_OTHERS})


def _as_list(tensors: tuple[Any, ...]) -> Sequence[Tensor]:
    """The tensors of ``f(a, b)`` or ``f([a, b])``."""
    if len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        return cast("Sequence[Tensor]", tensors[0])
    return tensors


def _each(function: Callable[..., Any], tensors: tuple[Any, ...]) -> Any:
    """One tensor for one, a tuple for several or a sequence."""
    return function(tensors[0] if len(tensors) == 1 else tensors)


@overridable
def atleast_1d(*tensors: Any) -> Any:
    """Give tensors at least one dimension.

    Args:
        *tensors: One tensor, several, or a sequence.

    Returns:
        A tensor for one tensor, else a tuple. Tensors that have enough dimensions are returned
        as they are.

    Source:
        torch.atleast_1d.
    """
    return _each(_C._nn.atleast_1d, tensors)


@overridable
def atleast_2d(*tensors: Any) -> Any:
    """Give tensors at least two dimensions; a vector becomes a row. See `atleast_1d`."""
    return _each(_C._nn.atleast_2d, tensors)


@overridable
def atleast_3d(*tensors: Any) -> Any:
    """Give tensors at least three dimensions; a matrix gets a last one. See `atleast_1d`."""
    return _each(_C._nn.atleast_3d, tensors)


@overridable
def block_diag(*tensors: Tensor) -> Tensor:
    """Put matrices along the diagonal of one; vectors count as rows.

    Source:
        torch.block_diag.
    """
    return _C._nn.block_diag(tensors)


def broadcast_shapes(*shapes: int | Sequence[int]) -> Any:
    """Return the shape to which all the given ones broadcast.

    Args:
        *shapes: Shapes, or ints that stand for one dimension.

    Raises:
        RuntimeError: They do not broadcast together, or are not shapes.
        ValueError: A size is negative.

    Source:
        torch.broadcast_shapes.
    """
    result: list[int] = []
    for position, shape in enumerate(shapes):
        if not isinstance(shape, (int, tuple, list)):
            raise RuntimeError(
                "Input shapes should be of type ints, a tuple of ints, or a list of ints, got "
                f"{shape}"
            )
        given = (shape,) if isinstance(shape, int) else shape
        sizes = list(given)
        if any(size < 0 for size in sizes):
            raise ValueError(
                "Attempting to broadcast a dimension with negative length! Got "
                f"{tuple(sizes)} at index {position}"
            )
        result = [1] * (len(sizes) - len(result)) + result
        for i in range(-1, -len(sizes) - 1, -1):
            if sizes[i] in (1, result[i]):
                continue
            if result[i] != 1:
                raise RuntimeError(
                    f"Attempting to broadcast a dimension of length {sizes[i]} at {i}! Mismatching "
                    f"argument at index {position} had {given}; but expected shape should be "
                    f"broadcastable to {result}"
                )
            result[i] = sizes[i]
    return _C.Size(result)


@overridable
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Expand tensors to their common shape; the results are views.

    Args:
        *tensors: Tensors, or one sequence of them.

    Raises:
        RuntimeError: They do not broadcast together.

    Source:
        torch.broadcast_tensors.
    """
    return _C._nn.broadcast_tensors(_as_list(tensors))


@overridable
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Return all combinations of one element of each vector, as rows.

    Source:
        torch.cartesian_prod.
    """
    return _C._nn.cartesian_prod(_as_list(tensors))


@overridable
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Make one grid per vector, of the shape of all of them.

    Args:
        *tensors: Vectors or scalars, or one sequence of them.
        indexing: ``"ij"`` (the default) or ``"xy"``, which exchanges the first two dimensions.

    Raises:
        RuntimeError: The dtypes differ, or *indexing* is unknown.

    Source:
        torch.meshgrid.
    """
    listed = _as_list(tensors)
    if indexing is None:
        warn_once("meshgrid(): it will be required to pass the indexing argument")
        return _C._nn.meshgrid(listed)
    return _C._nn.meshgrid(listed, indexing=indexing)


def _into(results: Sequence[Tensor], out: Sequence[Tensor] | None) -> Any:
    """The results as a tuple, or None when they went into *out*."""
    if out is None:
        return tuple(results)
    if len(out) != len(results):
        raise RuntimeError(f"expected out= to hold {len(results)} tensors, got {len(out)}")
    for target, value in zip(out, results, strict=True):
        if target.dtype is not value.dtype:
            raise RuntimeError(
                f"Expected out tensor to have dtype {value.dtype}, but got {target.dtype} instead"
            )
    for target, value in zip(out, results, strict=True):
        target.resize_(value.shape).copy_(value)
    return None


@overridable(as_given=True)
def split_copy(
    input: Tensor, split_size: int, dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> Any:
    """Copy the parts of `split`, into the tensors of *out* when those are given."""
    return _into(_C._nn.split_copy(input, split_size, dim), out)


@overridable(as_given=True)
def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[int], dim: int = 0, *, out: Sequence[Tensor] | None = None
) -> Any:
    """Copy parts of the given sizes, into the tensors of *out* when those are given."""
    return _into(_C._nn.split_with_sizes_copy(input, split_sizes, dim), out)


@overridable(as_given=True)
def unbind_copy(input: Tensor, dim: int = 0, *, out: Sequence[Tensor] | None = None) -> Any:
    """Copy the slices of `unbind`, into the tensors of *out* when those are given."""
    return _into(_C._nn.unbind_copy(input, dim), out)
