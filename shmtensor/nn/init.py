"""Initial values of parameters, drawn from torch's random streams.

Every function changes its tensor in place, outside the graph, and returns it.

Source: torch.nn.init.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import shmtensor
from shmtensor._core._overridable import all_by_name, overridable
from shmtensor._core._tensor import Tensor

__all__ = [
    "calculate_gain",
    "constant",
    "constant_",
    "dirac",
    "dirac_",
    "eye",
    "eye_",
    "kaiming_normal",
    "kaiming_normal_",
    "kaiming_uniform",
    "kaiming_uniform_",
    "normal",
    "normal_",
    "ones_",
    "orthogonal",
    "orthogonal_",
    "sparse",
    "sparse_",
    "trunc_normal_",
    "uniform",
    "uniform_",
    "xavier_normal",
    "xavier_normal_",
    "xavier_uniform",
    "xavier_uniform_",
    "zeros_",
]

_LINEAR = {
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance of activations through a nonlinearity.

    Args:
        nonlinearity: A function's name, such as ``'relu'`` or ``'linear'``.
        param: The negative slope of ``'leaky_relu'``.

    Raises:
        ValueError: An unknown name, or a *param* that is no number.
    """
    if nonlinearity in _LINEAR or nonlinearity == "sigmoid":
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs feed, and how many outputs leave, one unit."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return int(tensor.shape[1]) * field, int(tensor.shape[0]) * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    name = mode.lower()
    if name not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[name == "fan_out"]


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    """Fill outside the graph."""
    with shmtensor.no_grad():
        return tensor.fill_(val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    """Fill with zeros outside the graph."""
    with shmtensor.no_grad():
        return tensor.zero_()


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    """Fill with values from [a, b) outside the graph."""
    with shmtensor.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    """Fill with normally distributed values outside the graph."""
    with shmtensor.no_grad():
        return tensor.normal_(mean, std, generator=generator)


@overridable(hand_over=all_by_name)
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values from [a, b)."""
    with shmtensor.no_grad():
        return tensor.uniform_(a, b, generator=generator)


@overridable(hand_over=all_by_name)
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill with values of a normal distribution."""
    with shmtensor.no_grad():
        return tensor.normal_(mean, std, generator=generator)


@overridable(hand_over=all_by_name)
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one value."""
    with shmtensor.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    with shmtensor.no_grad():
        return tensor.fill_(1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    with shmtensor.no_grad():
        return tensor.zero_()


def eye_(tensor: Tensor) -> Tensor:
    """Make a matrix the identity, as far as it is square."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with shmtensor.no_grad():
        tensor.zero_()
        for i in range(min(tensor.shape)):
            tensor[i, i] = 1
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Make convolution filters that pass their input channels through.

    Args:
        tensor: ``(O, C / groups, ...)`` with 3 to 5 dimensions.
        groups: Number of groups; must divide O.
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.shape[0] % groups:
        raise ValueError("dim 0 must be divisible by groups")
    if tensor.is_meta:
        return tensor
    per_group = tensor.shape[0] // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    with shmtensor.no_grad():
        tensor.zero_()
        for group in range(groups):
            for i in range(min(per_group, tensor.shape[1])):
                place = (group * per_group + i, i, *middle)
                tensor[place] = 1
    return tensor


def _is_empty(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False


def _xavier_std(tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / float(sum(_calculate_fan_in_and_fan_out(tensor))))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Fill uniformly so that variance keeps its size forward and backward.

    Source:
        Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural
        networks", 2010, eq. 16.
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """As ``xavier_uniform_``, from a normal distribution."""
    return _no_grad_normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


@overridable(hand_over=all_by_name)
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """Fill uniformly so that variance keeps its size through rectifiers.

    Args:
        tensor: At least two dimensions.
        a: Negative slope of the rectifier.
        mode: ``'fan_in'`` keeps the forward variance, ``'fan_out'`` the backward one.
        nonlinearity: What follows the layer.
        generator: Where random numbers come from.

    Source:
        He et al., "Delving deep into rectifiers", 2015, eq. 10 and 14.
    """
    if _is_empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    return _no_grad_uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Any = None,
) -> Tensor:
    """As ``kaiming_uniform_``, from a normal distribution."""
    if _is_empty(tensor):
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return _no_grad_normal_(tensor, 0, std, generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Any = None,
) -> Tensor:
    """Fill with values of a normal distribution, cut off outside [*a*, *b*].

    Args:
        tensor: Any shape, floating point.
        mean: Mean before the cut.
        std: Standard deviation before the cut.
        a: The least value.
        b: The largest value.
        generator: Where random numbers come from.

    Source:
        torch.nn.init.trunc_normal_; Robert, "Simulation of truncated normal variables", 1995.
    """
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warnings.warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of "
            "values may be incorrect.",
            stacklevel=2,
        )

    def below(x: float) -> float:
        return (1.0 + math.erf((x - mean) / std / math.sqrt(2.0))) / 2.0

    with shmtensor.no_grad():
        if below(b) - below(a) > 0.3:
            return _normal_within(tensor, mean, std, a, b, generator)
        return _uniform_thinned(tensor, mean, std, a, b, generator)


