"""References of operators that pick, put, sort and count elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Reference = Callable[..., Any]


def _key(a: np.ndarray, indices: list[Any]) -> tuple[Any, ...]:
    return tuple(slice(None) if i is None else i for i in indices)


def _nonzero_static(a: np.ndarray, *, size: int, fill_value: int = -1) -> Any:
    found = np.argwhere(a)[:size]
    missing = np.full((size - len(found), a.ndim), fill_value)
    return np.concatenate([found, missing])


def _along(a: np.ndarray, dim: int, index: np.ndarray) -> list[tuple[Any, tuple[int, ...]]]:
    """For every element of *index* its place, and the place in *a* that it means."""
    found = []
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = int(index[place])
        found.append((place, tuple(target)))
    return found


def _gather(a: np.ndarray, dim: int, index: np.ndarray, **_: Any) -> Any:
    made = np.zeros(index.shape, a.dtype)
    for place, target in _along(a, dim, index):
        made[place] = a[target]
    return made


COMBINE: dict[str, Reference] = {
    "sum": lambda now, new: now + new,
    "add": lambda now, new: now + new,
    "prod": lambda now, new: now * new,
    "multiply": lambda now, new: now * new,
    "amax": max,
    "amin": min,
}


def _scattered(a: np.ndarray, pairs: list[Any], reduce: str, own: bool) -> np.ndarray:
    """*a* with the values of *pairs* of places and values; without its *own* ones if not wanted."""
    made = a.copy()
    groups: dict[tuple[int, ...], list[Any]] = {}
    for target, value in pairs:
        groups.setdefault(target, [a[target]] if own else []).append(value)
    for target, values in groups.items():
        now = values[0]
        for value in values[1:]:
            now = COMBINE["sum" if reduce == "mean" else reduce](now, value)
        if reduce == "mean":
            now = now / len(values) if a.dtype.kind in "fc" else now // len(values)
        made[target] = now
    return made


def _scatter(a: Any, dim: int, index: Any, source: Any, *, reduce: str | None = None) -> Any:
    values = np.broadcast_to(source, index.shape) if np.ndim(source) == 0 else source
    pairs = [(target, values[place]) for place, target in _along(a, dim, index)]
    if reduce is not None:
        return _scattered(a, pairs, reduce, True)
    made = a.copy()
    for target, value in pairs:
        made[target] = value
    return made


def _scatter_add(a: Any, dim: int, index: Any, source: Any) -> Any:
    return _scatter(a, dim, index, source, reduce="sum")


def _scatter_reduce(
    a: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    pairs = [(target, source[place]) for place, target in _along(a, dim, index)]
    return _scattered(a, pairs, reduce, include_self)


def _rows(a: np.ndarray, dim: int, index: np.ndarray) -> np.ndarray:
    """*index* of whole slices as an index of elements."""
    shape = [1] * a.ndim
    shape[dim] = index.size
    sizes = list(a.shape)
    sizes[dim] = index.size
    return np.broadcast_to(index.reshape(shape), sizes)


def _index_add(a: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    return _scatter_add(a, dim, _rows(a, dim, index), source if alpha == 1 else alpha * source)


def _index_reduce(
    a: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    rows = _rows(a, dim, index)
    return _scatter_reduce(a, dim, rows, source, reduce, include_self=include_self)


def _index_put(a: Any, indices: list[Any], values: Any, accumulate: bool = False) -> Any:
    made = a.copy()
    if accumulate:
        np.add.at(made, _key(a, indices), values)
    else:
        made[_key(a, indices)] = values
    return made


def _put(a: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    return _index_put(a.ravel(), [index], source, accumulate).reshape(a.shape)


def _masked_scatter(a: Any, mask: Any, source: Any) -> Any:
    made = a.copy()
    made[mask] = source.ravel()[: int(mask.sum())]
    return made


def _masked_select(a: Any, mask: Any) -> Any:
    return a[np.broadcast_to(mask, a.shape)]


def _take_along_dim(a: Any, index: Any, dim: int | None = None) -> Any:
    return np.take_along_axis(a, index, axis=dim)


INDEX: dict[str, Reference] = {
    "argwhere": np.argwhere,
    "nonzero": np.argwhere,
    "nonzero_numpy": lambda a: list(np.nonzero(a)),
    "nonzero_static": _nonzero_static,
    "gather": _gather,
    "index": lambda a, indices: a[_key(a, indices)],
    "index_add": _index_add,
    "index_copy": lambda a, dim, index, source: _scatter(a, dim, _rows(a, dim, index), source),
    "index_fill": lambda a, dim, index, value: _scatter(a, dim, _rows(a, dim, index), value),
    "index_put": _index_put,
    "index_reduce": _index_reduce,
    "index_select": lambda a, dim, index: np.take(a, index, axis=dim),
    "masked_scatter": _masked_scatter,
    "masked_select": _masked_select,
    "put": _put,
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "scatter_reduce": _scatter_reduce,
    "take": np.take,
    "take_along_dim": _take_along_dim,
}


def _argsort(a: np.ndarray, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    order = -a.astype(np.int8) if a.dtype == np.bool_ else -a
    return np.argsort(order if descending else a, axis=dim, kind="stable")


def _sort(a: np.ndarray, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    order = _argsort(a, dim, descending)
    return np.take_along_axis(a, order, axis=dim), order


def _kthvalue(a: np.ndarray, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    found = [np.take(x, [k - 1], axis=dim) for x in _sort(a, dim)]
    return found if keepdim else [np.squeeze(x, dim) for x in found]


def _median(a: np.ndarray, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return np.sort(a, axis=None)[(a.size - 1) // 2]
    return _kthvalue(a, (a.shape[dim] + 1) // 2, dim, keepdim)


def _mode(a: np.ndarray, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent element, the smallest of equally frequent ones, and where it is last."""
    rows = np.moveaxis(a, dim, -1)
    values = np.zeros(rows.shape[:-1], a.dtype)
    indices = np.zeros(rows.shape[:-1], np.int64)
    for place in np.ndindex(values.shape):
        found, counts = np.unique(rows[place], return_counts=True)
        values[place] = found[np.argmax(counts)]
        indices[place] = np.flatnonzero(rows[place] == values[place])[-1]
    return [np.expand_dims(x, dim) if keepdim else x for x in (values, indices)]


