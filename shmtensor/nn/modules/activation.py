"""Activations. Each is its function in ``nn.functional`` with the options kept."""

from __future__ import annotations

import warnings
from typing import Any

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn import init
from shmtensor.nn.modules.attention import MultiheadAttention as MultiheadAttention
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter


class _Plain(Module):
    """An activation with one option: whether it works in place."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """Options that are not the default."""
        return "inplace=True" if self.inplace else ""


class ReLU(_Plain):
    """Rectified linear unit: max(x, 0) for every element; *inplace* writes into the input."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.relu(input, inplace=self.inplace)


class SiLU(_Plain):
    """Sigmoid-weighted linear unit, also called swish: x * sigmoid(x) for every element."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.silu(input, inplace=self.inplace)


class Mish(_Plain):
    """Apply x * tanh(softplus(x)) to every element."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.mish(input, inplace=self.inplace)


class Hardswish(_Plain):
    """x * hardsigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        """Nothing."""
        return ""


class Hardsigmoid(_Plain):
    """The sigmoid as three lines: min(max(x + 3, 0), 6) / 6 for every element."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        """Nothing."""
        return ""


class SELU(_Plain):
    """``elu`` with the constants that keep mean 0 and variance 1."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.selu(input, self.inplace)


class Threshold(Module):
    """*x* where x > *threshold*, otherwise *value*."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """The numbers."""
        end = ", inplace=True" if self.inplace else ""
        return f"threshold={self.threshold}, value={self.value}{end}"


class RReLU(Module):
    """Leaky rectifier; in training its slope is drawn from [*lower*, *upper*]."""

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The limits."""
        end = ", inplace=True" if self.inplace else ""
        return f"lower={self.lower}, upper={self.upper}{end}"


def _renamed(old_name: str, old: float | None, name: str, value: float) -> float:
    """The value of an argument that may be given by its old name."""
    if old is None:
        return value
    warnings.warn(
        f"keyword argument `{old_name}` is deprecated and renamed to `{name}`",
        FutureWarning,
        stacklevel=3,
    )
    return old


class Hardtanh(Module):
    """*x* limited to [*min_val*, *max_val*]."""

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        min_val = _renamed("min_value", min_value, "min_val", min_val)
        max_val = _renamed("max_value", max_value, "max_val", max_val)
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """The limits."""
        end = ", inplace=True" if self.inplace else ""
        return f"min_val={self.min_val}, max_val={self.max_val}{end}"


class ReLU6(Hardtanh):
    """Rectified linear unit with a bound: min(max(x, 0), 6) for every element."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        """Options that are not the default."""
        return "inplace=True" if self.inplace else ""


class ELU(Module):
    """*x* where positive, otherwise ``alpha * (exp(x) - 1)``.

    Source:
        Clevert et al., "Fast and accurate deep network learning by exponential linear units",
        2015.
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """The factor."""
        return f"alpha={self.alpha}" + (", inplace=True" if self.inplace else "")


class CELU(ELU):
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(Module):
    """x where positive, otherwise ``negative_slope * x``.

    Args:
        negative_slope: Slope below zero.
        inplace: Write into the input.
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}" + (", inplace=True" if self.inplace else "")


class PReLU(Module):
    """x where positive, otherwise x times a learned slope.

    Args:
        num_parameters: 1, or the number of channels.
        init: First value of the slopes.
        device: Where the parameter is.
        dtype: Its type.
    """

    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(shmtensor.empty((num_parameters,), device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the slopes to their first value."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.num_parameters}"


class Tanh(Module):
    """Hyperbolic tangent of every element."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return shmtensor.tanh(input)


class Sigmoid(Module):
    """Logistic function: 1 / (1 + exp(-x)) for every element."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return shmtensor.sigmoid(input)


class LogSigmoid(Module):
    """Logarithm of the sigmoid of every element, exact far from zero too."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.logsigmoid(input)


class Softsign(Module):
    """A soft sign: ``x / (1 + |x|)`` for every element."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.softsign(input)


class Tanhshrink(Module):
    """Apply ``x - tanh(x)`` to every element."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.tanhshrink(input)


class GELU(Module):
    """x times the normal distribution function of x.

    Args:
        approximate: ``'none'``, or ``'tanh'`` for the cheaper formula.

    Source:
        Hendrycks and Gimpel, "Gaussian error linear units", 2016.
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The formula used."""
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x where beta * x > *threshold*."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The numbers."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Softshrink(Module):
    """*x* moved towards 0 by *lambd*, at most to 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The distance."""
        return str(self.lambd)


class Hardshrink(Module):
    """*x* where |x| > *lambd*, otherwise 0."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        """The distance."""
        return str(self.lambd)


class GLU(Module):
    """The first half along *dim* times the sigmoid of the second half.

    Args:
        dim: The dimension that is halved; its size is even.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """``(*, 2 N, *)`` to ``(*, N, *)``."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmin(Module):
    """Softmax of -x along *dim*."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.softmin(input, self.dim, _stacklevel=4)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(Module):
    """Exponentials divided by their sum along *dim*: numbers from 0 to 1 that add up to 1.

    Args:
        dim: The dimension; None chooses one by the number of dimensions, and warns.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.softmax(input, self.dim, _stacklevel=4)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax2d(Module):
    """Softmax over the channels of every pixel."""

    def forward(self, input: Tensor) -> Tensor:
        """``(N, C, H, W)`` or ``(C, H, W)`` to the same shape."""
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3, _stacklevel=4)


class LogSoftmax(Module):
    """Logarithm of softmax along *dim*, exact where softmax is nearly 0.

    Args:
        dim: The dimension; None chooses one by the number of dimensions, and warns.
    """

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.log_softmax(input, self.dim, _stacklevel=4)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"
