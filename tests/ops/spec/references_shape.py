"""References of views, their copies and writes through them, of splits and of joins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Reference = Callable[..., Any]
Ints = Sequence[int]


def _strided(a: np.ndarray, size: Ints, stride: Ints, offset: int = 0) -> np.ndarray:
    """Numbers of the elements of a dense *a* that a strided view of its memory shows."""
    found = np.full(tuple(size), offset or 0)
    for d, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [1] * len(size)
        shape[d] = n
        found += (np.arange(n) * step).reshape(shape)
    return found


def _as_strided(a: np.ndarray, size: Ints, stride: Ints, offset: int = 0, *_: int) -> Any:
    return a.ravel()[_strided(a, size, stride, offset)]


def _as_strided_scatter(a: Any, source: Any, size: Ints, stride: Ints, offset: int = 0) -> Any:
    made = a.ravel().copy()
    made[_strided(a, size, stride, offset)] = source
    return made.reshape(a.shape)


def _as_strided_backward(
    grad: Any, sizes: Ints, strides: Ints, start: int, size: Ints, stride: Ints, offset: int
) -> Any:
    made = np.zeros(int(np.prod(sizes)), grad.dtype)
    np.add.at(made, _strided(made, size, stride, offset - start), grad)
    return made.reshape(sizes)


def _as_strided_forward(
    a: Any, strides: Ints, start: int, size: Ints, stride: Ints, offset: int
) -> Any:
    return _as_strided(a, size, stride, offset - start)


def _transposed(a: Any, d0: int = -2, d1: int = -1) -> Any:
    return np.swapaxes(a, d0, d1)


def _adjoint(a: Any) -> Any:
    return np.conj(np.swapaxes(a, -1, -2))


def _diagonal(a: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return np.diagonal(a, offset, dim1, dim2)


def _linalg_diagonal(a: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    return np.diagonal(a, offset, dim1, dim2)


def _written(view: Reference) -> Reference:
    """What is left of *a* when *source* is written through a view of it."""

    def call(a: np.ndarray, source: Any, *args: Any) -> Any:
        where = view(np.arange(a.size).reshape(a.shape), *args)
        made = a.ravel().copy()
        made[where] = source
        return made.reshape(a.shape)

    return call


def _view_backward(view: Reference) -> Reference:
    """The sum of a view's gradient at the elements that it shows."""

    def call(grad: Any, sizes: Ints, *args: Any) -> Any:
        made = np.zeros(int(np.prod(sizes)), grad.dtype)
        np.add.at(made, view(np.arange(made.size).reshape(sizes), *args), grad)
        return made.reshape(sizes)

    return call


def _expand(a: np.ndarray, size: Ints, implicit: bool = False) -> Any:
    missing = len(size) - a.ndim
    own = [a.shape[d - missing] if n == -1 else n for d, n in enumerate(size)]
    return np.broadcast_to(a, own)


def _flatten(a: np.ndarray, start: int = 0, end: int = -1) -> Any:
    if a.ndim == 0:
        return a.reshape(1)
    end %= a.ndim
    return a.reshape((*a.shape[:start], -1, *a.shape[end + 1 :]))


def _narrow(a: Any, dim: int, start: Any, length: int) -> Any:
    first = int(start) % a.shape[dim]
    return np.take(a, range(first, first + length), axis=dim)


def _select(a: Any, dim: int, index: int) -> Any:
    return np.take(a, index, axis=dim)


