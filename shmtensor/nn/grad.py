"""Gradients of convolutions, given the gradient of the result. Source: torch.nn.grad."""

from __future__ import annotations

from collections.abc import Sequence

import shmtensor
from shmtensor._core._tensor import Tensor

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]

Ints = int | Sequence[int]


def _gradient(
    of: int,
    n: int,
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Tensor:
    """The gradient of argument *of*; the other one must be whole, that one needs only its shape."""
    each = [[x] * n if isinstance(x, int) else list(x) for x in (stride, padding, dilation)]
    wanted = [int(of == i) for i in range(3)]
    results: tuple[Tensor, ...] = shmtensor.ops.aten.convolution_backward.default(
        grad_output, input, weight, None, *each, False, [0] * n, groups, wanted
    )
    return results[of]


def _input(
    n: int,
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Tensor:
    shape = grad_output.new_empty(1).expand(input_size)
    return _gradient(0, n, grad_output, shape, weight, stride, padding, dilation, groups)


def _weight(
    n: int,
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    groups: int,
) -> Tensor:
    shape = grad_output.new_empty(1).expand(weight_size)
    return _gradient(1, n, grad_output, input, shape, stride, padding, dilation, groups)


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the input of `conv1d`, of shape *input_size*.

    Args:
        input_size: ``(N, C, L)``.
        weight: Of the convolution.
        grad_output: The gradient of its result.
        stride: As in `conv1d`.
        padding: As in `conv1d`.
        dilation: As in `conv1d`.
        groups: As in `conv1d`.
    """
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the weight of `conv1d`, of shape *weight_size*; else as `conv1d_input`."""
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the input of `conv2d`, of shape *input_size*; else as `conv1d_input`."""
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the weight of `conv2d`, of shape *weight_size*; else as `conv1d_input`."""
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the input of `conv3d`, of shape *input_size*; else as `conv1d_input`."""
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the weight of `conv3d`, of shape *weight_size*; else as `conv1d_input`."""
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
