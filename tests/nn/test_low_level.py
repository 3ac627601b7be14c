"""Layers and losses in the namespace itself: equal to the modules and functions people use.

Values of those are in the tests of modules and functions.
"""

from __future__ import annotations

import pytest

import shmtensor as T
from shmtensor import nn
from shmtensor.nn import functional as F


def _layer(kind: str, **options: object) -> nn.Module:
    T.manual_seed(0)
    return getattr(nn, kind)(3, 4, num_layers=2, **options)


def _flat(layer: nn.Module) -> list[T.Tensor]:
    return [p for part in layer.all_weights for p in part]  # type: ignore[union-attr]


@pytest.mark.check
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_layers_are_the_modules(bias: bool, bidirectional: bool, batch_first: bool) -> None:
    x = T.arange(30.0).reshape(5, 2, 3) / 30
    rows = 4 if bidirectional else 2
    batch = 5 if batch_first else 2
    h = T.full((rows, batch, 4), 0.25)
    options = {"bias": bias, "bidirectional": bidirectional, "batch_first": batch_first}
    flags = (bias, 2, 0.0, False, bidirectional, batch_first)
    for kind, function in (("GRU", T.gru), ("RNN", T.rnn_tanh)):
        layer = _layer(kind, **options)
        expected = layer(x, h)
        got = function(x, h, _flat(layer), *flags)
        for a, b in zip(got, expected, strict=True):
            assert T.equal(a, b)
    layer = _layer("LSTM", **options)
    output, (last_h, last_c) = layer(x, (h, h * 2))
    got = T.lstm(x, (h, h * 2), _flat(layer), *flags)
    for a, b in zip(got, (output, last_h, last_c), strict=True):
        assert T.equal(a, b)


def test_packed_sequences_are_walked_by_their_sizes() -> None:
    layer = _layer("GRU")
    data, sizes = T.arange(15.0).reshape(5, 3) / 15, T.tensor([2, 2, 1])
    packed = nn.utils.rnn.PackedSequence(data, sizes)
    h = T.zeros(2, 2, 4)
    expected, last = layer(packed, h)
    output, state = T.gru(data, sizes, h, _flat(layer), True, 2, 0.0, False, False)
    assert T.equal(output, expected.data) and T.equal(state, last)


def test_a_wrong_number_of_weights_is_an_error() -> None:
    layer = _layer("GRU")
    with pytest.raises(RuntimeError, match="Expected 8 weights of 2 runs, got 7"):
        T.gru(
            T.ones(1, 1, 3), T.zeros(2, 1, 4), _flat(layer)[:-1], True, 2, 0.0, False, False, False
        )


def test_cells_are_the_modules() -> None:
    x, h, c = T.ones(2, 3), T.full((2, 4), 0.5), T.full((2, 4), -0.5)
    for kind, function in (("GRUCell", T.gru_cell), ("RNNCell", T.rnn_tanh_cell)):
        cell = getattr(nn, kind)(3, 4)
        weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
        assert T.equal(function(x, h, *weights), cell(x, h))
    cell = nn.RNNCell(3, 4, bias=False, nonlinearity="relu")
    assert T.equal(T.rnn_relu_cell(x, h, cell.weight_ih, cell.weight_hh), cell(x, h))
    cell = nn.LSTMCell(3, 4)
    weights = cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh
    for a, b in zip(T.lstm_cell(x, (h, c), *weights), cell(x, (h, c)), strict=True):
        assert T.equal(a, b)
    with pytest.raises(RuntimeError, match="two hidden states"):
        T.lstm_cell(x, (h,), *weights)


def test_recurrent_functions_say_which_argument_is_no_tensor() -> None:
    x, h, w = T.ones(1, 2), T.ones(1, 3), T.ones(9, 2)
    with pytest.raises(TypeError, match=r"gru_cell\(\): argument 'w_hh' \(position 4\) must be"):
        T.gru_cell(x, h, w, None)
    with pytest.raises(TypeError, match=r"argument 'hx' .* must be tuple of Tensors, not Tensor"):
        T.lstm_cell(x, h, w, w)
    with pytest.raises(TypeError, match=r"argument 'negative' .* must be Tensor, not int"):
        nn.functional.triplet_margin_loss(x, x, 7)
    with pytest.raises(TypeError, match="found element of type NoneType at pos 0"):
        T.gru(x[None], h[None], [None] * 4, True, 1, 0.0, False, False, False)


