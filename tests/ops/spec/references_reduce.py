"""References of reductions, running reductions, softmax, integrals and statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from scipy import integrate

Reference = Callable[..., Any]
Dims = int | Sequence[int] | None


def _axis(dim: Dims) -> int | tuple[int, ...] | None:
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


def _inexact(a: Any) -> np.ndarray:
    array = np.asarray(a)
    return array if array.dtype.kind in "fc" else array.astype(np.float64)


def _summable(a: np.ndarray) -> np.ndarray:
    return a.astype(np.int64) if a.dtype == np.bool_ else a


def _over(function: Reference) -> Reference:
    """A reduction called ``(a, dim, keepdim)``."""

    def call(a: Any, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        return function(a, axis=_axis(dim), keepdims=keepdim)

    return call


def _mean(a: Any, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return np.mean(_inexact(a), axis=_axis(dim), keepdims=keepdim)


def _extreme(value: Reference, position: Reference) -> Reference:
    def call(a: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return value(a)
        return value(a, axis=dim, keepdims=keepdim), position(a, axis=dim, keepdims=keepdim)

    return call


def _aminmax(a: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return np.min(a, axis=dim, keepdims=keepdim), np.max(a, axis=dim, keepdims=keepdim)


def _running(better: Reference) -> Reference:
    """The running best along *dim* and the last place where it was met."""

    def call(a: np.ndarray, dim: int) -> Any:
        rows = np.moveaxis(a, dim, 0)
        values, indices = rows.copy(), np.zeros(rows.shape, np.int64)
        for k in range(1, rows.shape[0]):
            taken = better(rows[k], values[k - 1])
            values[k] = np.where(taken, rows[k], values[k - 1])
            indices[k] = np.where(taken, k, indices[k - 1])
        return np.moveaxis(values, 0, dim), np.moveaxis(indices, 0, dim)

    return call


def _variance(a: Any, dim: Dims, keepdim: bool, correction: float) -> Any:
    a, axis = _inexact(a), _axis(dim)
    mean = np.mean(a, axis=axis, keepdims=True)
    squares = np.sum(np.abs(a - mean) ** 2, axis=axis, keepdims=keepdim)
    count = a.size / max(squares.size, 1)
    return squares / max(count - correction, 0)


def _unbiased(a: Any, *args: Any) -> tuple[Any, Dims, bool, float]:
    """Arguments of both overloads, ``(unbiased)`` and ``(dim, unbiased, keepdim)``."""
    if not args or isinstance(args[0], bool):
        return a, None, False, float(args[0] if args else True)
    unbiased, keepdim = (*args[1:], *(True, False)[len(args) - 1 :])
    return a, args[0], keepdim, float(unbiased)


def _corrected(a: Any, dim: Dims = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    return a, dim, keepdim, 1.0 if correction is None else correction


def _spread(arguments: Reference, root: bool, mean: bool) -> Reference:
    def call(*args: Any, **kwargs: Any) -> Any:
        a, dim, keepdim, correction = arguments(*args, **kwargs)
        found = _variance(a, dim, keepdim, correction)
        found = np.sqrt(found) if root else found
        return (found, _mean(a, dim, keepdim)) if mean else found

    return call


SPREAD = {
    f"{name}{overload}": _spread(arguments, name.startswith("std"), name.endswith("mean"))
    for name in ("std", "var", "std_mean", "var_mean")
    for overload, arguments in (("", _unbiased), (".dim", _unbiased), (".correction", _corrected))
}


def vector_norm(a: Any, p: Any = 2, dim: Dims = None, keepdim: bool = False) -> Any:
    """The p-norm of the absolute values over *dim*."""
    p, axis = 2 if p is None else p, _axis(dim)
    sizes = np.abs(_inexact(a))
    if p == 0:
        return np.sum((sizes != 0) * 1.0, axis=axis, keepdims=keepdim)
    if np.isinf(p):
        return (np.max if p > 0 else np.min)(sizes, axis=axis, keepdims=keepdim)
    return np.sum(sizes**p, axis=axis, keepdims=keepdim) ** (1 / p)


def _norm(a: Any, p: Any = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    return vector_norm(a, p, dim, keepdim)


def _logsumexp(a: Any, dim: Dims, keepdim: bool = False) -> Any:
    return np.log(np.sum(np.exp(_inexact(a)), axis=_axis(dim), keepdims=keepdim))


def softmax(a: Any, dim: int, *_: Any, **__: Any) -> Any:
    """Exponentials divided by their sum."""
    powers = np.exp(_inexact(a))
    return powers / powers.sum(axis=dim, keepdims=True)


def log_softmax(a: Any, dim: int, *_: Any, **__: Any) -> Any:
    """The logarithm of the softmax."""
    return np.log(softmax(a, dim))


def _back(function: Reference) -> Reference:
    return lambda a, dim: np.flip(function(np.flip(a, dim), dim), dim)


def _log_add_exp(a: Any, b: Any) -> Any:
    """Of complex numbers: the larger's logarithm plus a small one, whose angles are added."""
    high, low = np.where(a.real < b.real, b, a), np.where(a.real < b.real, a, b)
    return high + np.log(1 + np.exp(low - high))


