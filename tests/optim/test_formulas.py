"""Every optimizer with every combination of options against the published formula, in NumPy.

The formulas are in formulas.py; against torch, test_against_torch.py runs the same cases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from optim import formulas
from optim.cases import CASES, ONE_OF_EACH, Case, gradients, run, starts, tensors

import shmtensor
from shmtensor import optim

_STATES = {
    "Adam": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"),
    "AdamW": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"),
    "NAdam": ("exp_avg", "exp_avg_sq", "mu_product", "step"),
    "RAdam": ("exp_avg", "exp_avg_sq", "step"),
    "Adamax": ("exp_avg", "exp_inf", "step"),
    "Adagrad": ("sum", "step"),
    "Adadelta": ("square_avg", "acc_delta", "step"),
    "RMSprop": ("square_avg", "grad_avg", "momentum_buffer", "step"),
    "Rprop": ("prev", "step_size", "step"),
    "ASGD": ("ax", "mu", "eta", "step"),
}


def _expected(case: Case, n_steps: int) -> list[np.ndarray]:
    update = getattr(formulas, case.name.lower())
    params = starts()
    remembered: list[dict[str, Any]] = [{} for _ in params]
    for t, row in enumerate(gradients(n_steps), 1):
        for i, (p, grad) in enumerate(zip(params, row, strict=True)):
            params[i] = update(p, grad + 0.3 * p, remembered[i], t, **case.options)
    return params


@pytest.mark.parametrize("case", CASES, ids=str)
def test_twelve_steps_follow_the_formula(case: Case) -> None:
    params, optimizer = run(shmtensor, case, 12)
    for param, value in zip(params, _expected(case, 12), strict=True):
        # Products of momenta are kept as float32.
        rtol = 1e-11 if case.name != "NAdam" else 1e-6
        np.testing.assert_allclose(param.detach().numpy(), value, rtol=rtol, atol=rtol)
    assert all(state.get("step", 12) == 12 for state in optimizer.state.values())


@pytest.mark.parametrize(
    ("case", "first"),
    [
        (Case("SGD", {"lr": 0.1}), 0.8),
        (Case("SGD", {"lr": 0.1, "weight_decay": 1.0}), 0.7),
        (Case("SGD", {"lr": 0.1, "maximize": True}), 1.2),
        (Case("SGD", {"lr": 0.1, "momentum": 0.5, "nesterov": True}), 0.7),
        (Case("Adam", {"lr": 0.1, "eps": 0}), 0.9),
        (Case("AdamW", {"lr": 0.1, "eps": 0, "weight_decay": 1.0}), 0.8),
        (Case("Adam", {"lr": 0.1, "eps": 2.0}), 0.95),
        (Case("RAdam", {"lr": 0.1}), 0.8),
        (Case("Adamax", {"lr": 0.1, "eps": 0}), 0.9),
        (Case("Adagrad", {"lr": 0.1, "eps": 0}), 0.9),
        (Case("Adagrad", {"lr": 0.1, "eps": 0, "initial_accumulator_value": 12.0}), 0.95),
        (Case("Adadelta", {"lr": 1.0, "rho": 0.0, "eps": 5.0}), 1 - 2 * (5 / 9) ** 0.5),
        (Case("RMSprop", {"lr": 0.1, "alpha": 0.75, "eps": 0}), 0.8),
        (Case("Rprop", {"lr": 0.25}), 0.75),
        (Case("ASGD", {"lr": 0.5, "lambd": 1.0}), 0.5 - 1.0),
    ],
    ids=str,
)
def test_first_step_from_one_with_gradient_two(case: Case, first: float) -> None:
    param = shmtensor.ones(3, dtype=shmtensor.float64).requires_grad_()
    param.grad = shmtensor.full((3,), 2.0, dtype=shmtensor.float64)
    getattr(optim, case.name)([param], **case.options).step()
    assert param.tolist() == pytest.approx([first] * 3, rel=1e-12)


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_a_quadratic_becomes_smaller(case: Case) -> None:
    param = shmtensor.tensor([[2.0, -1.0], [0.5, 3.0]], requires_grad=True)
    optimizer = getattr(optim, case.name)([param], **case.options)
    before = float((param * param).sum())
    for _ in range(60):
        optimizer.zero_grad()
        (param * param).sum().backward()
        optimizer.step()
    assert float((param * param).sum()) < 0.9 * before


@pytest.mark.parametrize("case", [c for c in ONE_OF_EACH if c.name in _STATES], ids=str)
def test_functional_form_is_what_step_does(case: Case) -> None:
    params, _ = run(shmtensor, case, 3)
    again, other = run(shmtensor, case, 2)
    group = other.param_groups[0]
    module = getattr(optim, case.name.lower())
    last = gradients(3)[2]
    arrays = [shmtensor.from_numpy(np.array(grad)) for grad in last]
    grads = [grad + 0.3 * p.detach() for grad, p in zip(arrays, again, strict=True)]
    states = [other.state[p] for p in again]
    with shmtensor.no_grad():
        getattr(module, case.name.lower())(
            again, grads, *_state_lists(case.name, states), **_arguments(case.name, group)
        )
    assert all(shmtensor.equal(a, b) for a, b in zip(params, again, strict=True))


def _state_lists(name: str, states: list[dict[str, Any]]) -> list[list[Any]]:
    return [[state[key] for state in states if key in state] for key in _STATES[name]]


def _arguments(name: str, group: dict[str, Any]) -> dict[str, Any]:
    left_out = {
        "params",
        "foreach",
        "fused",
        "capturable",
        "differentiable",
        "initial_accumulator_value",
    }
    given = {k: v for k, v in group.items() if k not in left_out}
    if "betas" in given:
        given["beta1"], given["beta2"] = given.pop("betas")
    if name == "AdamW":
        del given["decoupled_weight_decay"]
    if name == "Rprop":
        del given["lr"]
        given["etaminus"], given["etaplus"] = given.pop("etas")
        given["step_size_min"], given["step_size_max"] = given.pop("step_sizes")
    return given


@pytest.mark.check
def test_functional_sgd_and_adafactor() -> None:
    param, grad = shmtensor.ones(2), shmtensor.full((2,), 2.0)
    buffers: list[Any] = [None]
    options = {"weight_decay": 0, "momentum": 0.5, "lr": 0.1, "dampening": 0}
    for _ in range(2):
        optim.sgd.sgd([param], [grad], buffers, **options, nesterov=False, maximize=False)
    assert param.tolist() == pytest.approx([1 - 0.2 - 0.3] * 2)
    assert buffers[0].tolist() == [3.0, 3.0]
    matrix, one = shmtensor.ones(2, 2), shmtensor.zeros(())
    factors = [shmtensor.zeros(2, 1)], [shmtensor.zeros(1, 2)]
    optim._adafactor.adafactor(
        [matrix],
        [shmtensor.full((2, 2), 2.0)],
        *factors,
        [None],
        [one],
        d=1.0,
        lr=0.01,
        beta2_decay=-0.8,
        weight_decay=0.0,
        eps1=None,
        eps2=1e-3,
        maximize=False,
    )
    assert one.item() == 1
    assert matrix.tolist() == [pytest.approx([0.99, 0.99])] * 2


def test_functional_forms_refuse_counters_that_are_numbers() -> None:
    param = shmtensor.ones(2)
    options = {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0, "maximize": False}
    with pytest.raises(
        RuntimeError, match="`state_steps` argument must contain a list of singleton"
    ):
        optim.adadelta.adadelta([param], [param], [param], [param], [0], **options)


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_a_nan_stays_where_it_is(case: Case) -> None:
    params = tensors(shmtensor, starts(shapes=((4, 4),)))
    optimizer = getattr(optim, case.name)(params, **case.options)
    for _ in range(2):
        params[0].grad = shmtensor.ones(4, 4, dtype=shmtensor.float64)
        if case.name != "Adafactor":  # its updates are scaled by their norm
            params[0].grad[1, 2] = float("nan")
        optimizer.step()
    found = shmtensor.isnan(params[0].detach())
    assert found.sum() == (0 if case.name in ("Adafactor", "Rprop") else 1)