def _topk(a: np.ndarray, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    return [np.take(x, range(k), axis=dim) for x in _sort(a, dim, largest)]


def _search(edges: np.ndarray, values: Any, *, right: bool = False, **_: Any) -> Any:
    return np.searchsorted(edges, values, side="right" if right else "left")


def _histc(a: np.ndarray, bins: int = 100, low: float = 0, high: float = 0) -> Any:
    span = (float(a.min()), float(a.max())) if low == high else (low, high)
    return np.histogram(a.ravel(), bins, span)[0].astype(a.dtype)


def _isin(a: Any, among: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:
    return np.isin(a, among, invert=invert)


def _unique(a: Any, sorted: bool = True, inverse: bool = False, counts: bool = False) -> Any:
    values, where, count = np.unique(a, return_inverse=True, return_counts=True)
    return _wanted(values, where.reshape(a.shape), count, inverse, counts)


def _wanted(values: Any, where: Any, count: Any, inverse: bool, counts: bool) -> Any:
    nothing = np.zeros(0, np.int64)
    return values, where if inverse else nothing, count if counts else nothing


def _unique_dim(
    a: Any, dim: int, sorted: bool = True, inverse: bool = False, counts: bool = False
) -> Any:
    values, where, count = np.unique(a, return_inverse=True, return_counts=True, axis=dim)
    return _wanted(values, where.reshape(-1), count, inverse, counts)


def _runs(a: Any, inverse: bool = False, counts: bool = False, dim: int | None = None) -> Any:
    rows = a.reshape(-1, 1) if dim is None else np.moveaxis(a, dim, 0)
    fresh = [k == 0 or bool(np.any(rows[k] != rows[k - 1])) for k in range(len(rows))]
    where = np.cumsum(fresh) - 1
    values = a.ravel()[fresh] if dim is None else np.compress(fresh, a, axis=dim)
    return _wanted(values, where, np.bincount(where), inverse, counts)


def _bincount(a: Any, weights: Any = None, minlength: int = 0) -> Any:
    return np.bincount(a, None if weights is None else weights.real, minlength)


SORT: dict[str, Reference] = {
    "_unique2": _unique,
    "argsort": _argsort,
    "bincount": _bincount,
    "bucketize": lambda values, edges, **kwargs: _search(edges, values, **kwargs),
    "histc": _histc,
    "isin": _isin,
    "kthvalue": _kthvalue,
    "median": _median,
    "nanmedian": _median,
    "mode": _mode,
    "msort": lambda a: np.sort(a, axis=0),
    "searchsorted": _search,
    "sort": _sort,
    "topk": _topk,
    "unique_consecutive": _runs,
    "unique_dim": _unique_dim,
    "unique_dim_consecutive": lambda a, dim, inverse, counts: _runs(a, inverse, counts, dim),
}

REFERENCES = {**INDEX, **SORT}
