"""Twenty steps of every optimizer with every combination of options, against torch.

Known values and formulas without torch are in test_first_steps.py, L-BFGS in test_lbfgs.py, Muon
(which rounds to bfloat16 within) in test_muon.py.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from optim.cases import CASES, ONE_OF_EACH, Case, deviation, gradients, run, starts, steps, tensors

import shmtensor

torch = pytest.importorskip("torch")

EPS32 = 2.0**-23


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float64_ends_where_torch_ends(case: Case) -> None:
    ours, optimizer = run(shmtensor, case, 20)
    theirs, other = run(torch, case, 20)
    assert deviation(ours, theirs) < 1e-12
    for mine, its in zip(optimizer.state.values(), other.state.values(), strict=True):
        assert list(mine) == list(its)
        assert deviation(list(mine.values()), list(its.values())) < 1e-12


@pytest.mark.parametrize("case", CASES, ids=str)
def test_float32_ends_where_torch_ends(case: Case) -> None:
    ours, _ = run(shmtensor, case, 20, "float32")
    theirs, _ = run(torch, case, 20, "float32")
    # A difference of two averages, which are rounded, is part of the divisor.
    ulps = 128 if case.options.get("centered") else 16
    assert deviation(ours, theirs) < ulps * EPS32


@pytest.mark.parametrize("case", [c for c in ONE_OF_EACH if c.name != "Adafactor"], ids=str)
def test_complex_parameters_are_stepped_on_as_pairs(case: Case) -> None:
    ours, _ = run(shmtensor, case, 20, "complex128")
    theirs, _ = run(torch, case, 20, "complex128")
    assert deviation(ours, theirs) < 1e-12


@pytest.mark.parametrize("flags", [{"foreach": True}, {"foreach": False}], ids=str)
@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_foreach_changes_nothing(case: Case, flags: dict[str, bool]) -> None:
    ours, _ = run(shmtensor, case, 10, **flags)
    theirs, _ = run(torch, case, 10, **flags)
    # torch's own two implementations of ASGD differ in how they round numbers to float32.
    assert deviation(ours, theirs) < (1e-12 if case.name != "ASGD" else EPS32)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "case", [c for c in CASES if c.name in ("SGD", "Adam", "AdamW", "Adagrad")], ids=str
)
def test_fused_ends_where_torch_ends(case: Case, dtype: str) -> None:
    ours, optimizer = run(shmtensor, case, 20, dtype, fused=True)
    theirs, other = run(torch, case, 20, dtype, fused=True)
    assert deviation(ours, theirs) < (1e-12 if dtype == "float64" else 16 * EPS32)
    for mine, its in zip(optimizer.state.values(), other.state.values(), strict=True):
        assert {k: str(v.dtype) for k, v in mine.items()} == {
            k: str(v.dtype) for k, v in its.items()
        }


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
@pytest.mark.parametrize("fused", [None, True])
@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
def test_halves_round_where_torch_rounds(case: Case, name: str, fused: bool | None) -> None:
    if fused and case.name not in ("SGD", "Adam", "AdamW", "Adagrad"):
        pytest.skip("torch has no fused implementation")
    if fused and case.name == "SGD":
        pytest.skip("torch 2.13 leaves most elements as they are; test_fused.py has the formula")
    if case.name == "Adafactor":
        pytest.skip("its norms are summed in another order, whose rounding a half shows")
    found = []
    for lib in (shmtensor, torch):
        dtype = getattr(lib, name)
        params = [p.detach().to(dtype).requires_grad_() for p in tensors(lib, starts("float32"))]
        more = {} if fused is None else {"fused": fused}
        optimizer = getattr(lib.optim, case.name)(params, **case.options, **more)
        for row in gradients(10, "float32"):
            for param, grad in zip(params, row, strict=True):
                param.grad = lib.from_numpy(np.array(grad)).to(dtype)
            optimizer.step()
        found.append([p.detach().float() for p in params])
    # add(alpha=) rounds once or twice in torch, by where in the tensor an element is.
    unit = 2.0 ** (-7 if name == "bfloat16" else -10)
    assert deviation(*found) < (8 if case.name in ("SGD", "RMSprop", "ASGD") else 1) * unit


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_groups_with_options_of_their_own_end_where_torch_ends(case: Case) -> None:
    found = []
    for lib in (shmtensor, torch):
        params = tensors(lib, starts())
        groups = [
            {"params": params[:1]},
            {"params": params[1:3], "lr": 0.003},
            {"params": params[3:], "weight_decay": 0.2}
            if case.name != "Rprop"
            else {"params": params[3:]},
        ]
        optimizer = getattr(lib.optim, case.name)(groups, **case.options)
        steps(lib, params, optimizer, gradients(10))
        found.append(params)
    assert deviation(*found) < 1e-12


@pytest.mark.parametrize(("case", "shape"), itertools.product(ONE_OF_EACH, [(), (1,)]), ids=str)
def test_a_learning_rate_may_be_a_tensor(case: Case, shape: tuple[int, ...]) -> None:
    found = []
    for lib in (shmtensor, torch):
        options = {**case.options, "lr": lib.full(shape, case.options["lr"])}
        params, _ = run(lib, Case(case.name, options), 10)
        found.append(params)
    assert deviation(*found) < 1e-12


@pytest.mark.parametrize("case", ONE_OF_EACH, ids=str)
def test_parameters_without_gradient_are_left_out(case: Case) -> None:
    found = []
    for lib in (shmtensor, torch):
        params = tensors(lib, starts())
        optimizer = getattr(lib.optim, case.name)(params, **case.options)
        for i, row in enumerate(gradients(6)):
            optimizer.zero_grad()
            for k, (param, grad) in enumerate(zip(params, row, strict=True)):
                if (i + k) % 3:
                    param.grad = lib.from_numpy(np.array(grad))
            optimizer.step()
        found.append(params)
    assert deviation(*found) < 1e-12


@pytest.mark.parametrize("case", [c for c in ONE_OF_EACH if c.name != "Adafactor"], ids=str)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_extreme_gradients_lead_where_torch_goes(case: Case) -> None:
    values = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-320, 1e300, -1e-40]
    found = []
    for lib in (shmtensor, torch):
        param = lib.ones(len(values), dtype=lib.float64).requires_grad_()
        optimizer = getattr(lib.optim, case.name)([param], **case.options)
        for sign in (1.0, -1.0, 1.0):
            param.grad = lib.tensor(values, dtype=lib.float64) * sign
            optimizer.step()
        found.append([param, *(v for v in optimizer.state[param].values())])
    assert deviation(*found) < 1e-12
