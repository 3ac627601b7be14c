"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions._covariance import CovarianceParameters, given_matrix
from shmtensor.distributions.chi2 import Chi2
from shmtensor.distributions.exp_family import ExponentialFamily
from shmtensor.distributions.utils import all_true

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Wishart"]


class Wishart(CovarianceParameters, ExponentialFamily):
    """Positive definite matrices: sums of *df* products ``x x^T`` of normal vectors.

    Exactly one of the three matrices is given; ``scale_tril`` is what is calculated with.

    Args:
        df: Degrees of freedom, above n - 1; whole or not.
        covariance_matrix: ``(..., n, n)``, the vectors' covariance, positive definite. Or
        precision_matrix: its inverse. Or
        scale_tril: its Cholesky factor, lower triangular with a positive diagonal.
        validate_args: As of `Distribution`.

    Raises:
        AssertionError: Not exactly one matrix is given.
        ValueError: The matrix has too few dimensions, or *df* is too small.

    Source:
        Bartlett, "On the theory of statistical regression", 1933 (sampling); Sawyer, "Wishart
        distributions and inverse-Wishart sampling", 2007; Odell and Feiveson, "A numerical
        procedure to generate a sample covariance matrix", 1966.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = given_matrix(covariance_matrix, precision_matrix, scale_tril, AssertionError)
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        given = df
        if not isinstance(given, Tensor):
            given = shmtensor.tensor(given, dtype=matrix.dtype, device=matrix.device)
        batch_shape = shmtensor.broadcast_shapes(matrix.shape[:-2], given.shape)
        event_shape = matrix.shape[-2:]
        n = event_shape[-1]
        self.df = given.expand(batch_shape)
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        if not all_true(~(self.df <= n - 1)):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._keep_factor(name, matrix)
        self._dist_chi2 = self._diagonal_squares(n)
        if not all_true(~(self.df < n)):
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
                stacklevel=2,
            )

    def _diagonal_squares(self, n: int) -> Chi2:
        """What the squared diagonal of Bartlett's factor is drawn from."""
        fewer = shmtensor.arange(n, dtype=self.df.dtype, device=self.df.device)
        return Chi2(self.df.unsqueeze(-1) - fewer)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:  # type: ignore[override]
        """How large *df* has to be follows from the matrix."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        parameters = {"df": 0, "covariance_matrix": 2, "scale_tril": 2, "precision_matrix": 2}
        new = self._expanded(
            Wishart, _instance, batch_shape, parameters, kept=["_unbroadcasted_scale_tril"]
        )
        new._dist_chi2 = new._diagonal_squares(self._event_shape[-1])
        return new  # type: ignore[no-any-return]

    def _per_matrix(self, value: Tensor) -> Tensor:
        return value.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        return self._per_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """NaN where *df* is n + 1 or less."""
        factor = self.df - self._event_shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return self._per_matrix(factor) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        own = self.covariance_matrix.diagonal(dim1=-2, dim2=-1)
        products = own.unsqueeze(-1) * own.unsqueeze(-2)
        return self._per_matrix(self.df) * (self.covariance_matrix.pow(2) + products)

    def _bartlett_sampling(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        """A product of factors: chi draws on the diagonal, normal ones below."""
        n = self._event_shape[-1]
        inner = self._dist_chi2.rsample(sample_shape).sqrt().diag_embed(dim1=-2, dim2=-1)
        rows, columns = shmtensor.tril_indices(n, n, offset=-1)
        inner[..., rows, columns] = shmtensor.randn(
            Size(sample_shape) + self._batch_shape + (n * (n - 1) // 2,),
            dtype=inner.dtype,
            device=inner.device,
        )
        factor = self._unbroadcasted_scale_tril @ inner
        return factor @ factor.mT

    def rsample(
        self, sample_shape: Sequence[int] = Size(), max_try_correction: int | None = None
    ) -> Tensor:
        """Draw; if rounding has made a matrix singular, draw it again.

        Args:
            sample_shape: Number of draws for each element of the batch, as a shape.
            max_try_correction: How often; 10 when absent.

        Returns:
            ``sample_shape + batch_shape + (n, n)``.
        """
        sample = self._bartlett_sampling(sample_shape)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            singular = ~self.support.check(sample)
            if not singular.any():
                break
            warnings.warn("Singular sample detected.", stacklevel=2)
            again = self._bartlett_sampling(sample_shape)
            sample = shmtensor.where(self._per_matrix(singular), again, sample)
        return sample

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        df, n = self.df, self._event_shape[-1]
        solved = shmtensor.cholesky_solve(value, self._unbroadcasted_scale_tril)
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        log_norm = df * (n * math.log(2) / 2 + self._half_log_det()) + shmtensor.mvlgamma(df / 2, n)
        return (df - n - 1) / 2 * shmtensor.linalg.slogdet(value).logabsdet - trace / 2 - log_norm

    def entropy(self) -> Tensor:
        df, n = self.df, self._event_shape[-1]
        fewer = shmtensor.arange(n, dtype=df.dtype, device=df.device)
        digammas = (df / 2).unsqueeze(-1).sub(fewer / 2).digamma().sum(-1)
        log_scale = n * math.log(2) / 2 + self._half_log_det()
        return (
            (n + 1) * log_scale
            + shmtensor.mvlgamma(df / 2, n)
            - (df - n - 1) / 2 * digammas
            + df * n / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2)

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        log_det = shmtensor.linalg.slogdet(-2 * x).logabsdet
        return half * (n * math.log(2) - log_det) + shmtensor.mvlgamma(half, n)
