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
