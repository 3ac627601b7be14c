"""Activations. Each is its function in ``nn.functional`` with the options kept."""

from __future__ import annotations

from shmtensor._tensor import Tensor
from shmtensor.nn import functional as F
from shmtensor.nn.module import Module


class ReLU(Module):
    """max(x, 0); *inplace* writes into the input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.relu(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Options that are not the default."""
        return "inplace=True" if self.inplace else ""


class LeakyReLU(Module):
    """x where positive, otherwise ``negative_slope * x``."""

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


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.sigmoid(input)


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


class Softmax(Module):
    """exp(x) divided by its sum along *dim*."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """Logarithm of softmax along *dim*."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Any shape to the same shape."""
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"
