"""Layers with the normalisation behind them in their weights. Source: torch.nn.utils.fusion."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import shmtensor
from shmtensor._core._tensor import Tensor
from shmtensor.nn.modules.module import Module
from shmtensor.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]

M = TypeVar("M", bound=Module)


def _fused(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    dim: int,
) -> tuple[Parameter, Parameter]:
    """Weight and bias with the outputs, which *dim* of the weight counts, normalised."""
    factor = shmtensor.rsqrt(var + eps)
    if scale is not None:
        factor = factor * scale
    sizes = [1] * weight.dim()
    sizes[dim] = -1
    before = -mean if bias is None else bias - mean
    after = before * factor
    if shift is not None:
        after = after + shift
    return (
        Parameter((weight * factor.reshape(sizes)).to(weight.dtype), weight.requires_grad),
        Parameter(
            after.to(weight.dtype if bias is None else bias.dtype),
            bias is not None and bias.requires_grad,
        ),
    )


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Give weight and bias of a convolution that does what it and a batch normalisation do.

    Args:
        conv_w: The convolution's weight.
        conv_b: Its bias.
        bn_rm: The running mean.
        bn_rv: The running variance.
        bn_eps: What is added to that.
        bn_w: The normalisation's weight; ones if absent.
        bn_b: Its bias; zeros if absent.
        transpose: The convolution is a transposed one.

    Source:
        torch.nn.utils.fuse_conv_bn_weights.
    """
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, int(transpose))


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Give weight and bias of a linear layer that does what it and a batch normalisation do.

    Args:
        linear_w: The layer's weight.
        linear_b: Its bias.
        bn_rm: The running mean.
        bn_rv: The running variance.
        bn_eps: What is added to that.
        bn_w: The normalisation's weight; ones if absent.
        bn_b: Its bias; zeros if absent.

    Source:
        torch.nn.utils.fuse_linear_bn_weights.
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fuse(layer: M, bn: Any, dim: int) -> M:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    fused: Any = copy.deepcopy(layer)
    fused.weight, fused.bias = _fused(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, dim
    )
    result: M = fused
    return result


def fuse_conv_bn_eval(conv: M, bn: Module, transpose: bool = False) -> M:
    """Give a convolution that does what *conv* and *bn* do one after the other.

    Args:
        conv: In evaluation mode; is copied.
        bn: A batch normalisation in evaluation mode, with running statistics.
        transpose: *conv* is a transposed convolution.

    Raises:
        AssertionError: One is in training mode, or there are no statistics.

    Source:
        torch.nn.utils.fuse_conv_bn_eval.
    """
    return _fuse(conv, bn, int(transpose))


def fuse_linear_bn_eval(linear: M, bn: Module) -> M:
    """Give a linear layer that does what *linear* and *bn* do one after the other.

    Args:
        linear: In evaluation mode; is copied.
        bn: A batch normalisation of as many features, or of one, in evaluation mode, with running
            statistics.

    Raises:
        AssertionError: One is in training mode, there are no statistics, or the sizes differ.

    Source:
        torch.nn.utils.fuse_linear_bn_eval.
    """
    out_features, num_features = getattr(linear, "out_features", 0), getattr(bn, "num_features", 0)
    if num_features not in (1, out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={out_features} and bn.num_features={num_features}"
        )
    return _fuse(linear, bn, 0)
