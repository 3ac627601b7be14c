"""Operators that leave out elements, under the names of torch.masked.

``mask`` is a bool tensor that broadcasts to the input: True means that the element counts. An
element that does not count is replaced by what leaves the result as it is, 0 for a sum. Without
mask every element counts. Where nothing counts the result is that neutral element, or NaN.
"""

from __future__ import annotations

import math
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.dtypes import iinfo

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]

_NARROW = (_C.bool, _C.uint8, _C.int8, _C.int16, _C.int32)


def _is_inexact(dtype: Any) -> bool:
    return bool(dtype.is_floating_point or dtype.is_complex)


def _dims(dim: Any, n_dims: int) -> list[int]:
    """All dimensions for None; else those named, from 0."""
    if dim is None:
        return list(range(n_dims))
    n = max(n_dims, 1)
    result: list[int] = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -n <= d < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})"
            )
        if d % n in result:
            raise RuntimeError(f"dim={d % n} appears multiple times in the list of dims")
        result.append(d % n)
    return result


def _full_mask(input: Tensor, mask: Tensor) -> Tensor:
    """*mask* as bool, in *input*'s sizes."""
    if mask.shape != input.shape:
        if mask.dim() > input.dim():
            raise IndexError(
                "_input_mask expected broadcastable mask (got mask dimensionality higher than of "
                "the input)"
            )
        mask = mask.broadcast_to(input.shape)
    return mask.to(_C.bool)


def _filled(input: Tensor, mask: Tensor | None, value: float) -> Tensor:
    """*input* with *value* where it does not count."""
    if mask is None:
        return input
    fill = _C.tensor(value, dtype=input.dtype, device=input.device)
    return _C.where(_full_mask(input, mask), input, fill)


def _without(name: str, input: Tensor, mask: Tensor | None, sign: int) -> Tensor:
    """*input* with what no maximum (*sign* -1) or minimum (1) is, where it does not count.

    Raises:
        NotImplementedError: There is none for bool.
        TypeError: Or for complex numbers.
    """
    if mask is None:
        return input
    if input.dtype is _C.bool:
        raise NotImplementedError(f"identity of {name} on {input.dtype} input")
    if input.dtype.is_floating_point:
        return _filled(input, mask, sign * math.inf)
    whole = iinfo(input.dtype)
    return _filled(input, mask, whole.min if sign < 0 else whole.max)


def _sum_dtype(input: Tensor, dtype: Any) -> Any:
    if dtype is not None:
        return dtype
    return _C.int64 if input.dtype in _NARROW else input.dtype


