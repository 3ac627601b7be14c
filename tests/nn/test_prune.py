"""`nn.utils.prune`: masks, hooks, amounts, and the same outcomes as torch."""

from __future__ import annotations

from typing import Any

import pytest
from same_as_torch import differences

import shmtensor as T
from shmtensor import nn
from shmtensor.nn.utils import prune


def linear(m: Any) -> Any:
    m.manual_seed(0)
    layer = m.nn.Linear(4, 3)
    with m.no_grad():
        signs = m.tensor([1, -1, 1, -1.0])
        layer.weight.copy_((m.arange(12.0) - 5.3).view(3, 4) * signs)
        layer.bias.copy_(m.tensor([0.1, -0.2, 0.3]))
    return layer


def twice(m: Any, *amounts: Any) -> Any:
    layer = linear(m)
    p = m.nn.utils.prune
    p.l1_unstructured(layer, "weight", amounts[0])
    p.random_unstructured(layer, "weight", amounts[1])
    p.ln_structured(layer, "weight", amounts[2], 2, 0)
    return layer


def removed(m: Any) -> Any:
    return m.nn.utils.prune.remove(twice(m, 3, 0.5, 1), "weight")


def together(m: Any, method: str, **options: Any) -> Any:
    a, b = linear(m), linear(m)
    p = m.nn.utils.prune
    p.global_unstructured([(a, "weight"), (b, "bias")], getattr(p, method), **options)
    return a.weight_mask, b.bias_mask


EXPRESSIONS = """
m.nn.utils.prune.l1_unstructured(linear(m), 'weight', 5).weight
m.nn.utils.prune.l1_unstructured(linear(m), 'weight', 0.3).weight_mask
m.nn.utils.prune.l1_unstructured(linear(m), 'weight', 0.3).state_dict().keys()
m.nn.utils.prune.l1_unstructured(linear(m), 'weight', 20)
m.nn.utils.prune.l1_unstructured(linear(m), 'weight', -1)
m.nn.utils.prune.l1_unstructured(linear(m), 'weight', 1.5)
m.nn.utils.prune.l1_unstructured(linear(m), 'weight', 'a')
m.nn.utils.prune.l1_unstructured(linear(m), 'nope', 1)
m.nn.utils.prune.l1_unstructured(linear(m), 'weight', 3, importance_scores=m.arange(12.).view(3, 4)).weight_mask
m.nn.utils.prune.l1_unstructured(linear(m), 'weight', 3, importance_scores=m.arange(11.))
m.nn.utils.prune.ln_structured(linear(m), 'weight', 1, 2, 0).weight_mask
m.nn.utils.prune.ln_structured(linear(m), 'weight', 0.5, 1, 1).weight_mask
m.nn.utils.prune.ln_structured(linear(m), 'weight', 0.5, float('inf'), -1).weight_mask
m.nn.utils.prune.ln_structured(linear(m), 'weight', 1, 2, 5)
m.nn.utils.prune.ln_structured(linear(m), 'bias', 1, 2, 0)
m.nn.utils.prune.ln_structured(linear(m), 'weight', 5, 2, 0)
m.nn.utils.prune.ln_structured(linear(m), 'weight', 0.1, 2, 0).weight_mask
m.nn.utils.prune.ln_structured(linear(m), 'weight', 1.0, 2, 0).weight_mask
m.nn.utils.prune.random_unstructured(linear(m), 'weight', 0.5).weight_mask
m.nn.utils.prune.random_structured(linear(m), 'weight', 2, 1).weight_mask
m.nn.utils.prune.random_structured(linear(m), 'bias', 2, 0)
m.nn.utils.prune.identity(linear(m), 'weight').weight_mask
m.nn.utils.prune.custom_from_mask(linear(m), 'bias', m.tensor([0, 1, 0])).bias
(m.nn.utils.prune.is_pruned(linear(m)), m.nn.utils.prune.is_pruned(m.nn.Sequential(twice(m, 1, 1, 1))))
twice(m, 3, 0.5, 1).weight_mask
twice(m, 3, 0.5, 1)._forward_pre_hooks
twice(m, 3, 0.5, 1)(m.ones(1, 4))
removed(m).weight
removed(m).state_dict().keys()
m.nn.utils.prune.is_pruned(removed(m))
m.nn.utils.prune.remove(removed(m), 'weight')
together(m, 'L1Unstructured', amount=6)
together(m, 'RandomUnstructured', amount=0.5)
together(m, 'LnStructured', amount=1, n=2)
together(m, 'L1Unstructured', amount=1, importance_scores=3)
m.nn.utils.prune.global_unstructured(3, m.nn.utils.prune.L1Unstructured)
m.nn.utils.prune.LnStructured(2, 3, 0).prune(m.arange(12.).view(3, 4) + 1, default_mask=m.ones(3, 4))
m.nn.utils.prune.L1Unstructured(3).prune(m.arange(6.))
m.nn.utils.prune.L1Unstructured(3).compute_mask(m.arange(6.), m.tensor([1, 1, 0, 1, 1, 1.]))
m.nn.utils.prune.Identity().prune(m.ones(2))
m.nn.utils.prune.BasePruningMethod()
len(m.nn.utils.prune.PruningContainer())
m.nn.utils.prune._compute_norm(m.arange(6.).view(2, 3), 2, 0)
m.nn.utils.prune._validate_pruning_amount(20, 10)
"""  # noqa: E501


