"""The multivariate normal distribution with a covariance of low rank and a diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.multivariate_normal import _batch_mahalanobis, _batch_mv
from shmtensor.distributions.utils import _standard_normal, lazy_property

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of the capacitance matrix ``I + W^T D^-1 W``."""
    capacitance = (W.mT / D.unsqueeze(-2)) @ W
    eye = shmtensor.eye(W.shape[-1], dtype=W.dtype, device=W.device)
    return shmtensor.linalg.cholesky(capacitance + eye)


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    # By the matrix determinant lemma.
    half = capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 2 * half + D.log().sum(-1)


def _batch_lowrank_mahalanobis(
    W: Tensor,
    D: Tensor,
    x: Tensor,
    capacitance_tril: Tensor,
) -> Tensor:
    """The squared length of x as (W W^T + D)^-1 measures it, by the Woodbury identity."""
    projected = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, projected)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with the covariance ``cov_factor cov_factor^T + diag(cov_diag)``.

    Densities take the time of ``n m^2``, not of ``n^3``.

    Args:
        loc: ``(..., n)``, mean.
        cov_factor: ``(..., n, m)``, with m much smaller than n.
        cov_diag: ``(..., n)``, above 0.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: The arguments have too few dimensions, or their sizes do not fit.
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = shmtensor.broadcast_shapes(
                loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1]
            )
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand((*batch_shape, -1))
        self.cov_diag = cov_diag.expand((*batch_shape, -1))
        self.cov_factor = cov_factor.expand((*batch_shape, -1, -1))
        # As they were given: batch dimensions that others have cost nothing.
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(  # type: ignore[no-any-return]
            LowRankMultivariateNormal,
            _instance,
            batch_shape,
            {"loc": 1, "cov_diag": 1, "cov_factor": 2},
            kept=["_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril"],
        )

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _full(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The covariance's diagonal."""
        own = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return own.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Cholesky factor of the covariance: ``D^1/2`` times that of the scaled covariance."""
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        eye = shmtensor.eye(self._event_shape[0], dtype=root.dtype, device=root.device)
        return self._full(root * shmtensor.linalg.cholesky(scaled @ scaled.mT + eye))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """``W W^T + D``."""
        factor = self._unbroadcasted_cov_factor
        return self._full(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """Inverse of the covariance, by the Woodbury identity."""
        inverse = self._unbroadcasted_cov_diag.reciprocal()
        scaled = self._unbroadcasted_cov_factor.mT * inverse.unsqueeze(-2)
        part = shmtensor.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._full(inverse.diag_embed() - part.mT @ part)

    def rsample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        along = _standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **options)
        alone = _standard_normal(shape, **options)
        return (
            self.loc
            + _batch_mv(self._unbroadcasted_cov_factor, along)
            + self._unbroadcasted_cov_diag.sqrt() * alone
        )

    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        square = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            value - self.loc,
            self._capacitance_tril,
        )
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + square)

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        entropy = 0.5 * (n * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy.expand(self._batch_shape)
