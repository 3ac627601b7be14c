"""What ``nn.utils`` does to the gradients and values of parameters."""

from __future__ import annotations

import pytest

import shmtensor as sh
from shmtensor import nn


@pytest.mark.check
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


def test_parameters_as_a_vector():
    layer = nn.Linear(2, 3)
    vector = nn.utils.parameters_to_vector(layer.parameters())
    assert vector.shape == (9,)
    nn.utils.vector_to_parameters(sh.arange(9.0), layer.parameters())
    assert layer.weight.tolist() == [[0, 1], [2, 3], [4, 5]] and layer.bias.tolist() == [6, 7, 8]


def test_packing_says_what_lengths_are():
    for lengths, text in (([[3, 2]], "2D cpu Long tensor"), (3, "0D cpu Long tensor")):
        with pytest.raises(RuntimeError, match=f"should be a 1D CPU int64 tensor, but got {text}"):
            nn.utils.rnn.pack_padded_sequence(sh.ones(3, 2, 1), lengths)
    with pytest.raises(RuntimeError, match="Expected iterable for input sequences, but got arg"):
        nn.utils.rnn.pad_sequence(1)


def test_a_packed_sequence_is_made_of_a_pair():
    data, sizes = sh.ones(3), sh.tensor([2, 1])
    packed = nn.utils.rnn.PackedSequence((data, sizes))
    assert packed.data is data and packed.batch_sizes is sizes
    with pytest.raises(AssertionError, match="Expected data to be a list or tuple of length 2"):
        nn.utils.rnn.PackedSequence(data)


def test_only_an_empty_generator_is_warned_of(recwarn):
    assert nn.utils.clip_grad_norm_(iter(()), 1.0) == 0
    assert nn.utils.clip_grad_norm_([], 1.0) == 0
    assert not recwarn
    with pytest.warns(UserWarning, match="is an empty generator, no gradient clipping will"):
        nn.utils.clip_grad_norm_((p for p in ()), 1.0)


def test_hooks_of_norms_want_a_value():
    text = "The module passed to `{}` can't have uninitialized parameters. Make sure to run"
    with pytest.raises(ValueError, match=text.format("SpectralNorm")):
        nn.utils.spectral_norm(nn.LazyLinear(2))
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match=text.format("WeightNorm")):
        nn.utils.weight_norm(nn.LazyLinear(2))
    with pytest.raises(ValueError, match="`SpectralNorm` cannot be applied as parameter `bias` is"):
        nn.utils.spectral_norm(nn.Linear(2, 3, bias=False), "bias")
