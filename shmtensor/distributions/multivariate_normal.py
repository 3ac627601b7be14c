"""The multivariate normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions._covariance import CovarianceParameters, given_matrix
from shmtensor.distributions._covariance import (
    _precision_to_scale_tril as _precision_to_scale_tril,  # where torch has it
)
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.utils import _standard_normal

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices times vectors; batches broadcast."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _solve_triangular(factor: Tensor, x: Tensor) -> Tensor:
    """Solve ``factor y = x`` for lower triangular factors and vectors ``x``; batches broadcast.

    Vectors that share a factor become columns of one right side, so that no factor is copied. They
    are rounded to the factor's dtype.
    """
    x = x.to(factor.dtype)
    n_batch = max(factor.dim() - 2, x.dim() - 1)
    n = x.shape[-1]
    factor = factor.reshape((1,) * (n_batch + 2 - factor.dim()) + factor.shape)
    x = x.reshape((1,) * (n_batch + 1 - x.dim()) + x.shape)
    own = [d for d in range(n_batch) if factor.shape[d] != 1]
    shared = [d for d in range(n_batch) if factor.shape[d] == 1]
    columns = x.permute([*own, n_batch, *shared])
    factors = factor.reshape([factor.shape[d] for d in own] + [n, n])
    n_columns = math.prod(columns.shape[len(own) + 1 :])
    solved = shmtensor.linalg.solve_triangular(
        factors, columns.reshape([*columns.shape[: len(own) + 1], n_columns]), upper=False
    )
    solved = solved.reshape(solved.shape[: len(own) + 1] + columns.shape[len(own) + 1 :])
    order = [*own, n_batch, *shared]
    return solved.permute([order.index(d) for d in range(n_batch + 1)])


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """The squared length of ``L^-1 x`` for factors ``(..., n, n)`` and vectors ``(..., n)``."""
    return _solve_triangular(bL, bx).pow(2).sum(-1)


class MultivariateNormal(CovarianceParameters, Distribution):
    """Vectors with normal elements; all sums of them are normal too.

    Exactly one of the three matrices is given; ``scale_tril`` is what is calculated with.

    Args:
        loc: ``(..., n)``, mean.
        covariance_matrix: ``(..., n, n)``, positive definite. Or
        precision_matrix: its inverse. Or
        scale_tril: its Cholesky factor, lower triangular with a positive diagonal.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: Not exactly one matrix is given; *loc* or the matrix has too few dimensions.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = given_matrix(covariance_matrix, precision_matrix, scale_tril, ValueError)
        if matrix.dim() < 2:
            raise ValueError(
                f"{'scale_tril matrix' if name == 'scale_tril' else name} must be at least "
                "two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = shmtensor.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._keep_factor(name, matrix)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        parameters = {"loc": 1, "covariance_matrix": 2, "scale_tril": 2, "precision_matrix": 2}
        return self._expanded(  # type: ignore[no-any-return]
            MultivariateNormal,
            _instance,
            batch_shape,
            parameters,
            kept=["_unbroadcasted_scale_tril"],
        )

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, noise)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        square = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + square) - self._half_log_det()

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        entropy = 0.5 * n * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy.expand(self._batch_shape)