def sum(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Sum the elements that count.

    Args:
        input: Any shape and dtype.
        dim: A dimension or several; all by default.
        keepdim: Keep reduced dimensions with size 1.
        dtype: To calculate in; int64 by default for narrower integers.
        mask: bool, broadcasts to *input*; None: everything counts.

    Source:
        torch.masked.sum.
    """
    dims = _dims(dim, input.dim())
    return _filled(input, mask, 0).sum(dims, keepdim, dtype=_sum_dtype(input, dtype))


def prod(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Multiply the elements that count. See `sum` for the arguments."""
    result = _filled(input, mask, 1).to(_sum_dtype(input, dtype))
    dims = sorted(_dims(dim, input.dim()), reverse=True) or list(range(input.dim()))[::-1]
    for d in dims if input.dim() else ():
        result = result.prod(d, keepdim, dtype=result.dtype)
    return result


def cumsum(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Sum up along *dim*; elements that do not count add nothing. See `sum`."""
    return _filled(input, mask, 0).cumsum(dim, dtype=dtype or input.dtype)


def cumprod(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Multiply up along *dim*; elements that do not count change nothing. See `sum`."""
    return _filled(input, mask, 1).cumprod(dim, dtype=dtype or input.dtype)


def amax(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Find the largest element that counts. See `sum` for the arguments."""
    filled = _without("amax", input, mask, -1)
    return filled.amax(_dims(dim, input.dim()), keepdim).to(dtype or input.dtype)


def amin(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Find the smallest element that counts. See `sum` for the arguments."""
    filled = _without("amin", input, mask, 1)
    return filled.amin(_dims(dim, input.dim()), keepdim).to(dtype or input.dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Find the index of the largest element that counts. See `sum`; *dtype* is *input*'s."""
    filled = _without("argmax", input, mask, -1)
    return filled.argmax(dim, keepdim).to(dtype or input.dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Find the index of the smallest element that counts. See `sum`; *dtype* is *input*'s."""
    filled = _without("argmin", input, mask, 1)
    return filled.argmin(dim, keepdim).to(dtype or input.dtype)


def _counts(input: Tensor, dim: Any, keepdim: bool, mask: Tensor | None) -> Tensor:
    """How many elements count."""
    counted = _C.ones(input.shape, dtype=_C.int64, device=input.device)
    return sum(counted, dim, keepdim=keepdim, mask=mask)


def mean(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Average the elements that count; NaN where none does.

    See `sum` for the arguments.

    Raises:
        ValueError: The result would not be floating or complex.
    """
    source = "Input" if dtype is None else "Optional"
    wanted = input.dtype if dtype is None else dtype
    if not _is_inexact(wanted):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point "
            f"or complex dtype. Got: {wanted}"
        )
    total = sum(input, dim, keepdim=keepdim, dtype=wanted, mask=mask)
    return total / _counts(input, dim, keepdim, mask)


def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Find the lower median along *dim* of the elements that count; NaN where none does.

    What is NaN does not count.

    See `sum` for the arguments.

    Raises:
        ValueError: No element of a line counts, and the dtype is not floating.
    """
    wanted = input.dtype if dtype is None else dtype
    values = input.to(wanted)
    if mask is None:
        return values.nanmedian(dim, keepdim).values
    if wanted.is_floating_point:
        return _filled(values, mask, math.nan).nanmedian(dim, keepdim).values
    if not bool(_full_mask(values, mask).any(dim).all()):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    filled = _filled(values.to(_C.float64), mask, math.nan)
    return filled.nanmedian(dim, keepdim).values.to(wanted)


def logsumexp(
    input: Tensor,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the logarithm of the sum of exponentials of what counts. See `sum`."""
    if input.dtype.is_complex:
        filled = _filled(input, mask, -math.inf)
    else:
        filled = _without("logsumexp", input, mask, -1)
    return filled.logsumexp(_dims(dim, input.dim()), keepdim).to(dtype or input.dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: Any = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Return the logarithm of the sum of two exponentials; either may be left out.

    Args:
        input: Floating.
        other: Broadcasts with *input*.
        dtype: Of the result; *input*'s by default.
        input_mask: Which elements of *input* count.
        other_mask: Which elements of *other* count.

    Source:
        torch.masked.logaddexp.
    """
    first = _filled(input, input_mask, -math.inf)
    second = _filled(other, other_mask, -math.inf)
    return _C.logaddexp(first, second).to(dtype or input.dtype)


def _norm_identity(ord: float | None) -> float:
    return math.inf if ord == -math.inf else 0.0


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the vector norm of order *ord* of what counts. See `sum` for the rest."""
    filled = _filled(input, mask, _norm_identity(ord))
    order = 2.0 if ord is None else ord
    return _C._nn.linalg_vector_norm(
        filled, order, _dims(dim, input.dim()), keepdim, dtype=dtype or input.dtype
    )


def _moment(
    name: str,
    input: Tensor,
    dim: Any,
    unbiased: bool | None,
    correction: float | None,
    keepdim: bool,
    dtype: Any,
    mask: Tensor | None,
    root: bool,
) -> Tensor:
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if input.dtype is _C.bool:
        raise RuntimeError(f"masked.{name}(): bool input has no differences from its mean")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    wanted = input.dtype if dtype is None else dtype
    if not _is_inexact(wanted):
        wanted = _C.float32
    values = input.to(wanted)
    if mask is None:
        dims = _dims(dim, input.dim())
        spread = _C.var(values, dims, correction=correction, keepdim=keepdim).to(wanted)
        return spread.sqrt() if root else spread  # as below: the same slope where all are equal
    full = _full_mask(values, mask)
    count = _counts(values, dim, True, full)
    centred = values - sum(values, dim, keepdim=True, mask=full) / count
    total = sum(centred * centred.conj(), dim, keepdim=keepdim, mask=full)
    left = _counts(values, dim, keepdim, full) - correction
    result = (total / _C.maximum(left, left.new_zeros(()))).to(wanted)
    return result.sqrt() if root else result


def var(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the variance of what counts.

    Args:
        input: Any shape; integers are taken as float32.
        dim: A dimension or several; all by default.
        unbiased: True means *correction* 1, False 0.
        correction: What is taken off the count that the squares are divided by; 1 by default.
        keepdim: Keep reduced dimensions with size 1.
        dtype: To calculate in.
        mask: bool, broadcasts to *input*; None: everything counts.

    Raises:
        AssertionError: Both *unbiased* and *correction* are given.

    Source:
        torch.masked.var.
    """
    return _moment("var", input, dim, unbiased, correction, keepdim, dtype, mask, root=False)


def std(
    input: Tensor,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the standard deviation of what counts. See `var` for the arguments."""
    return _moment("std", input, dim, unbiased, correction, keepdim, dtype, mask, root=True)


def softmax(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return exponentials scaled to the sum 1 along *dim*; 0 for what does not count."""
    return _without("amax", input.to(dtype or input.dtype), mask, -1).softmax(dim)


def log_softmax(
    input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
) -> Tensor:
    """Return the logarithm of `softmax`."""
    return _without("amax", input.to(dtype or input.dtype), mask, -1).log_softmax(dim)


def softmin(input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None) -> Tensor:
    """Return `softmax` of the negated input."""
    return (-_without("amin", input.to(dtype or input.dtype), mask, 1)).softmax(dim)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Divide by the norm along *dim* of what counts, but by no less than *eps*.

    Args:
        input: Floating or complex.
        ord: The norm's order.
        dim: The dimension.
        eps: The least divisor.
        dtype: To calculate in.
        mask: bool, broadcasts to *input*; None: everything counts.

    Source:
        torch.masked.normalize.
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    divisor = _C.maximum(length, length.new_full((), eps))
    return _filled(input, mask, 0) / divisor