def _logcumsumexp(a: Any, dim: int) -> Any:
    if a.dtype.kind != "c":
        return np.log(np.cumsum(np.exp(_inexact(a)), axis=dim))
    slices = np.moveaxis(a, dim, 0)
    return np.moveaxis(np.array(list(accumulate(slices, _log_add_exp))), 0, dim)


def _hash(a: np.ndarray, dim: Dims = (), keepdim: bool = False, mode: int = 0) -> Any:
    wide = a.astype(np.float64 if a.dtype.kind == "f" else np.int64)
    bits = wide.view(np.uint64)
    return np.bitwise_xor.reduce(bits, axis=_axis(dim), keepdims=keepdim)


def _others(zero: Any, x: Any, product: Any, zeros: Any) -> Any:
    alone = np.where(zeros == 1, product, 0)
    return np.where(zero, alone, np.where(zeros == 0, product / x, 0))


REDUCE: dict[str, Reference] = {
    "all": _over(np.all),
    "any": _over(np.any),
    "amax": _over(np.max),
    "amin": _over(np.min),
    "aminmax": _aminmax,
    "argmax": _over(np.argmax),
    "argmin": _over(np.argmin),
    "count_nonzero": _over(np.count_nonzero),
    "cummax": _running(np.greater_equal),
    "cummin": _running(np.less_equal),
    "cumprod": lambda a, dim: np.cumprod(_summable(a), axis=dim),
    "cumsum": lambda a, dim: np.cumsum(_summable(a), axis=dim),
    "_cumsum_from_end": _back(np.cumsum),
    "hash_tensor": _hash,
    "linalg_vector_norm": _norm,
    "logcumsumexp": _logcumsumexp,
    "_logcumsumexp_from_end": _back(_logcumsumexp),
    "logsumexp": _logsumexp,
    "special_logsumexp": _logsumexp,
    "max": _extreme(np.max, np.argmax),
    "min": _extreme(np.min, np.argmin),
    "mean": _mean,
    "nanmean": _mean,
    "nansum": _over(np.nansum),
    "norm": _norm,
    "frobenius_norm": lambda a, dim, keepdim=False: vector_norm(a, 2, dim, keepdim),
    "prod": _over(np.prod),
    "sum": _over(np.sum),
    **SPREAD,
    "log_softmax": log_softmax,
    "softmax": softmax,
    "special_log_softmax": log_softmax,
    "special_softmax": softmax,
    "_log_softmax": log_softmax,
    "_softmax": softmax,
    "_safe_softmax": softmax,
    "_unreduce": lambda grad, dim, n_dims: np.expand_dims(grad, dim),
    "_reduced_expand": lambda grad, sizes, dim, keepdim: np.broadcast_to(grad[:, None], sizes),
    "_prod_others": _others,
}