def _normal_within(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> Tensor:
    """Normal numbers; those outside [*a*, *b*] are drawn again."""
    # The bounds as the tensor's dtype has them, since its numbers are rounded to that.
    low, high = (shmtensor.tensor(x, dtype=tensor.dtype).item() for x in (a, b))
    tensor.normal_(mean, std, generator=generator)
    while bool((outside := (tensor < low) | (tensor > high)).any()):
        again = shmtensor.empty_like(tensor).normal_(mean, std, generator=generator)
        tensor.copy_(shmtensor.where(outside, again, tensor))
    return tensor


def _uniform_thinned(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any
) -> Tensor:
    """Uniform numbers of [*a*, *b*], each kept as often as the density there is of its peak."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    drawn, chance = shmtensor.empty_like(tensor), shmtensor.empty_like(tensor)
    pending = shmtensor.ones_like(tensor, dtype=shmtensor.bool)
    while bool(pending.any()):
        drawn.uniform_(a, b, generator=generator)
        tensor.copy_(shmtensor.where(pending, drawn, tensor))
        drawn.sub_(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        pending &= chance.uniform_(generator=generator).log_() > drawn
    return tensor


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with a matrix whose rows or columns, whichever are fewer, are orthonormal.

    Args:
        tensor: At least two dimensions; those behind the first count as columns.
        gain: Factor of the matrix.
        generator: Where random numbers come from.

    Source:
        Saxe et al., "Exact solutions to the nonlinear dynamics of learning in deep linear neural
        networks", 2013.
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0 or tensor.is_meta:
        return tensor
    rows = int(tensor.shape[0])
    columns = tensor.numel() // rows
    with shmtensor.no_grad():
        matrix = tensor.new_empty((rows, columns)).normal_(0, 1, generator=generator)
        if rows < columns:
            matrix = matrix.t()
        q, r = shmtensor.linalg.qr(matrix.contiguous())
        q = q * r.diagonal().sign()  # so that all such matrices are equally likely
        if rows < columns:
            q = q.t()
        return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill with normal values, and zero a share of every column.

    Args:
        tensor: A matrix.
        sparsity: The share, 0 to 1.
        std: Standard deviation of the others.
        generator: Where random numbers come from.

    Source:
        Martens, "Deep learning via Hessian-free optimization", 2010.
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    if tensor.is_meta:
        return tensor
    rows, columns = tensor.shape
    count = math.ceil(sparsity * rows)
    with shmtensor.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            tensor[shmtensor.randperm(rows)[:count], column] = 0
    return tensor


def _old_name(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same function without the underscore, which warns."""
    name = function.__name__
    old = name.removesuffix("_")

    @functools.wraps(function)
    def renamed(*args: Any, **kwargs: Any) -> Tensor:
        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{name}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    renamed.__name__ = renamed.__qualname__ = old
    renamed.__doc__ = f"The old name of `{name}`."
    return renamed


constant = _old_name(constant_)
dirac = _old_name(dirac_)
eye = _old_name(eye_)
kaiming_normal = _old_name(kaiming_normal_)
kaiming_uniform = _old_name(kaiming_uniform_)
normal = _old_name(normal_)
orthogonal = _old_name(orthogonal_)
sparse = _old_name(sparse_)
uniform = _old_name(uniform_)
xavier_normal = _old_name(xavier_normal_)
xavier_uniform = _old_name(xavier_uniform_)
