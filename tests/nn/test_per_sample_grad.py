"""`call_for_per_sample_grads`: the gradients of single samples, in one backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import shmtensor as T
from shmtensor import nn
from shmtensor.nn.utils._per_sample_grad import call_for_per_sample_grads as per_sample


def one_by_one(module: nn.Module, x: T.Tensor, dim: int, loss: Callable[..., T.Tensor]) -> Any:
    rows = []
    for i in range(x.size(dim)):
        result = loss(module(x.narrow(dim, i, 1)))
        rows.append(T.autograd.grad(result, list(module.parameters())))
    return [T.stack(column) for column in zip(*rows, strict=True)]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 5)
        self.second = nn.Linear(5, 5)
        self.second.weight = self.first.weight

    def forward(self, x: T.Tensor) -> T.Tensor:
        return self.second(self.first(x.view(x.size(0), -1)).tanh())


MODULES = {
    "linear": (lambda: nn.Linear(5, 3), lambda: T.randn(4, 5)),
    "sequence": (lambda: nn.Linear(5, 3), lambda: T.randn(4, 2, 5)),
    "conv": (lambda: nn.Conv2d(2, 3, 3, padding=1), lambda: T.randn(4, 2, 6, 5)),
    "norms": (
        lambda: nn.Sequential(nn.Conv1d(4, 4, 3), nn.GroupNorm(2, 4), nn.LayerNorm(5)),
        lambda: T.randn(3, 4, 7),
    ),
    "embedding": (lambda: nn.Embedding(6, 3), lambda: T.randint(6, (4, 5))),
    "tied": (Tied, lambda: T.randn(4, 5)),
}


@pytest.mark.check
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_each_sample_has_the_gradient_that_it_has_alone(name: str, reduction: str) -> None:
    T.manual_seed(0)
    make, data = MODULES[name]
    module, x = make(), data()
    expected = one_by_one(module, x, 0, lambda y: y.pow(2).sum())
    losses = per_sample(module, loss_reduction=reduction)(x).pow(2).flatten(1).sum(1)
    (losses.sum() if reduction == "sum" else losses.mean()).backward()
    for parameter, gradient in zip(module.parameters(), expected, strict=True):
        assert parameter.grad is None
        assert parameter.grad_sample.shape == (x.size(0), *parameter.shape)
        T.testing.assert_close(parameter.grad_sample, gradient, rtol=1e-4, atol=1e-5)


def test_the_batch_may_be_the_second_dimension() -> None:
    module, x = nn.Linear(5, 3), T.randn(7, 4, 5)
    expected = one_by_one(module, x, 1, lambda y: y.exp().sum())
    result = per_sample(module, batch_first=False)(x)
    assert result.shape == (7, 4, 3)
    result.exp().sum().backward()
    T.testing.assert_close(module.weight.grad_sample, expected[0])


def test_inputs_get_their_gradients_and_frozen_parameters_none() -> None:
    module, x = nn.Linear(5, 3), T.randn(4, 5, requires_grad=True)
    module.bias.requires_grad_(False)
    per_sample(module)(x).sum().backward()
    T.testing.assert_close(x.grad, module.weight.detach().sum(0).expand(4, 5))
    assert not hasattr(module.bias, "grad_sample")


def test_tensors_of_another_size_are_the_same_for_all_samples() -> None:
    class Scaled(nn.Linear):
        def forward(self, x: T.Tensor, scale: T.Tensor, power: int) -> T.Tensor:
            return super().forward(x) ** power * scale

    module, x, scale = Scaled(5, 3), T.randn(4, 5), T.rand(3)
    per_sample(module, batch_size=4)(x, scale, power=1).sum().backward()
    T.testing.assert_close(module.bias.grad_sample, scale.expand(4, 3))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: per_sample(nn.Linear(2, 2), loss_reduction="none"), "sum or mean, got none"),
        (lambda: per_sample(len), "must be nn.Module, got builtin_function"),
        (lambda: per_sample(nn.Linear(2, 2), batch_size="4"), "an integer, got str"),
        (lambda: per_sample(nn.Linear(2, 2), batch_size=0), "must be positive, got 0"),
        (lambda: per_sample(nn.Bilinear(2, 2, 1))(T.ones(3, 2), T.ones(4, 2)), "batch size 4"),
        (lambda: per_sample(nn.Linear(2, 2))(3), "Unable to find a tensor"),
        (lambda: per_sample(nn.Flatten(0, -1))(T.ones(3, 2)), r"one sample has shape \(2,\)"),
    ],
)
def test_what_is_wrong_is_said(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()


def test_gradients_of_an_earlier_call_must_be_cleared() -> None:
    module, x = nn.Linear(5, 3), T.randn(4, 5)
    call = per_sample(module)
    call(x).sum().backward()
    with pytest.raises(RuntimeError, match="weight has grad_sample of an earlier call"):
        call(x)
    module.weight.grad_sample = module.bias.grad_sample = None
    (call(x).sum() + 0).backward()
    assert module.weight.grad_sample.shape == (4, 3, 5)
