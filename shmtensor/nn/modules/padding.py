"""Padding layers: the input with more elements on each side."""

from __future__ import annotations

from collections.abc import Sequence

from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.modules.module import Module
from shmtensor.nn.modules.utils import _ntuple


class _Pad(Module):
    """Pads the last dimensions.

    Args:
        padding: Elements on every side, or ``(before, after)`` of the last dimension, then of
            the one before it, and so on.
    """

    _n: int
    _mode: str
    padding: Sequence[int]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._n)(padding)

    def _check_input_dim(self, input: Tensor) -> None:
        """Circular padding takes a batch or a single sample only."""

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, *)`` or ``(C, *)`` to the same with larger spatial sizes."""
        self._check_input_dim(input)
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Pads with *value*."""

    _mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Any shape with enough dimensions to the same with larger sizes."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """The widths and the value."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    """Pads with zeros."""

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class _CircularPad(_Pad):
    """Pads with the other end."""

    _mode = "circular"

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (self._n + 1, self._n + 2):
            raise ValueError(
                f"expected {self._n + 1}D or {self._n + 2}D input (got {input.dim()}D input)"
            )


class ConstantPad1d(_ConstantPad):
    """Signals with one value around."""

    _n = 1


class ConstantPad2d(_ConstantPad):
    """Images with one value around."""

    _n = 2


class ConstantPad3d(_ConstantPad):
    """Volumes with one value around."""

    _n = 3


class ReflectionPad1d(_Pad):
    """Signals reflected at their edges."""

    _n = 1
    _mode = "reflect"


class ReflectionPad2d(_Pad):
    """Images reflected at their edges."""

    _n = 2
    _mode = "reflect"


class ReflectionPad3d(_Pad):
    """Volumes reflected at their edges."""

    _n = 3
    _mode = "reflect"


class ReplicationPad1d(_Pad):
    """Signals repeated at their edges."""

    _n = 1
    _mode = "replicate"


class ReplicationPad2d(_Pad):
    """Images repeated at their edges."""

    _n = 2
    _mode = "replicate"


class ReplicationPad3d(_Pad):
    """Volumes repeated at their edges."""

    _n = 3
    _mode = "replicate"


class ZeroPad1d(_ZeroPad):
    """Signals with zeros around."""

    _n = 1


class ZeroPad2d(_ZeroPad):
    """Images with zeros around."""

    _n = 2


class ZeroPad3d(_ZeroPad):
    """Volumes with zeros around."""

    _n = 3


class CircularPad1d(_CircularPad):
    """Signals wrapped around."""

    _n = 1


class CircularPad2d(_CircularPad):
    """Images wrapped around."""

    _n = 2


class CircularPad3d(_CircularPad):
    """Volumes wrapped around."""

    _n = 3
