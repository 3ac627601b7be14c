"""References of operators that make tensors: from numbers, sizes, other tensors; and windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import linalg
from scipy.signal import windows

Reference = Callable[..., Any]
Ints = Sequence[int]


def _arange(*numbers: float, dtype: Any = None) -> Any:
    return np.arange(*numbers)


def _range(start: float, end: float, step: float = 1, dtype: Any = None) -> Any:
    return start + step * np.arange(int((end - start) / step) + 1)


def _full(size: Ints, value: Any, dtype: Any = None) -> Any:
    return np.full(tuple(size), value)


def _filled(value: int) -> Reference:
    return lambda size, dtype=None: np.full(tuple(size), value)


def _like(value: int) -> Reference:
    return lambda a, size=None: np.full(a.shape if size is None else tuple(size), value)


def _linspace(start: Any, end: Any, steps: int, dtype: Any = None) -> Any:
    made = np.linspace(complex(start), complex(end), steps)
    return made if np.dtype(dtype).kind == "c" else made.real


def _truncated(function: Reference) -> Reference:
    """A result in an integer dtype is rounded towards zero."""

    def call(*args: Any, dtype: Any = None) -> Any:
        made = function(*args, dtype=dtype)
        return np.trunc(made) if np.dtype(dtype).kind in "iu" else made

    return call


def _logspace(start: Any, end: Any, steps: int, base: float = 10.0, dtype: Any = None) -> Any:
    return base ** _linspace(start, end, steps, dtype)


def _eye(n: int, m: int | None = None, dtype: Any = None) -> Any:
    return np.eye(n, m)


def _block_diag(arrays: Sequence[Any]) -> Any:
    return linalg.block_diag(*arrays)


def _cartesian(arrays: Sequence[Any]) -> Any:
    return np.array(list(itertools.product(*arrays)))


def _combinations(a: Any, r: int = 2, with_replacement: bool = False) -> Any:
    made = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array(list(made(a, r)))


def _diag_embed(a: np.ndarray, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    n = a.shape[-1] + abs(offset)
    made = np.zeros((*a.shape[:-1], n, n), a.dtype)
    for k in range(a.shape[-1]):
        made[..., k + max(-offset, 0), k + max(offset, 0)] = a[..., k]
    return np.moveaxis(made, (-2, -1), (dim1, dim2))


def _fill_diagonal(a: np.ndarray, value: Any, wrap: bool = False) -> Any:
    made = a.copy()
    np.fill_diagonal(made, value, wrap)
    return made


def _meshgrid(arrays: Sequence[Any], *, indexing: Any = "ij") -> Any:
    return list(np.meshgrid(*arrays, indexing=indexing))


def _vander(a: np.ndarray, n: int | None = None, increasing: bool = False) -> Any:
    n = a.shape[-1] if n is None else n
    powers = np.stack([a**k for k in range(n)], axis=-1)
    return powers if increasing else np.flip(powers, -1)


CREATION: dict[str, Reference] = {
    "arange": _arange,
    "range": _range,
    "block_diag": _block_diag,
    "cartesian_prod": _cartesian,
    "combinations": _combinations,
    "complex": lambda real, imag: real + 1j * imag,
    "polar": lambda size, angle: size * np.exp(1j * angle),
    "diag": np.diag,
    "diag_embed": _diag_embed,
    "diagflat": np.diagflat,
    "ones_like": _like(1),
    "zeros_like": _like(0),
    "new_ones": _like(1),
    "new_zeros": _like(0),
    "full_like": lambda a, value: np.full(a.shape, value),
    "new_full": lambda a, size, value: np.full(tuple(size), value),
    "eye": _eye,
    "fill_diagonal": _fill_diagonal,
    "full": _full,
    "ones": _filled(1),
    "zeros": _filled(0),
    "linspace": _truncated(_linspace),
    "logspace": _truncated(_logspace),
    "meshgrid": _meshgrid,
    "scalar_tensor": lambda value, dtype=None: value,
    "tril": np.tril,
    "triu": np.triu,
    "tril_indices": lambda rows, columns, offset=0: np.stack(
        np.tril_indices(rows, offset, columns)
    ),
    "triu_indices": lambda rows, columns, offset=0: np.stack(
        np.triu_indices(rows, offset, columns)
    ),
    "vander": _vander,
    "linalg_vander": lambda a, *, N=None: _vander(a, N, True),
    "_linalg_vander": lambda a, n: _vander(a, n, True),
    "_number_like": lambda a, value: value,
    "_local_scalar_dense": lambda a: a.item(),
    "_eps": lambda a: np.finfo(a.dtype).eps,
}


def _window(name: str, *extra: float) -> Reference:
    def call(n: int, periodic: bool = True, *parameters: float, dtype: Any = None) -> Any:
        chosen: Any = (name, *(parameters or extra)) if parameters or extra else name
        return windows.get_window(chosen, n, fftbins=periodic)

    return call


def _hamming(
    n: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, dtype: Any = None
) -> Any:
    points = n if periodic else n - 1
    return alpha - beta * np.cos(2 * np.pi * np.arange(n) / points)


WINDOWS: dict[str, Reference] = {
    "bartlett_window": _window("bartlett"),
    "blackman_window": _window("blackman"),
    "hamming_window": _hamming,
    "hann_window": _window("hann"),
    "kaiser_window": _window("kaiser", 12.0),
}

REFERENCES = {**CREATION, **WINDOWS}
