"""Activation functions. Source: torch.nn.functional."""

from __future__ import annotations

import math
import warnings
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._core._arguments import checked
from shmtensor._core._overridable import overridable
from shmtensor._core._tensor import Tensor

_nn = _C._nn

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
]

gelu = _nn.gelu
hardshrink = _C.hardshrink
softplus = _nn.softplus
softshrink = _nn.softshrink


@overridable(as_given=True)
@checked
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(sigmoid(x)) of every element, exact also far out; the result is contiguous."""
    dense = input.contiguous()
    return _nn.log_sigmoid(dense) if out is None else _nn.log_sigmoid(dense, out=out)


@overridable(straight=_nn.threshold, counts=(3, 3))
def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """*input* where it is > *threshold*, otherwise *value*."""
    function = _nn.threshold_ if inplace else _nn.threshold
    return function(input, threshold, value)


@overridable(as_given=True, straight=_nn.threshold_, counts=(3, 3))
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """``threshold`` in place."""
    return _nn.threshold_(input, threshold, value)


@overridable(straight=_C.relu)
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0) for every element.

    Args:
        input: Any shape, real.
        inplace: Write the result into *input*.
    """
    return shmtensor.relu_(input) if inplace else shmtensor.relu(input)


@overridable(as_given=True, straight=_C.relu_)
def relu_(input: Tensor) -> Tensor:
    """``relu`` in place."""
    return shmtensor.relu_(input)


@overridable(straight=_nn.relu6)
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply min(max(x, 0), 6) to every element; *inplace* writes into *input*."""
    return _nn.relu6_(input) if inplace else _nn.relu6(input)


@overridable(straight=_nn.glu, counts=(1, 2))
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half along *dim* times the sigmoid of the second half.

    Args:
        input: Floating point; its size along *dim* is even.
        dim: The dimension that is halved.

    Raises:
        RuntimeError: A scalar, or an odd size.

    Source:
        Dauphin et al., "Language modeling with gated convolutional networks", 2016.
    """
    return _nn.glu(input, dim)


@overridable(straight=_nn.hardtanh)
def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """*input* limited to [*min_val*, *max_val*].

    Raises:
        ValueError: *min_val* > *max_val*.
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    function = _nn.hardtanh_ if inplace else _nn.hardtanh
    return function(input, min_val, max_val)


@overridable(as_given=True)
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``hardtanh`` in place."""
    return hardtanh(input, min_val, max_val, inplace=True)


@overridable(straight=_nn.elu, counts=(1, 2))
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """*input* where positive, otherwise ``alpha * (exp(x) - 1)``."""
    return _nn.elu_(input, alpha) if inplace else _nn.elu(input, alpha)


@overridable(as_given=True, straight=_nn.elu_, counts=(1, 2))
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``elu`` in place."""
    return _nn.elu_(input, alpha)


@overridable(straight=_nn.selu)
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``elu`` with the constants that keep mean 0 and variance 1.

    Source:
        Klambauer et al., "Self-normalizing neural networks", 2017.
    """
    return _nn.selu_(input) if inplace else _nn.selu(input)


@overridable(as_given=True, straight=_nn.selu_)
def selu_(input: Tensor) -> Tensor:
    """``selu`` in place."""
    return _nn.selu_(input)


@overridable(straight=_nn.celu, counts=(1, 2))
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))."""
    return _nn.celu_(input, alpha) if inplace else _nn.celu(input, alpha)


@overridable(as_given=True, straight=_nn.celu_, counts=(1, 2))
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``celu`` in place."""
    return _nn.celu_(input, alpha)


@overridable(straight=_nn.leaky_relu, counts=(1, 2))
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """*input* where it is > 0, otherwise ``negative_slope * x``."""
    function = _nn.leaky_relu_ if inplace else _nn.leaky_relu
    return function(input, negative_slope)


