"""References of products of matrices, distances and Fourier transforms."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import fft

Reference = Callable[..., Any]
Ints = Sequence[int]


def _added(product: Reference) -> Reference:
    """``beta * self + alpha * product``; *self* does not matter at beta 0."""

    def call(self: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        made = product(a, b)
        if made.dtype == np.bool_:
            return self | made
        made = alpha * made
        return made if beta == 0 else beta * self + made

    return call


def _matmul(a: Any, b: Any) -> Any:
    return a @ b


def _linear(a: Any, weight: Any, bias: Any = None) -> Any:
    made = a @ weight.T
    return made if bias is None else made + bias


def _multi_dot(arrays: Sequence[Any]) -> Any:
    made = arrays[0]
    for array in arrays[1:]:
        made = made @ array
    return made


def _einsum(equation: str, arrays: Sequence[Any], *, path: Any = None) -> Any:
    return np.einsum(equation, *arrays)


def _tensordot(a: Any, b: Any, dims_a: Ints, dims_b: Ints) -> Any:
    return np.tensordot(a, b, (list(dims_a), list(dims_b)))


def _cross(a: Any, b: Any, dim: int | None = -1) -> Any:
    return np.cross(a, b, axis=-1 if dim is None else dim)


def _vecdot(a: Any, b: Any, *, dim: int = -1) -> Any:
    return (np.conj(a) * b).sum(axis=dim)


def _norm_of(difference: Any, p: float) -> Any:
    sizes = np.abs(difference)
    return sizes.max(-1) if np.isinf(p) else (sizes**p).sum(-1) ** (1 / p)


def _cosine_similarity(a: Any, b: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    def length(x: Any) -> Any:
        return np.maximum(np.sqrt((x * x).sum(dim)), eps)

    return (a * b).sum(dim) / (length(a) * length(b))


def _normalize(a: Any, p: float, dim: int, eps: float) -> Any:
    length = (np.abs(a) ** p).sum(dim, keepdims=True) ** (1 / p)
    return a / np.maximum(length, eps)


def _cdist(a: Any, b: Any, p: float = 2.0) -> Any:
    return _norm_of(a[..., :, None, :] - b[..., None, :, :], p)


def _pdist(a: Any, p: float = 2.0) -> Any:
    pairs = itertools.combinations(range(len(a)), 2)
    return np.array([_norm_of(a[i] - a[j], p) for i, j in pairs])


PRODUCTS: dict[str, Reference] = {
    "_mm_mat1_backward": lambda grad, b, sizes, strides, alpha: alpha * (grad @ np.conj(b.T)),
    "_mm_mat2_backward": lambda grad, a, sizes, strides, alpha: alpha * (np.conj(a.T) @ grad),
    "addbmm": _added(lambda a, b: (a @ b).sum(axis=0)),
    "addmm": _added(_matmul),
    "addmv": _added(_matmul),
    "addr": _added(np.outer),
    "baddbmm": _added(_matmul),
    "bmm": _matmul,
    "chain_matmul": _multi_dot,
    "dot": _matmul,
    "vdot": np.vdot,
    "ger": np.outer,
    "outer": np.outer,
    "inner": np.inner,
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "mv": _matmul,
    "linalg_matmul": _matmul,
    "linalg_multi_dot": _multi_dot,
    "linalg_vecdot": _vecdot,
    "linalg_cross": lambda a, b, *, dim=-1: _cross(a, b, dim),
    "cross": _cross,
    "einsum": _einsum,
    "kron": np.kron,
    "tensordot": _tensordot,
    "_normalize": _normalize,
    "_cdist": _cdist,
    "_cdist_forward": _cdist,
    "_cdist_of_rows": _cdist,
    "_pdist": _pdist,
    "_pdist_forward": _pdist,
    "_pdist_of_rows": _pdist,
    "cdist": _cdist,
    "cosine_similarity": _cosine_similarity,
    "pdist": _pdist,
}

#: Names of NumPy's and SciPy's normalizations by the number in the operators below the public
#: ones: 0 nothing, 1 by the root, 2 by the number of points, of a transform forward.
FORWARD = ("backward", "ortho", "forward")
#: The same of a transform back.
BACKWARD = ("forward", "ortho", "backward")


def _c2c(a: Any, dim: Ints, normalization: int, forward: bool) -> Any:
    if forward:
        return fft.fftn(a, axes=dim, norm=FORWARD[normalization])
    return fft.ifftn(a, axes=dim, norm=BACKWARD[normalization])


def _r2c(a: Any, dim: Ints, normalization: int, onesided: bool) -> Any:
    function = fft.rfftn if onesided else fft.fftn
    return function(a, axes=dim, norm=FORWARD[normalization])


def _c2r(a: Any, dim: Ints, normalization: int, last: int) -> Any:
    return fft.irfft(a, last, dim[-1], norm=BACKWARD[normalization])


def _one(function: Reference) -> Reference:
    return lambda a, n=None, dim=-1, norm=None: function(a, n, dim, norm=norm)


def _several(function: Reference) -> Reference:
    return lambda a, s=None, dim=None, norm=None: function(a, s, dim, norm=norm)


def _two(function: Reference) -> Reference:
    return lambda a, s=None, dim=(-2, -1), norm=None: function(a, s, dim, norm=norm)


TRANSFORMS = ("fft", "ifft", "hfft", "ihfft", "rfft", "irfft")

FFT: dict[str, Reference] = {
    **{f"fft_{name}": _one(getattr(fft, name)) for name in TRANSFORMS},
    **{f"fft_{name}2": _two(getattr(fft, f"{name}2")) for name in TRANSFORMS},
    **{f"fft_{name}n": _several(getattr(fft, f"{name}n")) for name in TRANSFORMS},
    "_fft_c2c": _c2c,
    "_fft_c2r": _c2r,
    "_fft_r2c": _r2c,
    "fft_fftshift": fft.fftshift,
    "fft_ifftshift": fft.ifftshift,
}

REFERENCES = {**PRODUCTS, **FFT}
