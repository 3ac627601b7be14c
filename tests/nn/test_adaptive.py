"""AdaptiveLogSoftmaxWithLoss against the probabilities of all classes."""

from __future__ import annotations

import pytest

import shmtensor as st
from shmtensor import nn


def make_layer():
    st.manual_seed(2)
    return nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10, 15], div_value=2.0)


@pytest.mark.check
def test_log_prob_sums_to_one():
    layer = make_layer()
    found = layer.log_prob(st.randn(4, 16))
    assert found.shape == (4, 20)
    assert st.allclose(found.exp().sum(1), st.ones(4))


def test_output_is_the_target_class_of_log_prob():
    layer = make_layer()
    x, target = st.randn(6, 16), st.tensor([0, 4, 5, 9, 12, 19])
    output, loss = layer(x, target)
    wanted = layer.log_prob(x).gather(1, target.unsqueeze(1)).squeeze(1)
    assert st.allclose(output, wanted, atol=1e-6)
    assert st.allclose(loss, -wanted.mean(), atol=1e-6)
    one = layer(x[2], target[2])
    assert one.output.shape == () and st.allclose(one.output, wanted[2], atol=1e-6)


def test_predict_is_the_largest_of_the_head_then_of_the_cluster():
    layer = make_layer()
    x = st.randn(50, 16)
    best, head = layer.predict(x), layer.head(x).argmax(1)
    frequent = head < 5
    assert st.equal(best[frequent], head[frequent])
    assert bool((best < 20).all())


@pytest.mark.check
def test_gradients_reach_every_used_cluster():
    layer = make_layer()
    layer(st.randn(3, 16), st.tensor([1, 7, 19])).loss.backward()
    assert layer.head.weight.grad is not None
    assert [layer.tail[i][0].weight.grad is not None for i in range(3)] == [True, False, True]


@pytest.mark.parametrize("cutoffs", [[], [0, 3], [5, 5], [7, 3], [20]])
def test_cutoffs_are_checked(cutoffs):
    with pytest.raises(ValueError, match="cutoffs"):
        nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs)


def test_targets_are_checked():
    layer = make_layer()
    with pytest.raises(RuntimeError, match="should be in"):
        layer(st.randn(2, 16), st.tensor([0, 20]))
    with pytest.raises(RuntimeError, match="batch dimension"):
        layer(st.randn(2, 16), st.tensor([0]))
