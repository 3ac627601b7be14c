"""Second derivatives of operators of nn, against finite differences. First ones: tests/autograd."""

from __future__ import annotations

import itertools

import pytest

import shmtensor as st
from shmtensor.autograd import gradcheck, gradgradcheck

F = st.nn.functional


def _random(*shape, dtype=st.float64):
    return st.randn(*shape, dtype=dtype).requires_grad_()


@pytest.fixture(autouse=True)
def _seed():
    st.manual_seed(3)


def _check(function, *inputs):
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


@pytest.mark.check
def test_layer_norm():
    inputs = _random(4, 2, 3), _random(2, 3), _random(2, 3)
    _check(lambda x, w, b: F.layer_norm(x, (2, 3), w, b), *inputs)


def test_layer_norm_without_weights():
    _check(lambda x: F.layer_norm(x, (3,)), _random(2, 3))


def test_rms_norm():
    _check(lambda x, w: F.rms_norm(x, (3,), w, 1e-3), _random(4, 3), _random(3))


@pytest.mark.parametrize("shape", [(2, 4), (2, 4, 3), (2, 4, 3, 2)])
def test_group_norm(shape):
    _check(lambda x, w, b: F.group_norm(x, 2, w, b), _random(*shape), _random(4), _random(4))


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(training):
    mean, var = st.zeros(3, dtype=st.float64), st.full((3,), 2.0, dtype=st.float64)

    def normalised(x, w, b):
        return F.batch_norm(x, mean.clone(), var.clone(), w, b, training)

    _check(normalised, _random(4, 3, 2), _random(3), _random(3))


@pytest.mark.check
def test_group_norm_wants_two_dimensions():
    for length in (1, 3):
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            st.nn.functional.group_norm(st.ones(length), 1)


def test_group_norm_keeps_channels_last():
    x = st.randn(2, 4, 3, 3).contiguous(memory_format=st.channels_last)
    assert F.group_norm(x, 2).is_contiguous(memory_format=st.channels_last)


def test_group_norm_statistics_have_a_row_per_sample():
    x = st.randn(2, 6, 5)
    out, mean, rstd = st.native_group_norm(x, None, None, 2, 6, 5, 3, 1e-5)
    assert mean.shape == rstd.shape == (2, 3)
    assert st.allclose(mean, x.view(2, 3, 10).mean(-1), atol=1e-6)
    assert st.allclose(out, F.group_norm(x, 3))


def test_complex_convolution():
    x, w = _random(1, 2, 4, dtype=st.complex128), _random(3, 2, 2, dtype=st.complex128)
    _check(lambda x, w: F.conv1d(x, w, padding=1), x, w)


def test_complex_transposed_convolution():
    x, w = _random(1, 2, 4, dtype=st.complex128), _random(2, 3, 2, dtype=st.complex128)
    _check(lambda x, w: F.conv_transpose1d(x, w, stride=2), x, w)


def test_transposed_convolution_with_output_padding_above_the_stride():
    _check(
        lambda x, w: F.conv_transpose1d(x, w, stride=2, output_padding=3, dilation=4, padding=1),
        _random(1, 2, 3),
        _random(2, 1, 2),
    )


@pytest.mark.parametrize("wanted", list(itertools.product((False, True), repeat=3))[1:])
def test_group_norm_gives_the_gradients_that_are_wanted(wanted):
    inputs = [_random(2, 4, 6), _random(4), _random(4)]
    whole = [x.detach().clone().requires_grad_() for x in inputs]
    some = [x.detach().clone().requires_grad_(on) for x, on in zip(inputs, wanted, strict=True)]
    for x, w, b in (whole, some):
        F.group_norm(x, 2, w, b).pow(2).sum().backward()
    for one, all_of_them, on in zip(some, whole, wanted, strict=True):
        assert (one.grad is not None) is on
        assert not on or st.allclose(one.grad, all_of_them.grad)
