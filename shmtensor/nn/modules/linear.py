"""Affine maps: `Linear`, `Bilinear` and their lazy forms."""

from __future__ import annotations

import math
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn import init
from shmtensor.nn.modules.lazy import LazyModuleMixin
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter, UninitializedParameter


class Identity(Module):
    """Gives back its input; takes and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same tensor."""
        return input


class Linear(Module):
    """The affine map x W^T + b of the last dimension: ``(*, in)`` to ``(*, out)``.

    Args:
        in_features: Size of the last dimension of the input.
        out_features: Size of the last dimension of the output.
        bias: Whether there is a b.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight: ``(out_features, in_features)``, uniform in ±1/sqrt(in_features).
        bias: ``(out_features,)``, likewise, or ``None``.

    Example:
        >>> nn.Linear(4, 2)(torch.zeros(3, 4)).shape
        torch.Size([3, 2])
    """

    weight: Parameter
    bias: Parameter  # None when there is none; typed for those that have it

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(
            shmtensor.empty((out_features, in_features), device=device, dtype=dtype)
        )
        if bias:
            self.bias = Parameter(shmtensor.empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """``(*, in_features)`` to ``(*, out_features)``."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """`Linear` under the name that the last map of `MultiheadAttention` has in reprs."""


class Bilinear(Module):
    """x1^T W x2 + b.

    Args:
        in1_features: Size of the last dimension of the first input.
        in2_features: Size of the last dimension of the second input.
        out_features: Size of the last dimension of the output.
        bias: Whether there is a b.
        device: Where the parameters are.
        dtype: Their type.

    Attributes:
        weight: ``(out_features, in1_features, in2_features)``, uniform in ±1/sqrt(in1_features).
        bias: ``(out_features,)``, likewise, or ``None``.
    """

    weight: Parameter
    bias: Parameter  # None when there is none; typed for those that have it

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        shape = (out_features, in1_features, in2_features)
        self.weight = Parameter(shmtensor.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(shmtensor.empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        if self.in1_features <= 0:
            raise ValueError(
                f"in1_features must be > 0, but got (in1_features={self.in1_features})"
            )
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """``(*, in1_features)`` and ``(*, in2_features)`` to ``(*, out_features)``."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """``Linear`` whose ``in_features`` is the last size of the first input."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.out_features = out_features
        options = {"device": device, "dtype": dtype}
        self.weight = UninitializedParameter(**options)
        if bias:
            self.bias = UninitializedParameter(**options)
        self._become_lazy()

    def reset_parameters(self) -> None:
        """Draw new initial values, once there are sizes."""
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Learn ``in_features``."""
        if not self.has_uninitialized_params():
            self.in_features = self.weight.shape[-1]
            return
        self.in_features = input.shape[-1]
        with shmtensor.no_grad():
            if isinstance(self.weight, UninitializedParameter):
                self.weight.materialize((self.out_features, self.in_features))
            if isinstance(self.bias, UninitializedParameter):
                self.bias.materialize((self.out_features,))
        self.reset_parameters()