def _trapezoid(y: Any, *x: Any, dx: Any = 1, dim: int = -1) -> Any:
    return integrate.trapezoid(_inexact(y), x[0] if x else None, dx, axis=dim)


def _running_trapezoid(y: Any, *x: Any, dx: Any = 1, dim: int = -1) -> Any:
    return integrate.cumulative_trapezoid(_inexact(y), x[0] if x else None, dx, axis=dim)


def _areas(y: Any, dx: Any, dim: int) -> Any:
    y = np.moveaxis(_inexact(y), dim, -1)
    return np.moveaxis((y[..., 1:] + y[..., :-1]) / 2 * dx, -1, dim)


def _diff(a: np.ndarray, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    parts = [p for p in (prepend, a, append) if p is not None]
    return np.diff(np.concatenate(parts, axis=dim), n, axis=dim)


CALCULUS: dict[str, Reference] = {
    "trapezoid": _trapezoid,
    "trapz": _trapezoid,
    "cumulative_trapezoid": _running_trapezoid,
    "_trapezoid_even": lambda y, dx, dim: _areas(y, dx, dim).sum(axis=dim),
    "_trapezoid_sum": lambda y, dx, dim: _areas(y, dx, dim).sum(axis=dim),
    "_cumulative_trapezoid_even": lambda y, dx, dim: _areas(y, dx, dim).cumsum(axis=dim),
    "_cumulative_trapezoid_sum": lambda y, dx, dim: _areas(y, dx, dim).cumsum(axis=dim),
    "diff": _diff,
}


def _quantile(
    a: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    method: Any = interpolation
    return np.quantile(a, q, axis=dim, keepdims=keepdim, method=method)


def _histogram(
    a: Any, bins: Any = 100, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    span = None if range is None else tuple(range)
    flat = None if weight is None else weight.ravel()
    return np.histogram(a.ravel(), bins, span, density=density, weights=flat)


def _histogramdd(a: Any, bins: Any, *, weight: Any = None, density: bool = False) -> Any:
    return np.histogramdd(a, [np.asarray(b) for b in bins], density=density, weights=weight)[0]


def _edges(a: Any, bins: Any, *, range: Any = None, weight: Any = None, density: Any = None) -> Any:
    return [np.linspace(c.min(), c.max(), n + 1) for c, n in zip(a.T, bins, strict=True)]


def _renorm(a: Any, p: Any, dim: int, maxnorm: float) -> Any:
    others = [d for d in range(a.ndim) if d != dim]
    return a * _renorm_scale(vector_norm(a, p, others, True), maxnorm)


def _renorm_scale(norm: Any, maxnorm: float) -> Any:
    return np.where(norm > maxnorm, maxnorm / (norm + 1e-7), 1)


def _segment_reduce(data: Any, reduce: str, *, lengths: Any) -> Any:
    function: Any = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}
    runs = np.split(data, np.cumsum(lengths)[:-1])
    return np.stack([function[reduce](run, axis=0) for run in runs])


def _cov(a: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    return np.cov(a, ddof=correction, fweights=fweights, aweights=aweights)


STATISTICS: dict[str, Reference] = {
    "_histogramdd_bin_edges": _edges,
    "_histogramdd_from_bin_tensors": _histogramdd,
    "_renorm_scale": _renorm_scale,
    "corrcoef": np.corrcoef,
    "cov": _cov,
    "dist": lambda a, b, p=2: vector_norm(a - b, p),
    "histogram": _histogram,
    "nanquantile": _quantile,
    "quantile": _quantile,
    "renorm": _renorm,
    "segment_reduce": _segment_reduce,
    "sum_to_size": lambda a, size: a.sum(axis=(0, 2))[:, None],
    "trace": lambda a: np.trace(_summable(a)),
}

REFERENCES = {**REDUCE, **CALCULUS, **STATISTICS}
