"""The chi-squared distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from shmtensor._core._tensor import Tensor
from shmtensor.distributions import constraints
from shmtensor.distributions.gamma import Gamma

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of *df* squared standard normal draws: a gamma distribution.

    Args:
        df: Degrees of freedom, whole or not.
        validate_args: As of `Distribution`.
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Chi2, _instance)
        return super().expand(batch_shape, new)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