@pytest.mark.check
def test_losses_take_the_reduction_as_a_code() -> None:
    a, b, y = T.tensor([[1.0, 2.0]]), T.tensor([[2.0, 0.5]]), T.tensor([-1.0])
    for code, name in enumerate(("none", "mean", "sum")):
        assert T.equal(
            T.cosine_embedding_loss(a, b, y, 0.1, code),
            F.cosine_embedding_loss(a, b, y, 0.1, reduction=name),
        )
        assert T.equal(
            T.margin_ranking_loss(a[0], b[0], y, 0.1, code),
            F.margin_ranking_loss(a[0], b[0], y, 0.1, reduction=name),
        )
        assert T.equal(
            T.hinge_embedding_loss(a, y, 1.0, code),
            F.hinge_embedding_loss(a, y, 1.0, reduction=name),
        )
        assert T.equal(
            T.poisson_nll_loss(a, b, True, False, 1e-8, code),
            F.poisson_nll_loss(a, b, reduction=name),
        )
        assert T.equal(
            T.triplet_margin_loss(a, b, a * 2, reduction=code),
            F.triplet_margin_loss(a, b, a * 2, reduction=name),
        )
    log_probs = T.zeros(4, 1, 3).log_softmax(2)
    lengths = T.tensor([[1, 2]]), T.tensor([4]), T.tensor([2])
    assert T.equal(T.ctc_loss(log_probs, *lengths, 0, 2), F.ctc_loss(log_probs, *lengths, 0, "sum"))
    with pytest.raises(ValueError, match="7 is not a valid value"):
        T.hinge_embedding_loss(a, y, 1.0, 7)


def test_rows_that_are_too_long_are_shortened_in_place() -> None:
    weight = T.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]])
    assert T.embedding_renorm_(weight, T.tensor([0, 1, 0]), 1.0, 2.0) is weight
    assert T.allclose(weight, T.tensor([[0.6, 0.8], [0.3, 0.4], [6.0, 8.0]]))


def test_norm_of_all_dims_but_one() -> None:
    v = T.tensor([[3.0, 4.0], [6.0, 8.0]])
    assert T.norm_except_dim(v, 2, 0).tolist() == [[5.0], [10.0]]
    assert T.norm_except_dim(v, 1, 1).tolist() == [[9.0, 12.0]]
    assert T.norm_except_dim(v, 2, -1).item() == pytest.approx(125**0.5)


def test_samplers_know_their_dimensions() -> None:
    image, grid = T.arange(4.0).reshape(1, 1, 2, 2), T.zeros(1, 1, 1, 2)
    assert T.grid_sampler_2d(image, grid, 0, 0, True).item() == 1.5
    volume, points = T.arange(8.0).reshape(1, 1, 2, 2, 2), T.zeros(1, 1, 1, 1, 3)
    assert T.grid_sampler_3d(volume, points, 0, 0, True).item() == 3.5
    with pytest.raises(RuntimeError, match="5 dimensions"):
        T.grid_sampler_3d(image, grid, 0, 0, True)


def test_pooling_with_indices() -> None:
    values, indices = T.max_pool1d_with_indices(T.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    assert values.tolist() == [[[3.0, 2.0]]]
    assert indices.tolist() == [[[1, 2]]]


def test_affine_grid_and_dropouts_in_place() -> None:
    theta = T.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    assert T.equal(
        T.affine_grid_generator(theta, [1, 1, 2, 2], True), F.affine_grid(theta, [1, 1, 2, 2], True)
    )
    x = T.ones(3, 4)
    assert T.alpha_dropout_(x, 0.5, False) is x
    assert T.feature_alpha_dropout_(x, 0.5, False) is x
    assert x.tolist() == T.ones(3, 4).tolist()
