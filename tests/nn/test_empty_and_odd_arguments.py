"""Layers on empty batches, arguments in every form that torch takes, what subclasses rely on."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor import nn

Z = st.zeros

EMPTY: dict[str, tuple[Any, Any, tuple[int, ...]]] = {
    "LSTM": (lambda: nn.LSTM(3, 4), (Z(5, 0, 3),), (5, 0, 4)),
    "GRU both ways": (
        lambda: nn.GRU(3, 4, 2, batch_first=True, bidirectional=True),
        (Z(0, 5, 3),),
        (0, 5, 8),
    ),
    "RNN": (lambda: nn.RNN(3, 4), (Z(2, 0, 3),), (2, 0, 4)),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), (Z(0, 3),), (0, 4)),
    "attention": (lambda: nn.MultiheadAttention(4, 2), (Z(5, 0, 4),) * 3, (5, 0, 4)),
    "attention without queries": (
        lambda: nn.MultiheadAttention(4, 2),
        (Z(0, 2, 4), Z(5, 2, 4), Z(5, 2, 4)),
        (0, 2, 4),
    ),
    "encoder": (lambda: nn.TransformerEncoderLayer(4, 2, 8), (Z(5, 0, 4),), (5, 0, 4)),
    "decoder": (lambda: nn.TransformerDecoderLayer(4, 2, 8), (Z(5, 0, 4),) * 2, (5, 0, 4)),
    "transformer": (lambda: nn.Transformer(4, 2, 1, 1, 8), (Z(5, 0, 4),) * 2, (5, 0, 4)),
}


@pytest.mark.parametrize("name", EMPTY)
def test_empty_batches_go_through(name: str) -> None:
    make, inputs, shape = EMPTY[name]
    layer = make()
    result = layer(*inputs)
    result = result[0] if isinstance(result, tuple) else result
    assert result.shape == shape
    result.sum().backward()
    assert all(p.grad is None or not p.grad.any() for p in layer.parameters())


@pytest.mark.check
def test_attention_without_weights_takes_an_empty_batch() -> None:
    layer = nn.MultiheadAttention(4, 2)
    assert layer(*[Z(5, 0, 4)] * 3, need_weights=False)[0].shape == (5, 0, 4)


_TWO = np.int64(2)
FORMS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "Conv2d": (
        lambda: nn.Conv2d(np.int64(1), np.int64(3), np.int64(3), np.int64(1), np.int64(1)),
        (1, 1, 4, 4),
        (1, 3, 4, 4),
    ),
    "Conv2d padding": (lambda: nn.Conv2d(1, 3, 3, padding=(1,)), (1, 1, 4, 4), (1, 3, 4, 4)),
    "Conv2d Size": (lambda: nn.Conv2d(1, 3, st.Size([3, 3])), (1, 1, 4, 4), (1, 3, 2, 2)),
    "Conv1d": (lambda: nn.Conv1d(1, 3, [3]), (1, 1, 4), (1, 3, 2)),
    "ZeroPad2d": (lambda: nn.ZeroPad2d(np.int64(1)), (1, 1, 2, 2), (1, 1, 4, 4)),
    "ReflectionPad1d": (lambda: nn.ReflectionPad1d(np.int64(1)), (1, 1, 3), (1, 1, 5)),
    "MaxPool2d": (lambda: nn.MaxPool2d(_TWO), (1, 1, 4, 4), (1, 1, 2, 2)),
    "MaxPool2d tuple": (lambda: nn.MaxPool2d((2,)), (1, 1, 4, 4), (1, 1, 2, 2)),
    "AvgPool1d": (lambda: nn.AvgPool1d(_TWO, _TWO, np.int64(0)), (1, 1, 4), (1, 1, 2)),
    "AvgPool2d": (lambda: nn.AvgPool2d((2,), (2,)), (1, 1, 4, 4), (1, 1, 2, 2)),
    "LPPool1d": (lambda: nn.LPPool1d(2, _TWO), (1, 1, 4), (1, 1, 2)),
    "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d(_TWO), (1, 1, 4, 4), (1, 1, 2, 2)),
    "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d((None, 2)), (1, 1, 4, 4), (1, 1, 4, 2)),
    "Upsample": (lambda: nn.Upsample(size=np.int64(4)), (1, 1, 2, 2), (1, 1, 4, 4)),
    "LayerNorm": (lambda: nn.LayerNorm(np.int64(3)), (2, 3), (2, 3)),
    "Unfold": (lambda: nn.Unfold(_TWO), (1, 1, 4, 4), (1, 4, 9)),
}


@pytest.mark.parametrize("name", FORMS)
def test_sizes_are_taken_in_every_form(name: str) -> None:
    make, given, shape = FORMS[name]
    assert make()(Z(*given)).shape == shape


@pytest.mark.parametrize("name", ["input_size", "hidden_size"])
def test_sizes_of_recurrent_layers_are_ints(name: str) -> None:
    for value in (np.int64(4), 4.0, (4,)):
        sizes: dict[str, Any] = {"input_size": 3, "hidden_size": 4, name: value}
        with pytest.raises(TypeError, match=f"{name} should be of type int"):
            nn.LSTM(**sizes)


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
def test_options_of_recurrent_layers_are_looked_at(make: Any) -> None:
    assert len(list(make(3, 4, np.int64(2)).parameters())) == 8
    assert make(3, 4, 2, dropout=np.float32(0.5)).dropout == 0.5
    with pytest.raises(TypeError, match="'float' object cannot be interpreted as an integer"):
        make(3, 4, 2.0)
    with pytest.raises(ValueError, match="num_layers must be greater than zero"):
        make(3, 4, 0)
    with pytest.raises(TypeError, match=r"^bias should be of type bool, got: NoneType$"):
        make(3, 4, bias=None)
    with pytest.raises(TypeError, match=r"^batch_first should be of type bool, got: int$"):
        make(3, 4, batch_first=1)
    for dropout in (True, "a", 2, -0.1, 1j):
        with pytest.raises((ValueError, TypeError)):
            make(3, 4, 2, dropout=dropout)


def test_recurrent_layers_have_checks_that_subclasses_change() -> None:
    layer = nn.LSTM(3, 4, proj_size=2)
    x = Z(5, 2, 3)
    assert layer.get_expected_hidden_size(x, None) == (1, 2, 2)
    assert layer.get_expected_cell_size(x, None) == (1, 2, 4)
    layer.check_input(x, None)
    with pytest.raises(RuntimeError, match="Expected 3, got 5"):
        layer.check_input(Z(5, 2, 5), None)
    with pytest.raises(RuntimeError, match="must have 3 dimensions, got 2"):
        layer.check_input(Z(5, 3), None)
    with pytest.raises(RuntimeError, match=r"Expected hidden size \(1, 2, 4\), got \[1, 2, 5\]"):
        layer.check_hidden_size(Z(1, 2, 5), (1, 2, 4))
    h, c = st.arange(2.0).view(1, 2, 1), st.arange(2.0, 4).view(1, 2, 1)
    order = st.tensor([1, 0])
    assert [t.flatten().tolist() for t in layer.permute_hidden((h, c), order)] == [[1, 0], [3, 2]]

    class Strict(nn.GRU):
        def check_input(self, input: Any, batch_sizes: Any) -> None:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Strict(3, 4)(x)


def test_flat_weights_can_be_set() -> None:
    layer, x = nn.LSTM(3, 4), st.ones(2, 1, 3)
    before = layer(x)[0]
    layer._flat_weights = [w * 1 for w in layer._flat_weights]
    assert st.equal(layer(x)[0], before)
    layer._flat_weights = [st.zeros_like(w) for w in layer._flat_weights]
    assert not layer(x)[0].any()
    assert layer.weight_ih_l0.any()
    layer._flat_weights = [getattr(layer, name) for name in layer._flat_weights_names]
    assert st.equal(layer(x)[0], before)
    layer._flat_weights = [st.zeros_like(w) for w in layer._flat_weights]
    assert st.equal(layer.float()(x)[0], before)
    with pytest.raises(ValueError, match="expected 4 weights, got 1"):
        layer._flat_weights = [st.ones(1)]


def test_loading_into_meta_tensors_warns_unless_it_assigns() -> None:
    state = nn.Linear(2, 2).state_dict()
    with st.device("meta"):
        layer = nn.Linear(2, 2)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        layer.load_state_dict(state)
    assert [str(each.message).partition(" from")[0] for each in told] == [
        "for weight: copying",
        "for bias: copying",
    ]
    assert layer.weight.is_meta
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer.load_state_dict(state, assign=True)
    assert st.equal(layer.weight, state["weight"])
    assert layer.weight.requires_grad


def test_constants_name_attributes() -> None:
    assert nn.Linear.__constants__ == ["in_features", "out_features"]
    assert nn.LSTM.__constants__[:3] == ["mode", "input_size", "hidden_size"]
    layers = [nn.Conv2d(1, 1, 1), nn.BatchNorm1d(2), nn.GRU(1, 1), nn.MaxPool2d(2), nn.ReLU()]
    layers += [nn.Embedding(2, 2), nn.LayerNorm(2), nn.Flatten(), nn.CrossEntropyLoss()]
    for layer in layers:
        for name in layer.__constants__:
            getattr(layer, name)


def test_attention_without_weights_takes_padding_alone() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x, y = st.randn(3, 4, 8), st.randn(3, 5, 8)
    hidden = st.tensor([[False] * 5, [False, True] * 2 + [False], [True] * 4 + [False]])
    for mask in (None, st.zeros(4, 5), st.zeros(6, 4, 5)):
        options = {"key_padding_mask": hidden, "attn_mask": mask}
        alone, none = attention(x, y, y, need_weights=False, **options)
        both, _ = attention(x, y, y, **options)
        assert none is None and st.allclose(alone, both, atol=1e-6)
