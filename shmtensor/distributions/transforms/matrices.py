"""Transforms of unconstrained vectors and matrices: onto the simplex, and to Cholesky factors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.transforms.base import Transform, _check_dims
from shmtensor.distributions.transforms.elementwise import _Plain
from shmtensor.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from shmtensor.nn import functional as F


class SoftmaxTransform(_Plain):
    """y = softmax(x) along the last dimension; the inverse gives logarithms.

    It is not bijective: moving all elements of x together changes nothing. Each element of y
    depends on one coordinate more or less, which optimisers like; densities want
    `StickBreakingTransform`.
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        weights = (x - x.max(-1, True)[0]).exp()
        return weights / weights.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _check_dims(len(shape), 1)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        _check_dims(len(shape), 1)
        return shape


def _log_left(like: Tensor) -> Tensor:
    """log(n), log(n - 1), ..., log(1): pieces still to be made, when one of n + 1 is broken off."""
    n = like.shape[-1]
    return shmtensor.arange(n, 0, -1, dtype=like.dtype, device=like.device).log()


class StickBreakingTransform(_Plain):
    """Vectors of n numbers to points of a simplex of n + 1.

    Each number says, as log-odds, which part of what is left of a stick of length 1 is broken off;
    zeros make equal pieces.

    Source:
        Stan Reference Manual, "Unit simplex".
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        parts = (x - _log_left(x)).sigmoid()
        left = (1 - parts).cumprod(-1)
        return F.pad(parts, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        pieces = y[..., :-1]
        left = (1 - pieces.cumsum(-1)).clamp(min=shmtensor.finfo(y.dtype).tiny)
        return pieces.log() - left.log() + _log_left(pieces)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # dy_k/dx_k = left * s(1 - s) = y_k (1 - s), of a triangular matrix.
        odds = x - _log_left(x)
        return (F.logsigmoid(odds) - odds + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _check_dims(len(shape), 1)
        return shape[:-1] + (shape[-1] + 1,)  # type: ignore[operator]  # noqa: RUF005 - keeps a Size

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        _check_dims(len(shape), 1)
        return shape[:-1] + (shape[-1] - 1,)  # type: ignore[operator]  # noqa: RUF005


def _map_diagonal(matrix: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """The strictly lower triangle of *matrix*, and what *function* makes of its diagonal."""
    below = matrix.tril(-1)
    return below + function(matrix.diagonal(dim1=-2, dim2=-1)).diag_embed()


class LowerCholeskyTransform(_Plain):
    """Matrices to lower triangular ones, with the exponential of the diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return _map_diagonal(x, Tensor.exp)

    def _inverse(self, y: Tensor) -> Tensor:
        return _map_diagonal(y, Tensor.log)


class PositiveDefiniteTransform(_Plain):
    """Matrices to positive definite ones: the product of a factor of `LowerCholeskyTransform`."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(shmtensor.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Vectors of D (D - 1) / 2 numbers to Cholesky factors of D x D correlation matrices.

    The hyperbolic tangents of the numbers are partial correlations: each breaks off its square of
    what is left of the row's squared length 1, and the diagonal takes the rest.

    Source:
        Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and
        extended onion method", 2009; Stan Reference Manual, "Cholesky factors of correlation
        matrices".
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = shmtensor.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial * partial).sqrt().cumprod(-1)
        eye = shmtensor.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return (partial + eye) * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        # What is left of the squared length before each element.
        left = F.pad((1 - (y * y).cumsum(-1))[..., :-1], [1, 0], value=1)
        partial = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (partial.log1p() - (-partial).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: Any = None) -> Tensor:
        # Element k of a row is tanh(x_k) sqrt(left_k); all but the first of a row have left_k below
        # 1, and left_k is what the elements before have not taken.
        left = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        tanh_slope = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return 0.5 * left.log().sum(-1) + tanh_slope

    def forward_shape(self, shape: Sequence[int]) -> Any:
        _check_dims(len(shape), 1)
        n = shape[-1]
        size = (1 + math.isqrt(1 + 8 * n)) // 2
        if size * (size - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (size, size)  # type: ignore[operator]  # noqa: RUF005

    def inverse_shape(self, shape: Sequence[int]) -> Any:
        _check_dims(len(shape), 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1] * (shape[-1] - 1) // 2
        return shape[:-2] + (n,)  # type: ignore[operator]  # noqa: RUF005
