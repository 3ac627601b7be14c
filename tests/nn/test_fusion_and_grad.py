"""Gradients of convolutions as functions, and normalisations taken into the weights before them."""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor import nn


@pytest.mark.check
@pytest.mark.parametrize("options", [(1, 0, 1), (2, 1, 1), (1, 2, 2)])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_gradients_of_convolutions_are_autograds(n: int, options: tuple[int, int, int]) -> None:
    st.manual_seed(0)
    x = st.randn(2, 4, *[5] * n, requires_grad=True)
    w = st.randn(6, 2, *[3] * n, requires_grad=True)
    stride, padding, dilation = options
    y = getattr(nn.functional, f"conv{n}d")(x, w, None, stride, padding, dilation, 2)
    g = st.randn(y.shape)
    of_x, of_w = st.autograd.grad(y, (x, w), g)
    result = getattr(nn.grad, f"conv{n}d_input")(x.shape, w, g, *options, 2)
    assert st.allclose(result, of_x, atol=1e-5)
    each = ((o,) * n for o in options)
    result = getattr(nn.grad, f"conv{n}d_weight")(x, w.shape, g, *each, 2)
    assert st.allclose(result, of_w, atol=1e-4)


def trained(norm: Any, *sizes: int) -> Any:
    norm(2 * st.randn(*sizes) + 1)
    for p in norm.parameters():
        nn.init.uniform_(p, 0.5, 2.0)
    return norm.eval()


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layer", [nn.Conv2d, nn.ConvTranspose2d])
def test_fused_convolution_does_both(layer: Any, bias: bool, affine: bool) -> None:
    st.manual_seed(0)
    conv = layer(2, 3, 2, bias=bias).eval()
    norm = trained(nn.BatchNorm2d(3, affine=affine), 8, 3, 4, 4)
    before = conv.weight.detach().clone()
    fused = nn.utils.fuse_conv_bn_eval(conv, norm, transpose=layer is nn.ConvTranspose2d)
    x = st.randn(1, 2, 4, 4)
    assert st.allclose(fused(x), norm(conv(x)), atol=1e-5)
    assert conv.weight.equal(before)
    assert (fused.weight.requires_grad, fused.bias.requires_grad) == (True, bias)


@pytest.mark.parametrize("features", [4, 1])
def test_fused_linear_layer_does_both(features: int) -> None:
    st.manual_seed(0)
    linear = nn.Linear(3, 4).eval()
    norm = trained(nn.BatchNorm1d(features), 8, features, 4)
    fused = nn.utils.fuse_linear_bn_eval(linear, norm)
    x = st.randn(2, features, 3)
    expected = norm(linear(x)) if features == 1 else norm(linear(x[:, 0]))
    result = fused(x) if features == 1 else fused(x[:, 0])
    assert st.allclose(result, expected, atol=1e-5)


@pytest.mark.check
def test_fusion_keeps_the_dtype_of_the_weight():
    conv = nn.Conv2d(1, 1, 1, dtype=st.float16).eval()
    weight, bias = nn.utils.fuse_conv_bn_weights(
        conv.weight, None, st.ones(1), st.ones(1), 0.0, st.ones(1), st.ones(1)
    )
    assert (weight.dtype, bias.dtype, bias.item()) == (st.float16, st.float16, 0.0)


def test_fusion_refuses():
    linear = nn.Linear(3, 4).eval()
    with pytest.raises(AssertionError, match="num_features == 1"):
        nn.utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(2).eval())
    with pytest.raises(AssertionError, match="Fusion only for eval"):
        nn.utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(4))
    with pytest.raises(AssertionError, match="running_mean"):
        nn.utils.fuse_linear_bn_eval(linear, nn.BatchNorm1d(4, track_running_stats=False).eval())


def test_gradients_of_convolutions_are_found_beside_the_functions():
    assert nn.functional.grad is nn.grad
