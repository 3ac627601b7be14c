"""The LKJ distribution of correlation matrices, as Cholesky factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import shmtensor
from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.beta import Beta
from shmtensor.distributions.distribution import Distribution
from shmtensor.distributions.utils import broadcast_all

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices M with a density proportional to
    ``det(M)^(concentration - 1)``.

    With concentration 1 all correlation matrices are alike; above, those near the identity are
    likelier.

    Args:
        dim: Size of the matrices, 2 or more.
        concentration: Shape, often called eta.
        validate_args: As of `Distribution`.

    Raises:
        ValueError: *dim* is below 2.

    Source:
        Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines and
        extended onion method", 2009: sampling by the onion method, and the constant of the density.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        batch_shape = self.concentration.size()
        event_shape = Size((dim, dim))
        # What row k has of its squared length 1 before the diagonal is drawn from
        # Beta(k / 2, eta + (dim - 1 - k) / 2). The first row is (1, 0, ...) and takes any.
        rows = shmtensor.arange(
            1, dim, dtype=self.concentration.dtype, device=self.concentration.device
        )
        rows = shmtensor.cat([rows[:1], rows])
        most = self.concentration.unsqueeze(-1) + 0.5 * (dim - 1)
        self._beta = Beta(0.5 * rows, most - 0.5 * rows)
        super().__init__(batch_shape, event_shape, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return self._expanded(  # type: ignore[no-any-return]
            LKJCholesky,
            _instance,
            batch_shape,
            {"concentration": 0},
            kept=["dim"],
            made={"_beta": self._beta.expand((*batch_shape, self.dim))},
        )

    def sample(self, sample_shape: Sequence[int] = Size()) -> Tensor:
        square = self._beta.sample(sample_shape).unsqueeze(-1)
        normal = shmtensor.randn(
            self._extended_shape(sample_shape), dtype=square.dtype, device=square.device
        ).tril(-1)
        direction = normal / normal.norm(dim=-1, keepdim=True)
        direction[..., 0, :] = 0.0  # 0 / 0
        below = square.sqrt() * direction
        left = (1 - below.pow(2).sum(-1)).clamp(min=shmtensor.finfo(below.dtype).tiny)
        return below + left.sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density of the factor, in the coordinates below its diagonal."""
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        eta, n = self.concentration, self.dim - 1
        # The factor's Jacobian multiplies the diagonal's powers of det(M) by dim - row.
        rows = shmtensor.arange(2, self.dim + 1, device=eta.device)
        powers = (2 * (eta - 1)).unsqueeze(-1) + self.dim - rows
        density = (powers * diagonal.log()).sum(-1)
        top = eta + 0.5 * n
        log_constant = (
            0.5 * n * math.log(math.pi) + shmtensor.mvlgamma(top - 0.5, n) - top.lgamma() * n
        )
        return density - log_constant
