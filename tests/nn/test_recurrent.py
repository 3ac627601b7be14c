"""Recurrent layers, packed sequences, attention and transformers against NumPy."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import shmtensor as sh
from shmtensor import nn
from shmtensor.nn import functional as F
from shmtensor.nn.utils import parametrizations, parametrize, prune, rnn

rng = np.random.default_rng(3)


def draw(*shape: int) -> sh.Tensor:
    return sh.tensor(rng.normal(size=shape).tolist(), dtype=sh.float64)


def close(result: sh.Tensor, expected, tolerance: float = 1e-10) -> None:
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(mode, x, state, weights):
    """One step of one sequence in NumPy; state and weights are lists of arrays."""
    wi, wh, bi, bh = weights
    a, b = wi @ x + bi, wh @ state[0] + bh
    if mode == "LSTM":
        i, f, g, o = np.split(a + b, 4)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(c), c]
    if mode == "GRU":
        (ar, az, an), (br, bz, bn) = np.split(a, 3), np.split(b, 3)
        z = sigmoid(az + bz)
        return [(1 - z) * np.tanh(an + sigmoid(ar + br) * bn) + z * state[0]]
    return [np.tanh(a + b)]


def run(mode, layer, sequence, states):
    """All layers and directions over one sequence; gives the outputs and the last states."""
    outputs, ends = sequence, []
    k = 0
    for level in range(layer.num_layers):
        sides = []
        for suffix in layer._suffixes(level):
            names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            weights = [getattr(layer, n + suffix).detach().numpy() for n in names]
            state, line = [s[k] for s in states], []
            for x in outputs[::-1] if suffix.endswith("reverse") else outputs:
                state = step(mode, x, state, weights)
                line.append(state[0])
            sides.append(line[::-1] if suffix.endswith("reverse") else line)
            ends.append(state)
            k += 1
        outputs = np.concatenate([np.array(s) for s in sides], -1)
    return outputs, ends


@pytest.mark.check
@pytest.mark.parametrize("mode", ["RNN", "LSTM", "GRU"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_layer_walks_as_its_equations(mode, bidirectional):
    layer = getattr(nn, mode)(3, 4, num_layers=2, bidirectional=bidirectional).double()
    x = draw(5, 2, 3)
    rows = 4 if bidirectional else 2
    first = [draw(rows, 2, 4) for _ in range(2 if mode == "LSTM" else 1)]
    output, last = layer(x, tuple(first) if mode == "LSTM" else first[0])
    last = last if mode == "LSTM" else (last,)
    for n in range(2):
        begin = [s.numpy()[:, n] for s in first]
        expected, ends = run(mode, layer, x.numpy()[:, n], begin)
        close(output[:, n], expected)
        for k, state in enumerate(last):
            close(state[:, n], [e[k] for e in ends])
    output.sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


@pytest.mark.parametrize("mode", ["RNN", "LSTM", "GRU"])
def test_packed_sequences_run_to_their_own_end(mode):
    layer = getattr(nn, mode)(3, 4, bidirectional=True).double()
    sequences = [draw(2, 3), draw(5, 3), draw(3, 3)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    output, last = layer(packed)
    last = last[0] if mode == "LSTM" else last
    padded, lengths = rnn.pad_packed_sequence(output)
    assert lengths.tolist() == [2, 5, 3]
    for n, sequence in enumerate(sequences):
        alone, end = layer(sequence)
        close(padded[: len(sequence), n], alone.detach().numpy())
        assert not padded[len(sequence) :, n].any()
        close(last[:, n], (end[0] if mode == "LSTM" else end).detach().numpy())


def test_cells_are_one_step_and_projections_shrink():
    x, h, c = draw(2, 3), draw(2, 4), draw(2, 4)
    for mode, states in (("RNN", [h]), ("GRU", [h]), ("LSTM", [h, c])):
        cell = getattr(nn, mode + "Cell")(3, 4).double()
        result = cell(x, (h, c) if mode == "LSTM" else h)
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        weights = [getattr(cell, n).detach().numpy() for n in names]
        for n in range(2):
            state = step(mode, x[n].numpy(), [s[n].numpy() for s in states], weights)
            close((result[0] if mode == "LSTM" else result)[n], state[0])
    output, (h, c) = nn.LSTM(3, 4, proj_size=2, batch_first=True)(sh.ones(2, 5, 3))
    assert output.shape == (2, 5, 2) and h.shape == (1, 2, 2) and c.shape == (1, 2, 4)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: nn.GRU(3, 4)(sh.ones(5, 2, 7)), RuntimeError, "Expected 3, got 7"),
        (lambda: nn.GRU(3, 4)(sh.ones(5, 2, 3), sh.ones(1, 3, 4)), RuntimeError, "hidden size"),
        (lambda: nn.GRU(3, 4)(sh.ones(5)), ValueError, "got 1D"),
        (lambda: nn.GRU(3, 0), ValueError, "hidden_size must be greater than zero"),
        (lambda: nn.LSTM(0, 3), ValueError, "input_size must be greater than zero"),
        (lambda: nn.RNN(-1, 3), ValueError, "input_size must be greater than zero"),
        (lambda: nn.GRU(3, 4, proj_size=2), ValueError, "only supported for LSTM"),
        (lambda: nn.LSTM(3, 4, proj_size=4), ValueError, "smaller than hidden_size"),
        (lambda: nn.RNN(3, 4, nonlinearity="x"), ValueError, "Unknown nonlinearity 'x'"),
        (lambda: nn.LSTMCell(3, 4)(sh.ones(2, 5)), RuntimeError, "got 5 expected 3"),
        (lambda: nn.LSTMCell(3, 4)(sh.ones(2, 3), sh.ones(2, 4)), TypeError, "tuple of Tensors"),
        (lambda: nn.LSTM(3, 4)(sh.ones(5, 2, 3), sh.ones(2, 1, 2, 4)), TypeError, "tuple of Tens"),
        (lambda: rnn.pack_padded_sequence(sh.ones(3, 2), [1, 2]), RuntimeError, "sorted"),
        (lambda: rnn.pack_padded_sequence(sh.ones(3, 2), [4, 2]), RuntimeError, "got 4"),
        (lambda: rnn.pack_padded_sequence(sh.ones(3, 2), [1, 0]), RuntimeError, "greater than 0"),
    ],
)
def test_recurrent_layers_refuse(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_padding_and_packing():
    a, b = sh.tensor([1, 2, 3]), sh.tensor([4])
    assert rnn.pad_sequence([a, b], True, 9).tolist() == [[1, 2, 3], [4, 9, 9]]
    assert rnn.pad_sequence([a, b], padding_side="left").tolist() == [[1, 0], [2, 0], [3, 4]]
    packed = rnn.pack_sequence([b, a], enforce_sorted=False)
    assert packed.data.tolist() == [1, 4, 2, 3] and packed.batch_sizes.tolist() == [2, 1, 1]
    assert [t.tolist() for t in rnn.unpack_sequence(packed)] == [[4], [1, 2, 3]]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_scaled_dot_product_attention():
    q, k, v = draw(2, 4, 3, 5), draw(2, 4, 6, 5), draw(2, 4, 6, 2)
    scores = q.numpy() @ k.numpy().swapaxes(-1, -2) / np.sqrt(5)
    close(F.scaled_dot_product_attention(q, k, v), softmax(scores) @ v.numpy())
    seen = sh.ones(3, 6, dtype=sh.bool).tril()
    hidden = np.where(seen.numpy(), scores, -np.inf)
    expected = softmax(hidden) @ v.numpy()
    close(F.scaled_dot_product_attention(q, k, v, attn_mask=seen), expected)
    close(F.scaled_dot_product_attention(q, k, v, is_causal=True), expected)
    few = F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
    pairs = (t[:, :2].repeat_interleave(2, 1) for t in (k, v))
    close(few, F.scaled_dot_product_attention(q, *pairs).numpy())
    blind = seen.clone()
    blind[1] = False
    q.requires_grad_()
    result = F.scaled_dot_product_attention(q, k, v, attn_mask=blind)
    result.sum().backward()
    assert not result[:, :, 1].any() and not q.grad[:, :, 1].any()


@pytest.mark.check
def test_multihead_attention_is_heads_between_projections():
    layer = nn.MultiheadAttention(6, 2, batch_first=True).double()
    nn.init.normal_(layer.in_proj_bias)
    x, y = draw(2, 3, 6), draw(2, 4, 6)
    padding = sh.tensor([[False, False, True, True], [False, False, False, True]])
    result, weights = layer(x, y, y, key_padding_mask=padding)
    w, b = layer.in_proj_weight.detach().numpy(), layer.in_proj_bias.detach().numpy()
    q, k, v = (
        (t.numpy() @ w[i * 6 : i * 6 + 6].T + b[i * 6 : i * 6 + 6])
        .reshape(2, -1, 2, 3)
        .swapaxes(1, 2)
        for i, t in enumerate((x, y, y))
    )
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(3)
    scores = np.where(padding.numpy()[:, None, None], -np.inf, scores)
    close(weights, softmax(scores).mean(1))
    joined = (softmax(scores) @ v).swapaxes(1, 2).reshape(2, 3, 6)
    close(result, joined @ layer.out_proj.weight.detach().numpy().T)
    assert layer(x, y, y, need_weights=False)[1] is None
    with pytest.raises(AssertionError, match="embedding dimension of 6, but got 5"):
        layer(sh.ones(2, 3, 5), y, y)


def test_transformer_hides_the_future():
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0).double().eval()
    source, target = draw(4, 1, 8), draw(5, 1, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=sh.float64)
    whole = model(source, target, tgt_mask=mask)
    changed = target.clone()
    changed[3:] += 1
    again = model(source, changed, tgt_mask=mask)
    close(again[:3], whole[:3].detach().numpy())
    assert not sh.allclose(again[3:], whole[3:])
    with pytest.raises(RuntimeError, match="equal to d_model"):
        model(sh.ones(4, 1, 7), target)


def test_unpacked_sequences_lie_as_a_batch_of_their_own() -> None:
    long, short = sh.arange(6.0).reshape(3, 2), sh.arange(2.0).reshape(1, 2)
    packed = rnn.pack_sequence([short, long], enforce_sorted=False)
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True)
    assert padded.stride() == (6, 2, 1) and lengths.tolist() == [1, 3]
    parts = rnn.unpad_sequence(padded, lengths, batch_first=True)
    assert [p.is_contiguous() for p in parts] == [True, True]
    parts[1].zero_()
    assert padded[1].tolist() == long.tolist()
    turned = rnn.unpad_sequence(padded.transpose(0, 1), lengths)
    assert [p.tolist() for p in turned] == [short.tolist(), long.tolist()]
    assert turned[1].stride() == (2, 1)


H2 = sh.ones(2, 4)

WRONG_STATES = [
    (nn.LSTMCell, (sh.ones(3, 4), H2), "Input batch size 2 doesn't match hidden0 batch size 3"),
    (nn.LSTMCell, (H2, sh.ones(3, 4)), "Input batch size 2 doesn't match hidden1 batch size 3"),
    (nn.LSTMCell, (H2, sh.ones(2, 5)), "hidden1 has inconsistent hidden_size: got 5, expected 4"),
    (nn.GRUCell, sh.ones(2, 5), "hidden0 has inconsistent hidden_size: got 5, expected 4"),
    (nn.RNNCell, sh.ones(1, 4), "Input batch size 2 doesn't match hidden0 batch size 1"),
]


@pytest.mark.parametrize(("make", "state", "text"), WRONG_STATES)
def test_cells_say_what_of_the_state_does_not_fit(make, state, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        make(3, 4)(sh.ones(2, 3), state)


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
def test_sequences_of_another_dtype_are_refused_with_the_way_out(make) -> None:
    with pytest.raises(ValueError, match="RNN input dtype") as error:
        make(3, 4)(sh.ones(2, 2, 3).double())
    assert "does not match weight dtype (" in str(error.value)
    assert "Convert input: input.to(" in str(error.value)
    kind = make.__name__
    what = "4D tensor instead" if kind == "RNN" else "4D instead"
    text = f"^{kind}: Expected input to be 2D or 3D, got {what}$"
    subclass = type("Mine", (make,), {})
    for kind in (make, subclass):
        with pytest.raises(ValueError, match=text):
            kind(3, 4)(sh.ones(2, 2, 3, 3))


def test_first_states_of_other_dims_are_counted() -> None:
    with pytest.raises(RuntimeError, match=r"but got \(2-D, 3-D\) tensors"):
        nn.LSTM(3, 4)(sh.ones(2, 2, 3), (H2, sh.ones(1, 2, 4)))
    with pytest.raises(RuntimeError, match="hx should also be 2-D but got 3-D tensor"):
        nn.GRU(3, 4)(sh.ones(2, 3), sh.ones(1, 2, 4))
    packed = rnn.pack_sequence([sh.ones(2, 3)])
    with pytest.raises(RuntimeError, match=r"Expected hidden size \(1, 1, 4\), got \[1, 4\]"):
        nn.GRU(3, 4)(packed, sh.ones(1, 4))
    with pytest.raises(ValueError, match=r"LSTMCell: Expected hx\[1\] to be 1D or 2D, got 3D"):
        nn.LSTMCell(3, 4)(sh.ones(2, 3), (H2, sh.ones(1, 2, 4)))
    with pytest.raises(ValueError, match="GRUCell: Expected hidden to be 1D or 2D, got 3D instead"):
        nn.GRUCell(3, 4)(sh.ones(2, 3), sh.ones(1, 2, 4))


@pytest.mark.parametrize(
    ("method", "dtype"),
    [
        ("byte", "uint8"),
        ("char", "int8"),
        ("short", "int16"),
        ("int", "int32"),
        ("long", "int64"),
        ("half", "float16"),
        ("float", "float32"),
        ("double", "float64"),
    ],
)
def test_packed_sequences_are_cast(method, dtype):
    packed = rnn.pack_sequence([sh.ones(2), sh.ones(3)], enforce_sorted=False)
    cast = getattr(packed, method)()
    assert type(cast) is rnn.PackedSequence
    assert cast.data.dtype is getattr(sh, dtype)
    assert cast.unsorted_indices.tolist() == [1, 0]
    assert (cast is packed) == (method == "float")


def test_packed_sequences_have_one_place():
    packed = rnn.pack_sequence([sh.ones(3)])
    assert packed.cpu() is packed
    assert (packed.is_cuda, packed.is_pinned()) == (False, False)
    with pytest.raises(AssertionError, match="not compiled with CUDA"):
        packed.cuda()
    with pytest.raises(RuntimeError, match="accelerator"):
        packed.pin_memory()
    with pytest.raises(RuntimeError, match="copy"):
        packed.to("cpu", copy=True)


# --- weights that are computed -------------------------------------------------------------------


def with_weight(layer, name: str, value: sh.Tensor):
    """A copy of a layer with another value of a weight."""
    made = copy.deepcopy(layer)
    getattr(made, name).data.copy_(value)
    return made


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("name", ["weight_ih_l0", "weight_hh_l1_reverse", "bias_hh_l1"])
def test_pruned_recurrent_layers_compute_with_what_is_left(make, name: str) -> None:
    layer, x = make(3, 4, 2, bidirectional=True), sh.randn(5, 2, 3)
    shape = getattr(layer, name).shape
    mask = (sh.arange(shape.numel()) % 2).view(shape)
    expected = with_weight(layer, name, getattr(layer, name).detach() * mask)(x)[0]
    names = layer._flat_weights_names
    prune.custom_from_mask(layer, name, mask)
    assert layer(x)[0].equal(expected)
    assert layer._flat_weights_names == names and len(layer.all_weights) == 4
    getattr(layer, f"{name}_mask").zero_()
    assert not layer(x)[0].equal(expected)
    prune.remove(layer, name)
    assert layer.double()(x.double())[0].dtype == sh.float64


@pytest.mark.parametrize("make", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("newer", [True, False])
def test_recurrent_layers_with_normed_weights(make, newer: bool) -> None:
    layer, x = make(3, 4), sh.randn(5, 2, 3)
    plain, doubled = layer(x)[0], with_weight(layer, "weight_hh_l0", 2 * layer.weight_hh_l0)(x)[0]
    if newer:
        parametrizations.weight_norm(layer, "weight_hh_l0")
        lengths = layer.parametrizations.weight_hh_l0.original0
    else:
        with pytest.warns(FutureWarning):
            nn.utils.weight_norm(layer, "weight_hh_l0")
        lengths = layer.weight_hh_l0_g
    assert sh.allclose(layer(x)[0], plain)
    layer(x)[0].sum().backward()
    assert lengths.grad.abs().sum() > 0
    lengths.data *= 2
    assert sh.allclose(layer(x)[0], doubled)


def test_recurrent_layers_compute_with_parametrized_weights() -> None:
    layer, x = nn.LSTM(3, 4, proj_size=2), sh.randn(5, 2, 3)
    expected = with_weight(layer, "weight_hr_l0", layer.weight_hr_l0.relu())(x)[0]
    parametrize.register_parametrization(layer, "weight_hr_l0", nn.ReLU())
    assert layer(x)[0].equal(expected)
    assert copy.deepcopy(layer)(x)[0].equal(expected)


def test_a_recurrent_layer_takes_a_tensor_for_a_weight() -> None:
    layer, x = nn.GRU(3, 4), sh.randn(5, 2, 3)
    expected = with_weight(layer, "weight_hh_l0", sh.zeros(12, 4))(x)[0]
    del layer.weight_hh_l0
    with pytest.raises(AttributeError, match="no attribute 'weight_hh_l0'"):
        layer(x)
    layer.weight_hh_l0 = sh.zeros(12, 4)
    assert layer(x)[0].equal(expected)
    layer.other_l0 = nn.Parameter(sh.ones(1))  # which is no weight of the layer
    assert [len(weights) for weights in layer.all_weights] == [4]


# --- masks of transformers -----------------------------------------------------------------------


def test_layers_of_an_encoder_get_masks_of_numbers() -> None:
    class Layer(nn.Module):
        def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
            seen.extend([src_mask, src_key_padding_mask, is_causal])
            return src

    seen: list = []
    encoder = nn.TransformerEncoder(Layer(), 1, enable_nested_tensor=False)
    hidden = sh.tensor([[False, True, True], [False, False, True], [False, False, False]])
    encoder(sh.ones(3, 2, 4), hidden, sh.zeros(2, 3, dtype=sh.bool))
    inf = float("inf")
    assert seen[0].tolist() == [[0.0, -inf, -inf], [0.0, 0.0, -inf], [0.0, 0.0, 0.0]]
    assert seen[1].tolist() == [[0.0] * 3] * 2 and seen[2] is True


def test_masks_of_encoders_are_named_in_errors_and_warnings() -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    encoder, x = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), sh.ones(3, 2, 4)
    numbers = sh.zeros(2, 3, dtype=sh.int64)
    text = "only bool and floating types of {} are supported"
    for module, mask in ((encoder, "mask"), (layer, "src_mask")):
        with pytest.raises(AssertionError, match=text.format("src_key_padding_mask")):
            module(x, src_key_padding_mask=numbers)
        with pytest.raises(AssertionError, match=text.format(mask)):
            module(x, sh.zeros(3, 3, dtype=sh.int64))
        said = f"Support for mismatched src_key_padding_mask and {mask} is deprecated"
        with pytest.warns(UserWarning, match=said) as warned:
            module(x, sh.zeros(3, 3), sh.zeros(2, 3, dtype=sh.bool))
        assert len(warned) == 1


def test_masks_of_attention_are_merged() -> None:
    attention, query = nn.MultiheadAttention(4, 2), sh.ones(2, 3, 4)
    every, hidden = sh.arange(9.0).view(3, 3), sh.tensor([[0.0, 10.0, 0.0], [20.0, 0.0, 0.0]])
    assert attention.merge_masks(None, None, query) == (None, None)
    assert attention.merge_masks(None, hidden, query) == (hidden, 1)
    merged, kind = attention.merge_masks(every, hidden, query)
    assert kind == 2 and merged.shape == (2, 2, 3, 3)
    assert merged[1, 0].tolist() == [[20.0, 1.0, 2.0], [23.0, 4.0, 5.0], [26.0, 7.0, 8.0]]
    merged, kind = attention.merge_masks(sh.arange(36.0).view(4, 3, 3), None, query)
    assert kind == 2 and merged[1, 0].tolist() == sh.arange(18.0, 27.0).view(3, 3).tolist()