@pytest.mark.check
def test_outcomes_are_torch_s() -> None:
    assert differences(EXPRESSIONS, globals(), ["nn.utils.prune"]) == []


def test_a_pruned_parameter_is_made_of_two_others() -> None:
    layer = prune.l1_unstructured(linear(T), "weight", 5)
    assert {name for name, _ in layer.named_parameters()} == {"weight_orig", "bias"}
    assert layer.weight_mask.tolist() == [[1, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]]
    assert T.equal(layer.weight, layer.weight_orig * layer.weight_mask)


def test_gradients_reach_what_is_left_only() -> None:
    layer = prune.l1_unstructured(linear(T), "weight", 5)
    layer(T.ones(1, 4)).sum().backward()
    assert T.equal(layer.weight_orig.grad, layer.weight_mask)


def test_the_hook_makes_the_parameter_anew_after_a_step() -> None:
    layer = prune.l1_unstructured(linear(T), "weight", 5)
    with T.no_grad():
        layer.weight_orig.fill_(1.0)
    layer(T.ones(1, 4))
    assert T.equal(layer.weight, layer.weight_mask)


@pytest.mark.check
def test_removal_keeps_the_zeros_and_the_parameter() -> None:
    layer = prune.l1_unstructured(linear(T), "weight", 5)
    before = layer.weight_orig
    prune.remove(layer, "weight")
    assert layer.weight is before
    assert int((layer.weight == 0).sum()) == 5
    assert not layer._forward_pre_hooks


def test_a_second_pruning_takes_from_what_is_left() -> None:
    layer = prune.l1_unstructured(linear(T), "weight", 4)
    prune.l1_unstructured(layer, "weight", 4)
    assert int(layer.weight_mask.sum()) == 4


def test_refused_pruning_leaves_the_module_as_it_was() -> None:
    layer = linear(T)
    with pytest.raises(ValueError, match="smaller than the number of parameters"):
        prune.l1_unstructured(layer, "weight", 20)
    assert isinstance(layer.weight, nn.Parameter)
    assert not prune.is_pruned(layer)


def test_containers_take_methods_for_their_parameter_only() -> None:
    container = prune.PruningContainer()
    with pytest.raises(TypeError, match="not a BasePruningMethod"):
        container.add_pruning_method(3)
    method = prune.Identity()
    method._tensor_name = "weight"
    with pytest.raises(ValueError, match="acting on the parameter named"):
        container.add_pruning_method(method)


def test_apply_takes_torch_s_arguments_by_position() -> None:
    layer = T.nn.Linear(3, 2)
    scores = T.tensor([[5.0, 4.0, 3.0], [0.0, 1.0, 2.0]])
    prune.L1Unstructured.apply(layer, "weight", 3, scores)
    assert layer.weight_mask.tolist() == [[1, 1, 1], [0, 0, 0]]
    other = T.nn.Linear(3, 2)
    prune.LnStructured.apply(other, "weight", 1, 1, 0, scores)
    assert other.weight_mask.tolist() == [[1, 1, 1], [0, 0, 0]]
