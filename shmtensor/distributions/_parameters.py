"""Parameters that can be given in two ways: as probabilities, or as log-odds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shmtensor import Size
from shmtensor._core._tensor import Tensor
from shmtensor.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)


def check_one_given(probs: Any, logits: Any) -> None:
    """Raise ValueError unless exactly one of the two is there."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class BinaryParameters:
    """Keeps ``probs`` or ``logits`` of an event; makes the other one at its first use."""

    if TYPE_CHECKING:
        probs: Tensor
        logits: Tensor
    else:

        @lazy_property
        def logits(self) -> Tensor:
            """Log-odds of the event."""
            return probs_to_logits(self.probs, is_binary=True)

        @lazy_property
        def probs(self) -> Tensor:
            """Probability of the event."""
            return self._probs_of(self.logits)

    def _probs_of(self, logits: Tensor) -> Tensor:
        return logits_to_probs(logits, is_binary=True)

    def _take(self, probs: Any, logits: Any, *others: Any) -> Any:
        """Keep the parameter that is given, in the common shape, and return *others* in that shape.

        Raises:
            ValueError: Both are given, or neither.
        """
        check_one_given(probs, logits)
        name, value = ("logits", logits) if probs is None else ("probs", probs)
        *broadcast, self._param = broadcast_all(*others, value)
        setattr(self, name, self._param)
        return broadcast

    _param: Tensor  # the one that was given

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        """Make a tensor of the parameter's dtype and device."""
        return self._param.new(*args, **kwargs)

    @property
    def param_shape(self) -> Size:
        """Shape of the parameter that was given."""
        return self._param.size()


# For Distribution._expanded.
BINARY = {"probs": 0, "logits": 0, "_param": 0}
