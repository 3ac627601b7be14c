"""Functions behind the layers, with torch's signatures.

What needs no more than the operator is re-exported; the others translate torch's Python
arguments (names of reductions, paddings as words) into what the operator takes.

Source: torch.nn.functional.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import shmtensor
from shmtensor import _C
from shmtensor._tensor import Tensor
from shmtensor.nn._losses import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    nll_loss,
    smooth_l1_loss,
    soft_margin_loss,
)
from shmtensor.nn._padding import pad

_nn = _C._nn

__all__ = [
    "avg_pool2d",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv2d",
    "cross_entropy",
    "dropout",
    "dropout_",
    "embedding",
    "gelu",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "leaky_relu",
    "linear",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "pad",
    "relu",
    "relu_",
    "sigmoid",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "tanh",
]

linear = _nn.linear
gelu = _nn.gelu

# --- activations -------------------------------------------------------------------------------


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0) for every element.

    Args:
        input: Any shape, real.
        inplace: Write the result into *input*.
    """
    return shmtensor.relu_(input) if inplace else shmtensor.relu(input)


def relu_(input: Tensor) -> Tensor:
    """``relu`` in place."""
    return shmtensor.relu_(input)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """X where x > 0, otherwise ``negative_slope * x``."""
    result = shmtensor.where(input > 0, input, input * negative_slope)
    return input.copy_(result) if inplace else result


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)) for every element."""
    return input.sigmoid()


def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent of every element."""
    return input.tanh()


def _implicit_dim(name: str, n_dims: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=3,
    )
    return 0 if n_dims in (0, 1, 3) else 1


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
        dim = _implicit_dim("softmax", input.dim())
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Tensor:
    """Logarithm of ``softmax``, computed without overflow. Arguments as there."""
    if dim is None:
        dim = _implicit_dim("log_softmax", input.dim())
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability *p*, and scale the others by 1 / (1 - p).

    Args:
        input: Any shape, floating point.
        p: Probability, from 0 to 1.
        training: Whether to do anything at all.
        inplace: Write the result into *input*.

    Raises:
        ValueError: *p* is outside [0, 1].
    """
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace:
        return shmtensor.dropout_(input, p, training)
    return shmtensor.dropout(input, p, training)


def dropout_(input: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """``dropout`` in place."""
    return dropout(input, p, training, inplace=True)


# --- layers ------------------------------------------------------------------------------------


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    first, *rest = value
    return (int(first), int(rest[0])) if rest else (int(first), int(first))


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] | str = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlate images with filters.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        weight: ``(O, C / groups, kH, kW)``.
        bias: ``(O,)``.
        stride: Step, for both dimensions or each.
        padding: Zeros on each side, or ``'valid'`` (none) or ``'same'`` (keeps H and W).
        dilation: Distance of filter elements.
        groups: Number of independent groups of channels.

    Returns:
        ``(N, O, H', W')`` or ``(O, H', W')``.

    Raises:
        RuntimeError: Shapes do not fit together; ``'same'`` with a stride.
    """
    if not isinstance(padding, str):
        return shmtensor.conv2d(input, weight, bias, stride, padding, dilation, groups)
    if padding == "valid":
        return shmtensor.conv2d(input, weight, bias, stride, 0, dilation, groups)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if max(_pair(stride)) != 1:
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    steps = _pair(dilation)
    total = [steps[i] * (weight.shape[2 + i] - 1) for i in (0, 1)]
    low = [t // 2 for t in total]
    if any(t % 2 for t in total):
        extra = [0, total[1] % 2, 0, total[0] % 2]  # the odd one goes to the far side
        input = pad(input, extra)
    return shmtensor.conv2d(input, weight, bias, 1, low, dilation, groups)


def max_pool2d(
    input: Tensor,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] | None = None,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """Largest value in every window.

    Args:
        input: ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: Size of the window.
        stride: Step; the window's size if absent.
        padding: Implicit minus infinities on each side.
        dilation: Distance of window elements.
        ceil_mode: Keep a last window that is only partly inside.
        return_indices: Also give the flat index of each maximum in its plane.

    Returns:
        The maxima, or ``(maxima, indices)``.
    """
    step: Any = () if stride is None else stride
    if return_indices:
        return _nn.max_pool2d_with_indices(input, kernel_size, step, padding, dilation, ceil_mode)
    return shmtensor.max_pool2d(input, kernel_size, step, padding, dilation, ceil_mode)


def avg_pool2d(
    input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None
) -> Tensor:
    """Mean of every window; windows that are not wholly inside are left out.

    Args:
        input: ``(..., H, W)``.
        kernel_size: Size of the window.
        stride: Step; the window's size if absent.
    """
    size = _pair(kernel_size)
    step = size if stride is None else _pair(stride)
    windows = input.unfold(-2, size[0], step[0]).unfold(-2, size[1], step[1])
    return windows.mean((-2, -1))


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of *weight* chosen by *input*.

    Args:
        input: Indices, any shape ``(*)``, integral.
        weight: ``(V, E)``.
        padding_idx: A row that gets no gradient.
        max_norm: Rows in use that are longer are shortened to this, in place.
        norm_type: The p of the norm for *max_norm*.
        scale_grad_by_freq: Divide gradients by how often a row occurs in *input*.
        sparse: Must be false: gradients are dense.

    Returns:
        ``(*, E)``.

    Raises:
        IndexError: An index is outside [0, V).
        ValueError: *sparse* is true.
    """
    rows = weight.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = padding_idx % rows
    if sparse:
        raise ValueError("embedding(): sparse gradients are not supported, got sparse=True")
    if max_norm is not None:
        _renorm_rows(weight, input, max_norm, norm_type)
    position = -1 if padding_idx is None else padding_idx
    return shmtensor.embedding(weight, input, position, scale_grad_by_freq, sparse)


def _renorm_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Shorten the rows named by *input* to *max_norm*, in place, outside the graph."""
    with shmtensor.no_grad():
        for index in sorted({int(i) for i in input.reshape(-1).tolist()}):
            row = weight[index]
            norm = float((row.abs() ** norm_type).sum()) ** (1.0 / norm_type)
            if norm > max_norm:
                row.mul_(max_norm / (norm + 1e-7))


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Turn class numbers into rows with a single 1.

    Args:
        tensor: ``(*)``, int64, not negative.
        num_classes: Width of a row; the largest number plus one if -1.

    Returns:
        ``(*, num_classes)``, int64.

    Raises:
        RuntimeError: A number is negative, or not below *num_classes*.
    """
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if tensor.numel() and int(tensor.min()) < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = int(tensor.max()) if tensor.numel() else -1
    if num_classes == -1:
        num_classes = largest + 1
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    classes = shmtensor.arange(num_classes, device=tensor.device)
    return (tensor.unsqueeze(-1) == classes).to(shmtensor.int64)
