"""Functions whose results depend on the data in number: nonzero, unique and others."""

from __future__ import annotations

from typing import Any, Literal, overload

from shmtensor import _C
from shmtensor._core._overridable import beyond_torch, overridable
from shmtensor._core._tensor import Tensor

__all__ = ["chain_matmul", "nonzero", "unique", "unique_consecutive"]


@overridable(as_given=True)
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """Find the elements that are not zero.

    Args:
        input: Any shape and dtype.
        out: Receives the result; not with *as_tuple*.
        as_tuple: Return one index vector per dimension, as indexing takes them.

    Returns:
        ``(count, n_dims)``, int64, in row-major order; or a tuple of vectors.

    Source:
        torch.nonzero.
    """
    if as_tuple:
        if out is not None:
            if not isinstance(out, Tensor):
                kind = type(out).__name__
                raise TypeError(f"nonzero(): argument 'out' must be Tensor, not {kind}")
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        return _C._nn.nonzero_numpy(input)
    return _C._nn.nonzero(input) if out is None else _C._nn.nonzero(input, out=out)


def _select(results: tuple[Tensor, Tensor, Tensor], inverse: bool, counts: bool) -> Any:
    values, *rest = results
    wanted = [t for t, is_wanted in zip(rest, (inverse, counts), strict=True) if is_wanted]
    return (values, *wanted) if wanted else values


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any: ...
@overridable
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the different elements of *input*.

    Args:
        input: Any shape, real.
        sorted: Has no effect: the elements always come in order.
        return_inverse: Also return where each element went, shaped like *input*.
        return_counts: Also return how often each of them occurs.
        dim: Compare the slices of this dimension instead of elements.

    Returns:
        A vector, or ``(values, inverse, counts)`` without what was not asked for.

    Source:
        torch.unique.
    """
    if dim is not None:
        results = _C._nn.unique_dim(input, dim, sorted, return_inverse, return_counts)
    else:
        results = _C._nn._unique2(input, sorted, return_inverse, return_counts)
    return _select(results, return_inverse, return_counts)


@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any: ...
@overridable
def unique_consecutive(
    input: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Return the first of every run of equal elements.

    Args:
        input: Any shape, real; runs are those of the flattened tensor, unless *dim* is given.
        return_inverse: Also return to which run each element belongs.
        return_counts: Also return the lengths of the runs.
        dim: Compare the slices of this dimension instead of elements.

    Source:
        torch.unique_consecutive.
    """
    results = _C._nn.unique_consecutive(input, return_inverse, return_counts, dim)
    return _select(results, return_inverse, return_counts)


@overridable(hand_over=beyond_torch("out"))
def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """Multiply matrices in the order of brackets that needs the fewest multiplications.

    Source:
        torch.chain_matmul; Cormen et al., "Introduction to Algorithms", 15.2.
    """
    if out is None:
        return _C._nn.chain_matmul(matrices)
    return _C._nn.chain_matmul(matrices, out=out)