@overridable(as_given=True, straight=_nn.leaky_relu_, counts=(1, 2))
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``leaky_relu`` in place."""
    return _nn.leaky_relu_(input, negative_slope)


@overridable(as_given=True, straight=_C.prelu, counts=(2, 2))
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """*input* where it is > 0, otherwise x times a learned slope.

    Args:
        input: ``(N, C, *)`` when there are C slopes; any shape when there is one.
        weight: ``()``, ``(1,)`` or ``(C,)``, of the input's dtype.

    Raises:
        RuntimeError: The number of slopes is not C, or the dtypes differ.

    Source:
        He et al., "Delving deep into rectifiers", 2015.
    """
    return shmtensor.prelu(input, weight)


def sloped_at_random(
    input: Tensor, lower: float, upper: float, training: bool, inplace: bool, generator: Any
) -> Tensor:
    """Do ``rrelu``; slopes come from *generator*, or the default one for None."""
    for name, bound in (("lower", lower), ("upper", upper)):
        if not inplace and not math.isfinite(bound):
            raise RuntimeError(f"rrelu: {name} bound must be finite, got {bound}")
    if not lower <= upper:
        raise RuntimeError(
            "Lower bound should be less than or equal to the upper bound, but found lower bound "
            f"{lower} and upper bound {upper}."
        )
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    slope = _nn._rrelu_noise(input, lower, upper, generator)
    return input.mul_(slope) if inplace else input.contiguous() * slope


@overridable
@checked
def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """*input* where positive, otherwise x times a slope drawn from [*lower*, *upper*].

    Args:
        input: Any shape, floating point.
        lower: The smallest slope.
        upper: The largest slope.
        training: Draw slopes; otherwise their mean is used for all.
        inplace: Write the result into *input*.

    Raises:
        RuntimeError: The limits are not finite, ordered numbers.
    """
    return sloped_at_random(input, lower, upper, training, inplace, None)


@overridable(as_given=True)
def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """``rrelu`` in place."""
    return rrelu(input, lower, upper, training, inplace=True)


@overridable
def tanhshrink(input: Tensor) -> Tensor:
    """Apply ``x - tanh(x)`` to every element."""
    return input - input.tanh()


@overridable
def softsign(input: Tensor) -> Tensor:
    """Apply ``x / (1 + |x|)`` to every element."""
    return input / (input.abs() + 1)


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent of every element."""
    return input.tanh()


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)) for every element."""
    return input.sigmoid()


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply min(max(x + 3, 0), 6) / 6 to every element; *inplace* writes into *input*."""
    return _nn.hardsigmoid_(input) if inplace else _nn.hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply ``x * hardsigmoid(x)`` to every element; *inplace* writes into *input*."""
    return _nn.hardswish_(input) if inplace else _nn.hardswish(input)


@overridable(straight=_nn.silu)
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply ``x * sigmoid(x)``, also called swish; *inplace* writes into *input*."""
    return _nn.silu_(input) if inplace else _nn.silu(input)


@overridable(straight=_nn.mish)
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Apply ``x * tanh(softplus(x))`` to every element; *inplace* writes into *input*."""
    return _nn.mish_(input) if inplace else _nn.mish(input)


# --- along a dimension -----------------------------------------------------------------------


def _get_softmax_dim(name: str, n_dims: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if n_dims in (0, 1, 3) else 1


@overridable(straight=_C.softmax, counts=(2, 2))
def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """exp(x) divided by its sum along *dim*.

    Args:
        input: Any shape, floating point (or cast by *dtype* first).
        dim: The dimension along which the result sums to 1.
        dtype: Type of the result.
    """
    if dim is None:
        dim = _get_softmax_dim("softmax", input.dim(), _stacklevel)
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


@overridable
def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """``softmax`` of -x. Arguments as there."""
    if dim is None:
        dim = _get_softmax_dim("softmin", input.dim(), _stacklevel)
    return (-input).softmax(dim) if dtype is None else (-input).softmax(dim, dtype=dtype)


@overridable(straight=_C.log_softmax, counts=(2, 2))
def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Logarithm of ``softmax``, computed without overflow. Arguments as there."""
    if dim is None:
        dim = _get_softmax_dim("log_softmax", input.dim(), _stacklevel)
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


@overridable
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Draw from a relaxed categorical distribution.

    Args:
        logits: Unnormalised log-probabilities, any shape.
        tau: Temperature, above 0.
        hard: Give one-hot rows, with the gradient of the relaxed ones.
        eps: Has no effect.
        dim: The dimension of the categories.

    Source:
        Jang et al., "Categorical reparameterization with Gumbel-Softmax", 2016.
    """
    if eps != 1e-10:
        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    noise = shmtensor.empty_like(logits, memory_format=shmtensor.contiguous_format)
    noise.exponential_().log_().neg_()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    rows = shmtensor.zeros_like(logits, memory_format=shmtensor.contiguous_format)
    return rows.scatter_(dim, index, 1.0) - soft.detach() + soft
