"""Parameters that are one matrix in three forms: covariance, its inverse, its Cholesky factor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions.utils import lazy_property

__all__ = ["CovarianceParameters", "given_matrix"]


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The Cholesky factor of the inverse, without inverting the matrix itself.

    With rows and columns in reverse order, the factor of P is an upper triangular U with
    ``P = U U^T``; so ``P^-1 = U^-T U^-1``, and ``U^-T`` is lower triangular.
    """
    flipped = shmtensor.linalg.cholesky(P.flip((-2, -1)))
    upper = flipped.flip((-2, -1))
    eye = shmtensor.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return shmtensor.linalg.solve_triangular(upper.mT, eye, upper=False)


def given_matrix(
    covariance_matrix: Tensor | None,
    precision_matrix: Tensor | None,
    scale_tril: Tensor | None,
    error: type[Exception],
) -> tuple[str, Tensor]:
    """Return name and value of the one matrix that is given.

    Raises:
        Exception: Of type *error*: none is given, or several.
    """
    matrices = {
        "covariance_matrix": covariance_matrix,
        "precision_matrix": precision_matrix,
        "scale_tril": scale_tril,
    }
    given = [(name, value) for name, value in matrices.items() if value is not None]
    if len(given) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return given[0]


class CovarianceParameters:
    """Calculates with the factor of a covariance; makes the other forms at their first use."""

    # The factor as it was given: batch dimensions that only other parameters have cost nothing.
    _unbroadcasted_scale_tril: Tensor

    if TYPE_CHECKING:
        _batch_shape: Size
        scale_tril: Tensor
        covariance_matrix: Tensor
        precision_matrix: Tensor
    else:

        @lazy_property
        def scale_tril(self) -> Tensor:
            """Cholesky factor of the covariance."""
            return self._square(self._unbroadcasted_scale_tril)

        @lazy_property
        def covariance_matrix(self) -> Tensor:
            """Covariance."""
            factor = self._unbroadcasted_scale_tril
            return self._square(factor @ factor.mT)

        @lazy_property
        def precision_matrix(self) -> Tensor:
            """Inverse of the covariance."""
            return self._square(shmtensor.cholesky_inverse(self._unbroadcasted_scale_tril))

    def _keep_factor(self, name: str, matrix: Tensor) -> None:
        """Keep the factor of the matrix that is given in the form *name*."""
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = shmtensor.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def _square(self, matrix: Tensor) -> Tensor:
        """A matrix for each element of the batch."""
        return matrix.expand(self._batch_shape + matrix.shape[-2:])

    def _half_log_det(self) -> Tensor:
        """Half of the logarithm of the covariance's determinant."""
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
