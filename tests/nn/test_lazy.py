"""Layers that learn their sizes from the first input, and parameters without a size."""

from __future__ import annotations

import copy
import pickle

import pytest

import shmtensor as sh
from shmtensor import nn
from shmtensor.nn import functional as F


@pytest.mark.check
@pytest.mark.parametrize(
    ("make", "shape", "kind"),
    [
        (lambda: nn.LazyLinear(3), (2, 5), nn.Linear),
        (lambda: nn.LazyConv2d(4, 3), (2, 3, 5, 5), nn.Conv2d),
        (lambda: nn.LazyConvTranspose1d(4, 3), (2, 3, 5), nn.ConvTranspose1d),
        (lambda: nn.LazyBatchNorm1d(), (4, 3), nn.BatchNorm1d),
        (lambda: nn.LazyInstanceNorm2d(affine=True), (4, 3, 5, 5), nn.InstanceNorm2d),
    ],
)
def test_lazy_layers_learn_their_sizes(make, shape, kind):
    lazy, x = make(), sh.rand(*shape)
    copied = pickle.loads(pickle.dumps(copy.deepcopy(lazy)))
    assert lazy.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="shape of an uninitialized parameter"):
        lazy.weight.shape
    lazy(x).sum().backward()
    assert type(lazy) is kind and all(type(p) is nn.Parameter for p in lazy.parameters())
    copied.load_state_dict(lazy.state_dict())
    assert sh.equal(copied.eval()(x), lazy.eval()(x)) and type(copied) is kind


def test_parameters_without_a_size_refuse_to_compute() -> None:
    for make in (nn.UninitializedParameter, nn.UninitializedBuffer):
        x = make()
        for call in (
            lambda x=x: x + 1,
            lambda x=x: 1 * x,
            lambda x=x: sh.sum(x),
            lambda x=x: x[0],
            lambda x=x: x.numel(),
            lambda x=x: len(x),
            lambda x=x: F.linear(sh.ones(2, 3), x),
        ):
            with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in"):
                call()
        with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
            _ = x.shape
        assert x.dtype is sh.float32
        assert x.double().dtype is sh.float64


@pytest.mark.check
def test_lazy_layers_without_sizes_copy_pickle_and_load_one_another() -> None:
    for make in (lambda: nn.LazyLinear(3), nn.LazyBatchNorm1d):
        layer = make()
        assert copy.deepcopy(layer).has_uninitialized_params()
        assert pickle.loads(pickle.dumps(layer)).has_uninitialized_params()
        assert layer.to(sh.float64).load_state_dict(make().state_dict()) == ([], [])
        layer.requires_grad_(False)
        assert layer(sh.ones(2, 3).double()).dtype is sh.float64
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized"):
        nn.Linear(2, 3).load_state_dict(nn.LazyLinear(3).state_dict())


def test_lazy_convolutions_take_all_arguments_by_position() -> None:
    lazy = sh.nn.LazyConv2d(4, 3, 2, 1, 1, 1, False, "reflect")
    assert lazy.bias is None
    lazy(sh.ones(1, 2, 9, 9))
    assert (lazy.stride, lazy.padding, lazy.padding_mode) == ((2, 2), (1, 1), "reflect")
    turned = sh.nn.LazyConvTranspose1d(4, 3, 2, 1, 1, 2, False, 2)
    assert turned(sh.ones(1, 2, 5)).shape == (1, 4, 12)
    assert (turned.groups, turned.dilation, turned.bias) == (2, (2,), None)
