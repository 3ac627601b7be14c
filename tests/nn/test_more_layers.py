"""Layers that keep options or state, containers by name, and help with parameters."""

from __future__ import annotations

import copy
import pickle

import pytest

import shmtensor as sh
from shmtensor import nn
from shmtensor.nn import functional as F


@pytest.mark.check
@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (lambda: nn.Conv1d(4, 6, 3, groups=2), "Conv1d(4, 6, kernel_size=(3,), stride=(1,), g"),
        (lambda: nn.ConvTranspose2d(4, 6, 3, 2, output_padding=1), "output_padding=(1, 1)"),
        (lambda: nn.BatchNorm2d(3), "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, b"),
        (lambda: nn.LayerNorm(3), "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=T"),
        (lambda: nn.GroupNorm(2, 4), "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)"),
        (lambda: nn.LSTM(3, 4, 2, bidirectional=True), "LSTM(3, 4, num_layers=2, bidirectional"),
        (lambda: nn.GRUCell(3, 4, bias=False), "GRUCell(3, 4, bias=False)"),
        (lambda: nn.Upsample(scale_factor=2), "Upsample(scale_factor=2.0, mode='nearest')"),
        (lambda: nn.AvgPool1d(2), "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))"),
        (lambda: nn.ConstantPad1d(2, 3.0), "ConstantPad1d(padding=(2, 2), value=3.0)"),
        (lambda: nn.ReLU6(), "ReLU6()"),
        (lambda: nn.EmbeddingBag(3, 4), "EmbeddingBag(3, 4, mode='mean')"),
    ],
)
def test_repr_names_the_options(layer, text):
    assert text in repr(layer())


def test_batch_norm_remembers_batches():
    layer = nn.BatchNorm1d(2)
    x = sh.tensor([[1.0, 2.0], [3.0, 6.0]])
    layer(x)
    assert int(layer.num_batches_tracked) == 1
    assert layer.running_mean.tolist() == pytest.approx([0.2, 0.4])
    assert layer.running_var.tolist() == pytest.approx([0.9 + 0.1 * 2, 0.9 + 0.1 * 8])
    layer.eval()
    expected = (x - layer.running_mean) / (layer.running_var + layer.eps).sqrt()
    assert sh.allclose(layer(x), expected)
    assert list(layer.state_dict()) == [
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]
    mean = nn.BatchNorm1d(2, momentum=None, affine=False)
    mean(x)
    mean(x + 2)
    assert mean.running_mean.tolist() == pytest.approx([3.0, 5.0])
    with pytest.raises(ValueError, match="expected 2D or 3D input"):
        layer(sh.ones(2))


def test_convolutions_keep_or_reach_sizes():
    x = sh.rand(2, 4, 7)
    assert nn.Conv1d(4, 6, 3, padding="same", padding_mode="circular")(x).shape == (2, 6, 7)
    up = nn.ConvTranspose1d(4, 6, 3, stride=2)
    assert up(x).shape == (2, 6, 15)
    assert up(x, output_size=[16]).shape == (2, 6, 16)
    with pytest.raises(ValueError, match=r"valid sizes range from \[15\] to \[16\]"):
        up(x, output_size=[17])
    assert nn.Conv3d(1, 2, 2)(sh.rand(1, 3, 3, 3)).shape == (2, 2, 2, 2)


def test_dropouts_drop_whole_channels():
    x = sh.ones(50, 4, 3, 3)
    for layer in (nn.Dropout2d(0.5), nn.FeatureAlphaDropout(0.5)):
        values = layer(x).flatten(2)
        assert sh.equal(values.amax(2), values.amin(2))
        assert values.unique().numel() == 2
        assert layer.eval()(x) is x
    kept = nn.AlphaDropout(0.2)(sh.zeros(20000))
    assert abs(float(kept.mean())) < 0.05


def test_module_dict_and_parameter_dict():
    modules = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Linear(2, 3)})
    modules.update([("c", nn.Tanh())])
    assert list(modules) == ["a", "b", "c"] and "b" in modules and len(modules) == 3
    assert [n for n, _ in modules.named_parameters()] == ["b.weight", "b.bias"]
    assert isinstance(modules.pop("a"), nn.ReLU) and "a" not in modules
    with pytest.raises(ValueError, match="has length 1; 2 is required"):
        modules.update([("x",)])
    parameters = nn.ParameterDict({"w": sh.ones(2), "note": "text"})
    assert isinstance(parameters["w"], nn.Parameter) and parameters.get("v", 7) == 7
    assert [n for n, _ in parameters.named_parameters()] == ["w"]
    assert list((parameters | nn.ParameterDict({"v": sh.ones(1)})).keys()) == ["w", "note", "v"]
    with pytest.raises(KeyError):
        parameters["v"]


def test_clipping_limits_norm_and_values():
    a, b = nn.Parameter(sh.zeros(2)), nn.Parameter(sh.zeros(1))
    a.grad, b.grad = sh.tensor([3.0, 0.0]), sh.tensor([4.0])
    assert float(nn.utils.clip_grad_norm_([a, b], 1.0)) == 5.0
    assert a.grad.tolist() == pytest.approx([0.6, 0.0], rel=1e-5)
    nn.utils.clip_grad_value_([a, b], 0.5)
    assert a.grad.tolist() == [0.5, 0.0] and b.grad.tolist() == [0.5]
    a.grad.fill_(float("nan"))
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_([a], 1.0, error_if_nonfinite=True)


@pytest.mark.check
def test_parameters_as_a_vector():
    layer = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(sh.arange(9.0), layer.parameters())
    assert layer.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and layer.bias.tolist() == [6, 7, 8]


def test_initial_values():
    tall = nn.init.orthogonal_(sh.empty(5, 3, dtype=sh.float64))
    assert sh.allclose(tall.t() @ tall, sh.eye(3, dtype=sh.float64))
    wide = nn.init.orthogonal_(sh.empty(3, 5, dtype=sh.float64), gain=2)
    assert sh.allclose(wide @ wide.t(), 4 * sh.eye(3, dtype=sh.float64))
    cut = nn.init.trunc_normal_(sh.empty(4000), std=2.0, a=-1.0, b=3.0)
    assert -1 <= float(cut.min()) < -0.9 and 2.9 < float(cut.max()) <= 3
    assert (nn.init.sparse_(sh.empty(10, 4), 0.3) == 0).sum(0).tolist() == [3, 3, 3, 3]


def test_margin_and_sequence_losses_as_layers():
    x, y = sh.rand(3, 4), sh.tensor([1, 2, 3])
    assert float(nn.MultiMarginLoss()(x, y)) == float(F.multi_margin_loss(x, y))
    logs = sh.rand(5, 2, 4).log_softmax(2)
    args = (sh.tensor([[1, 2], [3, 3]]), [5, 5], [2, 2])
    assert float(nn.CTCLoss()(logs, *args)) == float(F.ctc_loss(logs, *args))
    pooled, where = nn.MaxPool2d(2, return_indices=True)(sh.rand(1, 4, 4))
    assert nn.MaxUnpool2d(2)(pooled, where).shape == (1, 4, 4)
    blocks = nn.Unfold(2, stride=2)(sh.ones(1, 1, 4, 4))
    assert sh.equal(nn.Fold((4, 4), 2, stride=2)(blocks), sh.ones(1, 1, 4, 4))


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
