"""Layers, losses and padding against hand-computed values; the operators have their own tests."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest

import shmtensor
from shmtensor import nn
from shmtensor.nn import functional as F


def image(*shape: int) -> shmtensor.Tensor:
    return shmtensor.arange(float(math.prod(shape))).reshape(*shape)


@pytest.mark.check
def test_linear_multiplies_and_adds():
    layer = nn.Linear(2, 3)
    with shmtensor.no_grad():
        layer.weight.copy_(shmtensor.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
        layer.bias.copy_(shmtensor.tensor([0.5, 0.0, -0.5]))
    assert layer(shmtensor.tensor([[1.0, 10.0]])).tolist() == [[21.5, 43.0, 64.5]]
    assert nn.Linear(2, 3, bias=False).bias is None


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (
            lambda: nn.Conv2d(1, 2, 3, padding=1),
            "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))",
        ),
        (
            lambda: nn.Conv2d(2, 4, (3, 2), stride=2, dilation=2, groups=2, bias=False),
            "Conv2d(2, 4, kernel_size=(3, 2), stride=(2, 2), dilation=(2, 2), groups=2, "
            "bias=False)",
        ),
        (
            lambda: nn.MaxPool2d(2),
            "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
        ),
        (lambda: nn.Dropout(0.3), "Dropout(p=0.3, inplace=False)"),
        (lambda: nn.Embedding(3, 4, padding_idx=-3), "Embedding(3, 4, padding_idx=0)"),
        (lambda: nn.GELU(), "GELU(approximate='none')"),
        (lambda: nn.Flatten(), "Flatten(start_dim=1, end_dim=-1)"),
        (lambda: nn.CrossEntropyLoss(), "CrossEntropyLoss()"),
        (lambda: nn.Softmax(1), "Softmax(dim=1)"),
        (lambda: nn.ReLU(inplace=True), "ReLU(inplace=True)"),
        (
            lambda: nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()]),
            "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)",
        ),
        (
            lambda: nn.Conv1d(4, 6, 3, groups=2),
            "Conv1d(4, 6, kernel_size=(3,), stride=(1,), groups=2)",
        ),
        (
            lambda: nn.ConvTranspose2d(4, 6, 3, 2, output_padding=1),
            "ConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))",
        ),
        (
            lambda: nn.BatchNorm2d(3),
            "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, "
            "track_running_stats=True)",
        ),
        (lambda: nn.LayerNorm(3), "LayerNorm((3,), eps=1e-05, elementwise_affine=True, bias=True)"),
        (lambda: nn.GroupNorm(2, 4), "GroupNorm(2, 4, eps=1e-05, affine=True, bias=True)"),
        (
            lambda: nn.LSTM(3, 4, 2, bidirectional=True),
            "LSTM(3, 4, num_layers=2, bidirectional=True)",
        ),
        (lambda: nn.GRUCell(3, 4, bias=False), "GRUCell(3, 4, bias=False)"),
        (lambda: nn.Upsample(scale_factor=2), "Upsample(scale_factor=2.0, mode='nearest')"),
        (lambda: nn.AvgPool1d(2), "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))"),
        (lambda: nn.ConstantPad1d(2, 3.0), "ConstantPad1d(padding=(2, 2), value=3.0)"),
        (lambda: nn.ReLU6(), "ReLU6()"),
        (lambda: nn.EmbeddingBag(3, 4), "EmbeddingBag(3, 4, mode='mean')"),
    ],
)
def test_repr_names_the_options(layer, text):
    assert repr(layer()) == text


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "in_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 3, 3, groups=2), "out_channels must be divisible by groups"),
        (lambda: nn.Conv2d(4, 4, 3, groups=0), "groups must be a positive integer"),
        (lambda: nn.Conv2d(4, 4, 3, padding="x"), "Invalid padding string 'x'"),
        (lambda: nn.Conv2d(4, 4, 3, padding="same", stride=2), "not supported for strided"),
        (lambda: nn.Conv2d(4, 4, 3, padding_mode="x"), "got padding_mode='x'"),
        (lambda: nn.Dropout(2.0), "between 0 and 1, but got 2.0"),
        (
            lambda: nn.CrossEntropyLoss(reduction="x")(shmtensor.ones(1, 2), shmtensor.tensor([0])),
            "x is not a valid value for reduction",
        ),
    ],
)
def test_bad_options_are_value_errors(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_conv2d_sums_windows():
    layer = nn.Conv2d(1, 1, 2, bias=False)
    nn.init.ones_(layer.weight)
    assert layer(image(1, 1, 3, 3)).flatten().tolist() == [8.0, 12.0, 20.0, 24.0]
    assert layer(image(1, 3, 3)).shape == (1, 2, 2)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
def test_conv2d_same_keeps_the_size(mode):
    layer = nn.Conv2d(1, 2, 3, padding="same", padding_mode=mode)
    assert layer(image(1, 1, 5, 4)).shape == (1, 2, 5, 4)


def test_conv2d_same_puts_the_odd_zero_at_the_end():
    out = F.conv2d(image(1, 1, 4, 4), shmtensor.ones(1, 1, 2, 2), padding="same")
    assert out.flatten().tolist() == [
        *(10.0, 14.0, 18.0, 10.0),
        *(26.0, 30.0, 34.0, 18.0),
        *(42.0, 46.0, 50.0, 26.0),
        *(25.0, 27.0, 29.0, 15.0),
    ]


def test_pooling_takes_windows():
    x = image(1, 1, 4, 4)
    assert nn.MaxPool2d(2)(x).flatten().tolist() == [5.0, 7.0, 13.0, 15.0]
    assert nn.AvgPool2d(2)(x).flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    values, indices = nn.MaxPool2d(2, return_indices=True)(x)
    assert indices.flatten().tolist() == [5, 7, 13, 15]
    assert values.shape == (1, 1, 2, 2)


@pytest.mark.parametrize(
    ("mode", "pad", "row"),
    [
        ("reflect", [1, 2], [1.0, 0.0, 1.0, 2.0, 3.0, 2.0, 1.0]),
        ("replicate", [2, 1], [0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 3.0]),
        ("circular", [1, 3], [3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0]),
        ("circular", [2, -1], [1.0, 2.0, 0.0, 1.0, 2.0]),
        ("constant", [1, -1], [0.0, 0.0, 1.0, 2.0]),
    ],
)
def test_pad_takes_values_from_the_right_places(mode, pad, row):
    assert F.pad(image(1, 1, 4), pad, mode=mode)[0, 0].tolist() == row


@pytest.mark.parametrize(
    ("mode", "name"), [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")]
)
@pytest.mark.parametrize("pad", [(1, 2), (2, 1, 0, 3), (35, 36), (1, 1, 30, 2), (0, 0, 1, 0)])
@pytest.mark.parametrize("turned", [False, True])
def test_pad_of_images_equals_numpy(mode, name, pad, turned):
    x = image(2, 3, 40, 37) if len(pad) == 4 else image(6, 40, 37)
    x = x.mT.contiguous().mT if turned else x
    widths = [(0, 0)] * x.dim()
    for i in range(len(pad) // 2):
        widths[-1 - i] = pad[2 * i : 2 * i + 2]
    assert (F.pad(x, pad, mode=mode).numpy() == np.pad(x.numpy(), widths, name)).all()


def test_pad_has_gradients():
    x = shmtensor.ones(1, 3, requires_grad=True)
    F.pad(x, [1, 1], mode="replicate").sum().backward()
    assert x.grad.tolist() == [[2.0, 1.0, 2.0]]


def test_pad_refuses_what_does_not_fit():
    with pytest.raises(RuntimeError, match="divisible by 2, got 3"):
        F.pad(image(4), [1, 1, 1])
    with pytest.raises(RuntimeError, match="less than the corresponding input dimension"):
        F.pad(image(1, 2), [2, 0], mode="reflect")


def test_dropout_scales_in_training_and_does_nothing_otherwise():
    shmtensor.manual_seed(0)
    layer = nn.Dropout(0.5)
    out = layer(shmtensor.ones(1000))
    assert set(out.tolist()) == {0.0, 2.0}
    assert 400 < sum(v == 0 for v in out.tolist()) < 600
    assert layer.eval()(shmtensor.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_embedding_takes_rows_and_spares_the_padding():
    layer = nn.Embedding(3, 2, padding_idx=1)
    assert layer.weight[1].tolist() == [0.0, 0.0]
    layer(shmtensor.tensor([[0, 1], [2, 0]])).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]
    rows = shmtensor.ones(2, 2)
    assert nn.Embedding.from_pretrained(rows)(shmtensor.tensor([1])).tolist() == [[1.0, 1.0]]


def test_embedding_max_norm_shortens_rows_in_place():
    weight = shmtensor.tensor([[3.0, 4.0], [0.3, 0.4], [30.0, 40.0]])
    out = F.embedding(shmtensor.tensor([0, 1]), weight, max_norm=1.0)
    assert out.tolist()[0] == pytest.approx([0.6, 0.8], rel=1e-5)
    assert weight[1].tolist() == pytest.approx([0.3, 0.4])
    assert weight[2].tolist() == [30.0, 40.0]


@pytest.mark.check
def test_cross_entropy_is_log_softmax_and_nll():
    scores = shmtensor.tensor([[1.0, 2.0, 3.0], [1.0, 0.0, 0.0]])
    target = shmtensor.tensor([2, 0])
    expected = [
        math.log(sum(map(math.exp, (1, 2, 3)))) - 3,
        math.log(math.e + 2) - 1,
    ]
    loss = nn.CrossEntropyLoss()(scores, target)
    assert loss.item() == pytest.approx(sum(expected) / 2, rel=1e-6)
    terms = nn.CrossEntropyLoss(reduction="none")(scores, target)
    assert terms.tolist() == pytest.approx(expected, rel=1e-6)
    assert nn.NLLLoss()(nn.LogSoftmax(1)(scores), target).item() == pytest.approx(loss.item())


def test_cross_entropy_honours_weight_and_ignored_class():
    scores = shmtensor.zeros(3, 2)
    target = shmtensor.tensor([0, 1, -100])
    weight = shmtensor.tensor([1.0, 3.0])
    assert F.cross_entropy(scores, target, weight=weight).item() == pytest.approx(math.log(2))
    total = F.cross_entropy(scores, target, weight=weight, reduction="sum").item()
    assert total == pytest.approx(4 * math.log(2))


def test_mse_loss_reduces_and_warns_about_shapes():
    a, b = shmtensor.tensor([1.0, 2.0]), shmtensor.tensor([3.0, 5.0])
    assert nn.MSELoss()(a, b).item() == 6.5
    assert F.mse_loss(a, b, reduction="sum").item() == 13.0
    assert F.mse_loss(a, b, reduction="none").tolist() == [4.0, 9.0]
    with pytest.warns(UserWarning, match="different to the input size"):
        F.mse_loss(a, shmtensor.zeros(2, 2))


def test_activations_have_their_values():
    x = shmtensor.tensor([-1.0, 0.0, 2.0])
    assert nn.ReLU()(x).tolist() == [0.0, 0.0, 2.0]
    assert nn.LeakyReLU(0.5)(x).tolist() == [-0.5, 0.0, 2.0]
    assert nn.Tanh()(x).tolist() == pytest.approx([math.tanh(v) for v in (-1, 0, 2)])
    assert nn.Sigmoid()(x).tolist() == pytest.approx([1 / (1 + math.exp(-v)) for v in (-1, 0, 2)])
    gelu = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in (-1, 0, 2)]
    assert nn.GELU()(x).tolist() == pytest.approx(gelu, rel=1e-5)
    assert nn.Softmax(0)(x).sum().item() == pytest.approx(1.0)
    assert nn.ReLU(inplace=True)(x) is x


def test_one_hot_marks_the_class():
    assert F.one_hot(shmtensor.tensor([0, 2])).tolist() == [[1, 0, 0], [0, 0, 1]]
    with pytest.raises(RuntimeError, match="non-negative"):
        F.one_hot(shmtensor.tensor([-1]))


def test_flatten_and_unflatten_are_inverse():
    x = image(2, 3, 4)
    flat = nn.Flatten()(x)
    assert flat.shape == (2, 12)
    assert nn.Unflatten(1, (3, 4))(flat).tolist() == x.tolist()


def test_losses_on_two_tensors_have_their_formulas():
    a, b = shmtensor.tensor([0.2, 0.9]), shmtensor.tensor([1.0, 0.4])
    d = [0.8, 0.5]
    assert nn.L1Loss(reduction="sum")(a, b).item() == pytest.approx(1.3)
    assert nn.SmoothL1Loss(beta=0.6)(a, b).item() == pytest.approx(
        ((d[0] - 0.3) + d[1] ** 2 / 1.2) / 2
    )
    assert nn.HuberLoss(delta=0.6)(a, b).item() == pytest.approx(
        (0.6 * (d[0] - 0.3) + d[1] ** 2 / 2) / 2
    )
    bce = [-math.log(0.2), -(0.4 * math.log(0.9) + 0.6 * math.log(0.1))]
    assert nn.BCELoss(reduction="none")(a, b).tolist() == pytest.approx(bce, rel=1e-5)
    logits = shmtensor.tensor([math.log(0.2 / 0.8), math.log(0.9 / 0.1)])
    loss = nn.BCEWithLogitsLoss(reduction="none")(logits, b)
    assert loss.tolist() == pytest.approx(bce, rel=1e-5)
    kl = nn.KLDivLoss(reduction="batchmean")(a.log(), b)
    assert kl.item() == pytest.approx((math.log(1 / 0.2) + 0.4 * math.log(0.4 / 0.9)) / 2, rel=1e-5)
    signs = shmtensor.tensor([1.0, -1.0])
    margin = [math.log1p(math.exp(-0.2)), math.log1p(math.exp(0.9))]
    loss = nn.SoftMarginLoss(reduction="none")(a, signs)
    assert loss.tolist() == pytest.approx(margin, rel=1e-5)


def test_losses_honour_element_weights_and_refuse_shapes():
    a, b = shmtensor.tensor([1.0, 2.0]), shmtensor.tensor([3.0, 5.0])
    weight = shmtensor.tensor([1.0, 3.0])
    assert F.mse_loss(a, b, weight=weight).item() == pytest.approx(31 / 4)
    assert F.l1_loss(a, b, weight=weight, reduction="sum").item() == 11.0
    with pytest.raises(ValueError, match="is deprecated"):
        F.binary_cross_entropy(a, shmtensor.zeros(3))
    with pytest.raises(ValueError, match="must be the same as input size"):
        F.binary_cross_entropy_with_logits(a, shmtensor.zeros(3))


def test_skip_init_makes_memory_and_no_values() -> None:
    layer = nn.utils.skip_init(nn.Linear, 3, out_features=2, dtype=shmtensor.float64)
    assert layer.weight.shape == (2, 3)
    assert layer.weight.device.type == "cpu"
    assert layer.weight.requires_grad
    assert layer.bias.dtype is shmtensor.float64
    with pytest.raises(RuntimeError, match="must support a 'device' arg"):
        nn.utils.skip_init(nn.Flatten)
    with pytest.raises(RuntimeError, match="Expected a Module"):
        nn.utils.skip_init(int)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("make", "name", "format"),
    [
        (lambda: nn.Conv2d(3, 4, 3), "conv2d", "channels_last"),
        (lambda: nn.ConvTranspose2d(3, 4, 3), "conv2d", "channels_last"),
        (lambda: nn.Conv2d(1, 1, 3), "conv2d", "channels_last"),
        (lambda: nn.Conv3d(3, 4, 3), "conv3d", "channels_last_3d"),
    ],
)
def test_weights_of_convolutions_are_laid_out_alone(make, name, format):
    model = nn.Sequential(make(), nn.Sequential(make(), nn.Bilinear(2, 3, 4)))
    before = [p.detach().clone() for p in model.parameters()]
    convert = getattr(nn.utils, f"convert_{name}_weight_memory_format")
    assert convert(model, getattr(shmtensor, format)) is model
    for layer in (model[0], model[1][0]):
        expected = shmtensor.empty(
            layer.weight.shape, memory_format=getattr(shmtensor, format)
        ).stride()
        assert layer.weight.stride() == expected
    assert all(p.equal(b) for p, b in zip(model.parameters(), before, strict=True))


def test_old_spellings_of_layers_warn():
    with pytest.warns(FutureWarning, match="min_val"):
        assert nn.Hardtanh(min_value=-2, max_val=3).min_val == -2
    with pytest.warns(FutureWarning, match="max_val"):
        assert nn.Hardtanh(max_value=3).max_val == 3
    with pytest.warns(FutureWarning, match="NLLLoss"):
        assert isinstance(nn.NLLLoss2d(), nn.NLLLoss)
    with pytest.warns(FutureWarning, match="use kwargs"):
        assert list(nn.Linear(1, 1).state_dict({}, "x.")) == ["x.weight", "x.bias"]
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        nn.utils.clip_grad_norm(nn.Linear(1, 1).parameters(), 1.0)
    with pytest.raises(RuntimeError, match="should not be called"):
        nn.ParameterList([])()


def test_gradcheck_warns_of_single_precision():
    x = shmtensor.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="double precision"):
        shmtensor.autograd.gradcheck(lambda x: x * 2, x, eps=1e-2, atol=1e-2)


def test_batch_norm_remembers_batches():
    layer = nn.BatchNorm1d(2)
    x = shmtensor.tensor([[1.0, 2.0], [3.0, 6.0]])
    layer(x)
    assert int(layer.num_batches_tracked) == 1
    assert layer.running_mean.tolist() == pytest.approx([0.2, 0.4])
    assert layer.running_var.tolist() == pytest.approx([0.9 + 0.1 * 2, 0.9 + 0.1 * 8])
    layer.eval()
    expected = (x - layer.running_mean) / (layer.running_var + layer.eps).sqrt()
    assert shmtensor.allclose(layer(x), expected)
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
        layer(shmtensor.ones(2))


def test_convolutions_keep_or_reach_sizes():
    x = shmtensor.rand(2, 4, 7)
    assert nn.Conv1d(4, 6, 3, padding="same", padding_mode="circular")(x).shape == (2, 6, 7)
    up = nn.ConvTranspose1d(4, 6, 3, stride=2)
    assert up(x).shape == (2, 6, 15)
    assert up(x, output_size=[16]).shape == (2, 6, 16)
    with pytest.raises(ValueError, match=r"valid sizes range from \[15\] to \[16\]"):
        up(x, output_size=[17])
    assert nn.Conv3d(1, 2, 2)(shmtensor.rand(1, 3, 3, 3)).shape == (2, 2, 2, 2)


def test_dropouts_drop_whole_channels():
    x = shmtensor.ones(50, 4, 3, 3)
    for layer in (nn.Dropout2d(0.5), nn.FeatureAlphaDropout(0.5)):
        values = layer(x).flatten(2)
        assert shmtensor.equal(values.amax(2), values.amin(2))
        assert values.unique().numel() == 2
        assert layer.eval()(x) is x
    kept = nn.AlphaDropout(0.2)(shmtensor.zeros(20000))
    assert abs(float(kept.mean())) < 0.05


def test_dropout3d_of_other_dimensions_has_its_channels_first():
    for shape in ((200,), (200, 9), (200, 3, 3), (200, 3, 3, 3)):
        x = shmtensor.ones(shape)
        with (
            contextlib.nullcontext()
            if len(shape) == 4
            else pytest.warns(UserWarning, match=f"dropout3d: .* {len(shape)}-D input")
        ):
            values = F.dropout3d(x, 0.5).reshape(200, -1)
        assert shmtensor.equal(values.amax(1), values.amin(1))
        assert values.unique().tolist() == [0, 2]
    values = F.dropout3d(shmtensor.ones(40, 5, 2, 2, 2), 0.5).flatten(2)
    assert shmtensor.equal(values.amax(2), values.amin(2))


@pytest.mark.parametrize("p", [-1.0, 2.0, float("nan")])
def test_probabilities_of_dropouts_are_checked_also_out_of_training(p):
    x = shmtensor.ones(2, 3)
    text = f"dropout probability has to be between 0 and 1, but got {p:g}"
    for name in ("alpha_dropout", "feature_alpha_dropout", "dropout", "feature_dropout"):
        for function in (getattr(shmtensor, name), getattr(shmtensor, f"{name}_")):
            for training in (True, False):
                with pytest.raises(RuntimeError, match=text):
                    function(x, p, training)
    for function in (F.alpha_dropout, F.feature_alpha_dropout, F.dropout):
        with pytest.raises(RuntimeError if p != p else ValueError, match="between 0 and 1"):
            function(x, p, training=False)


def test_channels_are_asked_for_where_some_are_kept():
    x = shmtensor.ones(3)
    for function in (shmtensor.feature_dropout, shmtensor.feature_alpha_dropout):
        assert function(x, 1.0, True).tolist() == [0, 0, 0]
        assert function(x, 0.0, True) is x
        assert function(x, 0.5, False) is x
        with pytest.raises(RuntimeError, match="at least 2 dimensions"):
            function(x, 0.5, True)
    assert shmtensor.feature_dropout_(x, 1.0, True) is x
    assert x.tolist() == [0, 0, 0]


def test_margin_and_sequence_losses_as_layers():
    x, y = shmtensor.rand(3, 4), shmtensor.tensor([1, 2, 3])
    assert float(nn.MultiMarginLoss()(x, y)) == float(F.multi_margin_loss(x, y))
    logs = shmtensor.rand(5, 2, 4).log_softmax(2)
    args = (shmtensor.tensor([[1, 2], [3, 3]]), [5, 5], [2, 2])
    assert float(nn.CTCLoss()(logs, *args)) == float(F.ctc_loss(logs, *args))
    pooled, where = nn.MaxPool2d(2, return_indices=True)(shmtensor.rand(1, 4, 4))
    assert nn.MaxUnpool2d(2)(pooled, where).shape == (1, 4, 4)
    blocks = nn.Unfold(2, stride=2)(shmtensor.ones(1, 1, 4, 4))
    assert shmtensor.equal(nn.Fold((4, 4), 2, stride=2)(blocks), shmtensor.ones(1, 1, 4, 4))


def test_attention_with_the_causal_hint_does_not_read_its_mask():
    """As torch: where no weights are wanted and no key is hidden, the hint stands for the mask."""
    layer = nn.MultiheadAttention(4, 2)
    x, query = shmtensor.randn(3, 1, 4), shmtensor.randn(2, 1, 4)
    for q in (x, query):
        nothing = shmtensor.zeros(q.size(0), 3, dtype=shmtensor.bool)
        later = shmtensor.ones(q.size(0), 3).triu(1) > 0
        hinted = layer(q, x, x, attn_mask=nothing, is_causal=True, need_weights=False)[0]
        shmtensor.testing.assert_close(hinted, layer(q, x, x, attn_mask=later)[0])
    read = layer(x, x, x, attn_mask=shmtensor.zeros(3, 3, dtype=shmtensor.bool), is_causal=True)[0]
    shmtensor.testing.assert_close(read, layer(x, x, x)[0])
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        layer(x, x, x, is_causal=True)
