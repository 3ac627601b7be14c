"""Steps that are recorded: gradients with respect to where they began, and to options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import shmtensor
from shmtensor import optim

# name, options, options that become tensors
_CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}, {}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {}),
    ("SGD", {"momentum": 0.9}, {"lr": 0.1, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.1, "maximize": True}, {}),
    ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}, {}),
    ("Adam", {}, {"lr": 0.1}),
    ("Adam", {"lr": 0.1}, {"betas": (0.9, 0.99)}),
    ("Adam", {"lr": 0.1}, {"weight_decay": 0.1}),
    ("AdamW", {}, {"lr": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}, {}),
    ("NAdam", {}, {"lr": 0.1}),
    ("RAdam", {"betas": (0.6, 0.8)}, {"lr": 0.1}),
    ("Adamax", {"lr": 0.1, "weight_decay": 0.1}, {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}, {}),
    ("Adadelta", {"weight_decay": 0.1}, {}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.9, "centered": True}, {}),
    ("RMSprop", {"lr": 0.1}, {}),
    ("Rprop", {"lr": 0.1}, {}),
    ("ASGD", {"lr": 0.1, "t0": 1, "weight_decay": 0.1}, {}),
]  # fmt: skip
_N_STEPS = 4


def _torch_can(name: str, options: dict[str, Any], tensors: dict[str, Any]) -> bool:
    if name in ("Adamax", "Rprop") or (name == "NAdam" and tensors):
        return False
    return not (options.get("momentum") or options.get("amsgrad"))


def _as_tensors(lib: Any, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_as_tensors(lib, v) for v in value)
    return lib.tensor(value, dtype=lib.float64, requires_grad=True)


def _leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, tuple) else [value]


def _end(lib: Any, case: Any, begin: Any, scale: Any, tensors: dict[str, Any]) -> Any:
    """A number at the end of some steps, whose gradients are made of *begin* and *scale*."""
    name, options, _ = case
    param = begin.clone()
    optimizer = getattr(lib.optim, name)([param], differentiable=True, **options, **tensors)
    for i in range(_N_STEPS):
        at = param.clone()
        param.grad = at**2 * scale + scale * scale * (i + 1)
        optimizer.step()
    return (param.clone() ** 2).sum()


def _inputs(lib: Any, case: Any) -> tuple[Any, Any, dict[str, Any], list[Any]]:
    begin = lib.tensor([1.0, -2.0, 3.0], dtype=lib.float64, requires_grad=True)
    scale = lib.tensor(0.7, dtype=lib.float64, requires_grad=True)
    tensors = {key: _as_tensors(lib, value) for key, value in case[2].items()}
    return begin, scale, tensors, [begin, scale, *_leaves(tuple(tensors.values()))]


def _moved(tensors: dict[str, Any], leaf: Any, by: float) -> dict[str, Any]:
    def move(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(move(v) for v in value)
        return value.detach() + (by if value is leaf else 0.0)

    return {key: move(value) for key, value in tensors.items()}


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_gradients_are_those_of_differences(case: Any) -> None:
    begin, scale, tensors, leaves = _inputs(shmtensor, case)
    grads = shmtensor.autograd.grad(_end(shmtensor, case, begin, scale, tensors), leaves)
    step = 1e-3  # counters of steps are float32, and so is what is made of them
    for leaf, grad in zip(leaves, grads, strict=True):
        ends = []
        for by in (step, -step):
            at = [t.detach() + (by if t is leaf else 0.0) for t in (begin, scale)]
            with shmtensor.no_grad():
                ends.append(float(_end(shmtensor, case, *at, _moved(tensors, leaf, by))))
        slope = (ends[0] - ends[1]) / (2 * step)
        assert float(grad.sum()) == pytest.approx(slope, rel=2e-3, abs=2e-3)


@pytest.mark.check
def test_a_learning_rate_can_be_learned() -> None:
    rate = shmtensor.tensor(0.01, requires_grad=True)
    outer = optim.Adam([rate], lr=0.02)
    losses = []
    for _ in range(20):
        weight = shmtensor.tensor([2.0, -3.0])
        inner = optim.SGD([weight], lr=rate, differentiable=True)
        for _ in range(3):
            weight.grad = 2 * weight.clone()
            inner.step()
        loss = (weight.clone() ** 2).sum()
        outer.zero_grad()
        loss.backward()
        outer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


# In the others torch changes in place what its graph needs, or cuts the first gradient off
# (momentum of SGD).
@pytest.mark.parametrize("case", [case for case in _CASES if _torch_can(*case)], ids=str)
def test_ends_and_gradients_are_those_of_torch(case: Any) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (shmtensor, torch):
        begin, scale, tensors, leaves = _inputs(lib, case)
        end = _end(lib, case, begin, scale, tensors)
        grads = lib.autograd.grad(end, leaves)
        found.append([float(end), *(x for grad in grads for x in grad.reshape(-1).tolist())])
    # A bias correction is 1 minus a power in float32, of which the libraries differ by a rounding.
    np.testing.assert_allclose(found[0], found[1], rtol=2e-6, atol=1e-8)