def _slice(a: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return np.moveaxis(np.moveaxis(a, dim, 0)[start:end:step], 0, dim)


def _squeeze(a: np.ndarray, dim: Any = None) -> Any:
    dims = range(a.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return np.squeeze(a, tuple(d for d in dims if a.shape[d] == 1))


def _unflatten(a: np.ndarray, dim: int, sizes: Ints) -> Any:
    dim %= a.ndim
    before, after = a.shape[:dim], a.shape[dim + 1 :]
    return a.reshape((*before, *sizes, *after))


def _unfold(a: Any, dim: int, size: int, step: int) -> Any:
    windows = np.lib.stride_tricks.sliding_window_view(a, size, axis=dim)
    return _slice(windows, dim, None, None, step)


def _as_real(a: Any) -> Any:
    return np.stack([a.real, a.imag], axis=-1)


def _several(function: Reference) -> Reference:
    """*function* of one array or of each of a list."""
    return lambda a: [function(x) for x in a] if isinstance(a, list) else function(a)


def _atleast_3d(a: np.ndarray) -> np.ndarray:
    return a[..., None] if a.ndim == 2 else np.atleast_3d(a)


def _same(a: Any, *_: Any, **__: Any) -> Any:
    return a


VIEWS: dict[str, Reference] = {
    "_as_strided_at": _as_strided,
    "_as_strided_backward": _as_strided_backward,
    "_as_strided_forward": _as_strided_forward,
    "_permute_backward": lambda grad, dims: np.transpose(grad, np.argsort(np.array(dims) % 3)),
    "_unsafe_view": lambda a, size: a.reshape(size),
    "adjoint": _adjoint,
    "_adjoint": _adjoint,
    "_transform_input": _same,
    "alias": _same,
    "alias_copy": _same,
    "as_strided": _as_strided,
    "as_strided_copy": _as_strided,
    "as_strided_scatter": _as_strided_scatter,
    "atleast_1d": _several(np.atleast_1d),
    "atleast_2d": _several(np.atleast_2d),
    "atleast_3d": _several(_atleast_3d),
    "broadcast_tensors": lambda arrays: list(np.broadcast_arrays(*arrays)),
    "broadcast_to": np.broadcast_to,
    "detach": _same,
    "detach_copy": _same,
    "_dense_copy": _same,
    "diagonal": _diagonal,
    "diagonal_backward": _view_backward(_diagonal),
    "diagonal_copy": _diagonal,
    "diagonal_scatter": _written(_diagonal),
    "expand": _expand,
    "expand_as": lambda a, other: np.broadcast_to(a, other.shape),
    "expand_copy": _expand,
    "flatten": _flatten,
    "linalg_diagonal": _linalg_diagonal,
    "mH": _adjoint,
    "mT": _transposed,
    "matrix_H": _adjoint,
    "moveaxis": np.moveaxis,
    "movedim": np.moveaxis,
    "narrow": _narrow,
    "narrow_copy": _narrow,
    "numpy_T": np.transpose,
    "permute": np.transpose,
    "permute_copy": np.transpose,
    "ravel": np.ravel,
    "reshape": np.reshape,
    "reshape_as": lambda a, other: a.reshape(other.shape),
    "select": _select,
    "select_backward": _view_backward(_select),
    "select_copy": _select,
    "select_scatter": _written(_select),
    "slice": _slice,
    "slice_backward": _view_backward(_slice),
    "slice_copy": _slice,
    "slice_scatter": _written(_slice),
    "squeeze": _squeeze,
    "squeeze_copy": _squeeze,
    "swapaxes": np.swapaxes,
    "swapdims": np.swapaxes,
    "t": np.transpose,
    "t_copy": np.transpose,
    "transpose": _transposed,
    "transpose_copy": _transposed,
    "unflatten": _unflatten,
    "unfold": _unfold,
    "unfold_backward": _view_backward(_unfold),
    "unfold_copy": _unfold,
    "unsqueeze": np.expand_dims,
    "unsqueeze_copy": np.expand_dims,
    "view": np.reshape,
    "view.dtype": _same,
    "view_as": lambda a, other: a.reshape(other.shape),
    "view_as_complex": lambda a: a[..., 0] + 1j * a[..., 1],
    "view_as_complex_copy": lambda a: a[..., 0] + 1j * a[..., 1],
    "view_as_real": _as_real,
    "view_as_real_copy": _as_real,
    "view_copy": np.reshape,
    "view_copy.dtype": _same,
}


def _of_size(a: Any, size: int, dim: int = 0) -> Any:
    return np.split(a, range(size, a.shape[dim], size), axis=dim)


def _of_sizes(a: Any, sizes: Ints, dim: int = 0) -> Any:
    return np.split(a, np.cumsum(sizes)[:-1], axis=dim)


def _chunk(a: Any, chunks: int, dim: int = 0) -> Any:
    return _of_size(a, -(-a.shape[dim] // chunks), dim)


def _tensor_split(a: Any, at: Any, dim: int = 0) -> Any:
    return np.array_split(a, int(at) if np.ndim(at) == 0 else [int(i) for i in at], axis=dim)


def _unbind(a: Any, dim: int = 0) -> Any:
    return list(np.moveaxis(a, dim, 0))


SPLITS: dict[str, Reference] = {
    "chunk": _chunk,
    "dsplit": np.dsplit,
    "hsplit": np.hsplit,
    "split.Tensor": _of_size,
    "split.sizes": _of_sizes,
    "split_copy.Tensor": _of_size,
    "split_with_sizes": _of_sizes,
    "split_with_sizes_copy": _of_sizes,
    "tensor_split": _tensor_split,
    "unbind": _unbind,
    "unbind_copy": _unbind,
    "unsafe_chunk": _chunk,
    "unsafe_split": _of_size,
    "unsafe_split_with_sizes": _of_sizes,
    "vsplit": np.vsplit,
    "_cat_backward": lambda grad, dim, lengths: _of_sizes(grad, lengths, dim),
}


def _repeat(a: Any, repeats: Ints) -> Any:
    return np.tile(a, repeats)


def _repeat_backward(grad: np.ndarray, repeats: Ints, sizes: Ints) -> Any:
    parts = itertools.product(*(range(0, n * r, n) for n, r in zip(sizes, repeats, strict=True)))
    return sum(
        grad[tuple(slice(i, i + n) for i, n in zip(start, sizes, strict=True))] for start in parts
    )


def _repeat_interleave(a: Any, repeats: Any, dim: Any = None, *, output_size: Any = None) -> Any:
    return np.repeat(a, repeats, axis=dim)


def _roll(a: Any, shifts: Ints, dims: Ints = ()) -> Any:
    return np.roll(a, tuple(shifts), tuple(dims)) if len(dims) else np.roll(a, shifts[0])


def _cat(arrays: Sequence[Any], dim: int = 0, *_: Any, **__: Any) -> Any:
    return np.concatenate(arrays, axis=dim)


JOINS: dict[str, Reference] = {
    "_cat_sized": _cat,
    "cat": _cat,
    "concat": _cat,
    "concatenate": _cat,
    "column_stack": np.column_stack,
    "dstack": np.dstack,
    "hstack": np.hstack,
    "vstack": np.vstack,
    "row_stack": np.vstack,
    "stack": np.stack,
    "flip": np.flip,
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "repeat": _repeat,
    "_repeat_backward": _repeat_backward,
    "repeat_interleave": _repeat_interleave,
    "repeat_interleave.Tensor": lambda n, **_: np.repeat(np.arange(n.size), n),
    "roll": _roll,
    "_roll_backward": lambda grad, shifts, dims: _roll(grad, [-n for n in shifts], dims),
    "rot90": lambda a, k=1, dims=(0, 1): np.rot90(a, k, tuple(dims)),
    "tile": np.tile,
}

COPIES: dict[str, Reference] = {
    "_to_copy": _same,
    "clone": _same,
    "contiguous": _same,
    "copy": lambda a, source, *_: np.broadcast_to(source, a.shape),
    "fill": lambda a, value: np.broadcast_to(value, a.shape).astype(a.dtype),
    "to": _same,
    "type_as": _same,
    "zero": np.zeros_like,
}

REFERENCES = {**VIEWS, **SPLITS, **JOINS, **COPIES}
