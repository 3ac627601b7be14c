"""Steps in one call: how tensors lie in memory, threads, halves, scalers, and what a step costs.

The formulas are in test_formulas.py and test_against_torch.py, which run the same calls.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from optim import formulas
from optim.cases import ONE_OF_EACH, Case

import shmtensor
from shmtensor import _C, optim
from shmtensor.memory import memory_stats

_FUSED = [case for case in ONE_OF_EACH if case.name != "Adafactor"]
_SCALED = [case for case in ONE_OF_EACH if case.name in ("SGD", "Adam", "AdamW", "Adagrad")]


def _random(*shape: int, seed: int = 0, dtype: Any = shmtensor.float64) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape)
    return shmtensor.from_numpy(np.array(values)).to(dtype)


def _run(case: Case, params: list[Any], grads: list[list[Any]], **more: Any) -> Any:
    optimizer = getattr(optim, case.name)(params, **case.options, **more)
    for row in grads:
        for param, grad in zip(params, row, strict=True):
            param.grad = grad.clone(memory_format=shmtensor.preserve_format)
        optimizer.step()
    return optimizer


def _strided(values: Any, how: str) -> Any:
    """The same values in another place of memory."""
    if how == "channels-last":
        return values.contiguous(memory_format=shmtensor.channels_last)
    if how == "transposed":
        return values.transpose(0, -1).contiguous().transpose(0, -1)
    if how == "with gaps":
        wide = shmtensor.zeros(*values.shape[:-1], 2 * values.shape[-1], dtype=values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    return values.clone()


@pytest.mark.parametrize("how", ["transposed", "with gaps", "channels-last"])
@pytest.mark.parametrize("of", ["param", "grad", "both"])
@pytest.mark.parametrize("case", _FUSED, ids=str)
def test_strides_change_nothing(case: Case, how: str, of: str) -> None:
    begin, rows = _random(3, 4, 5, 6), [_random(3, 4, 5, 6, seed=k) for k in (1, 2, 3)]
    plain = begin.clone()
    _run(case, [plain], [[row] for row in rows])
    other = _strided(begin, how if of != "grad" else "")
    strides = other.stride()
    optimizer = getattr(optim, case.name)([other], **case.options)
    for row in rows:
        other.grad = _strided(row, how if of != "param" else "")
        optimizer.step()
    assert other.stride() == strides
    assert shmtensor.equal(plain, other)


@pytest.mark.parametrize("case", _FUSED, ids=str)
def test_threads_and_company_change_nothing(case: Case, threads: int) -> None:
    shapes = [(3,), (), (0,), (100, 300), (7, 1), (70_001,), (2, 2, 2), (1,)]
    begin = [_random(*shape, seed=i) for i, shape in enumerate(shapes)]
    rows = [[_random(*s, seed=100 * k + i) for i, s in enumerate(shapes)] for k in (1, 2)]
    together = [p.clone() for p in begin]
    _run(case, together, rows)
    for i, param in enumerate(begin):
        alone = param.clone()
        _run(case, [alone], [[row[i]] for row in rows])
        assert shmtensor.equal(alone, together[i])


@pytest.mark.parametrize("case", _FUSED, ids=str)
def test_a_warm_step_takes_no_memory(case: Case) -> None:
    params = [_random(50, 40, dtype=shmtensor.float32), _random(3, dtype=shmtensor.float32)]
    optimizer = getattr(optim, case.name)(params, **case.options)
    for param in params:
        param.grad = shmtensor.ones_like(param)
    optimizer.step()
    before = memory_stats()["n_allocations"]
    optimizer.step()
    assert memory_stats()["n_allocations"] == before


@pytest.mark.parametrize("case", _FUSED, ids=str)
def test_operators_one_by_one_end_at_the_same_place(case: Case) -> None:
    begin, rows = _random(40, 9), [_random(40, 9, seed=k) for k in range(1, 6)]
    one_call, many = begin.clone(), begin.clone()
    _run(case, [one_call], [[row] for row in rows])
    optimizer = getattr(optim, case.name)([many], **case.options)
    for row in rows:
        many.grad = row
        with shmtensor.enable_grad():
            type(optimizer).step.__wrapped__.__wrapped__(optimizer)
    np.testing.assert_allclose(one_call.numpy(), many.numpy(), rtol=1e-13)


@pytest.mark.parametrize("dtype", [shmtensor.bfloat16, shmtensor.float16], ids=str)
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("case", _SCALED, ids=str)
def test_fused_halves_are_calculated_in_float(case: Case, dtype: Any, strided: bool) -> None:
    begin, grad = _random(20, 40, dtype=dtype), _random(20, 40, seed=1, dtype=dtype)
    param = begin.t().contiguous().t() if strided else begin.clone()
    optimizer = _run(case, [param], [[grad]], fused=True)
    assert all(v.dtype in (dtype, shmtensor.float32) for v in optimizer.state[param].values())
    value = getattr(formulas, case.name.lower())(
        begin.float().numpy(), grad.float().numpy(), {}, 1, **{"eps": 1e-8, **case.options}
    )
    expected = shmtensor.from_numpy(np.asarray(value, dtype="float32")).to(dtype)
    unit = shmtensor.finfo(dtype).eps
    # One rounding to the dtype, which may fall on the other side.
    np.testing.assert_allclose(param.float().numpy(), expected.float().numpy(), rtol=unit, atol=0)


@pytest.mark.parametrize("dtype", [shmtensor.bfloat16, shmtensor.float16], ids=str)
@pytest.mark.parametrize("case", _FUSED, ids=str)
def test_halves_with_gaps_round_as_halves_without(case: Case, dtype: Any) -> None:
    begin = _random(20, 40, dtype=dtype)
    rows = [_random(20, 40, seed=k, dtype=dtype) for k in (1, 2)]
    dense, gaps = begin.clone(), _strided(begin, "with gaps")
    for param in (dense, gaps):
        _run(case, [param], [[row] for row in rows])
    assert shmtensor.equal(dense.nan_to_num(), gaps.nan_to_num())


@pytest.mark.parametrize("dtype", [shmtensor.float32, shmtensor.bfloat16], ids=str)
@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("case", _SCALED, ids=str)
def test_a_scaler_divides_gradients_and_leaves_steps_out(
    case: Case, dtype: Any, strided: bool
) -> None:
    begin, grad = _random(6, 8, dtype=dtype), _random(6, 8, seed=1, dtype=dtype)
    plain, scaled = begin.clone(), _strided(begin, "with gaps" if strided else "")
    _run(case, [plain], [[grad]], fused=True)
    optimizer = getattr(optim, case.name)([scaled], **case.options, fused=True)
    scaled.grad = _strided(grad * 4, "transposed" if strided else "")
    optimizer.grad_scale, optimizer.found_inf = shmtensor.tensor(4.0), shmtensor.tensor(0.0)
    optimizer.step()
    assert shmtensor.equal(plain, scaled)
    assert shmtensor.equal(scaled.grad, grad)
    optimizer.found_inf.fill_(1.0)
    optimizer.step()
    assert shmtensor.equal(plain, scaled)
    assert shmtensor.equal(scaled.grad, grad)
    assert optimizer.state[scaled].get("step", 1) == 1


def _adam(params: list[Any], grads: list[Any], *state: list[Any], **options: Any) -> None:
    given = {
        "lr": 0.1,
        "beta1": 0.9,
        "beta2": 0.99,
        "weight_decay": 0.0,
        "eps": 1e-8,
        "amsgrad": False,
        "maximize": False,
        **options,
    }
    _C._fused_adam_(params, grads, *state, **given)


@pytest.mark.check
def test_operators_of_torch_do_not_count() -> None:
    param, grad = shmtensor.ones(3), shmtensor.full((3,), 2.0)
    first, second, count = shmtensor.zeros(3), shmtensor.zeros(3), shmtensor.tensor(1.0)
    _adam([param], [grad], [first], [second], [], [count])
    assert param.tolist() == pytest.approx([0.9] * 3)
    assert count.item() == 1
    _adam([param], [grad], [first], [second], [], [count], lr=shmtensor.tensor(0.0))
    assert param.tolist() == pytest.approx([0.9] * 3)


def test_operators_refuse_lists_that_do_not_match() -> None:
    ones, count = shmtensor.ones(3), shmtensor.tensor(1.0)
    for lists, text in (
        (([ones], [], [ones], [ones], [], [count]), "of tensors, got 1 and 0"),
        (
            ([ones], [ones], [ones], [ones], [], [count, count]),
            "of tensors, got 1 and 2",
        ),
        (([ones], [ones], [ones.double()], [ones], [], [count]), "must have the same floating"),
        (
            ([ones], [shmtensor.ones(2)], [ones], [ones], [], [count]),
            "must have the same floating",
        ),
    ):
        with pytest.raises(RuntimeError, match=text):
            _adam(*lists)
    with pytest.raises(RuntimeError, match="state_steps must be tensors of one element"):
        _adam([ones], [ones * 1], [ones * 1], [ones * 1], [], [shmtensor.ones(2)])
    leaf = shmtensor.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used"):
        _adam([leaf], [ones * 1], [ones * 1], [ones * 1], [], [count])
    spread = shmtensor.ones(1).expand(3)
    with pytest.raises(RuntimeError, match="cannot be unscaled"):
        _adam([ones], [spread], [ones * 1], [ones * 1], [], [count], grad_scale=count * 2)


@pytest.mark.check
def test_steps_say_when_tensors_do_not_suit_and_do_nothing_then() -> None:
    ones, count = shmtensor.ones(3), shmtensor.tensor(0.0)
    options = {"lr": 0.1, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.0, "maximize": False}
    lists = [[ones], [ones * 1], [ones.double()], [ones * 1], [count]]
    assert _C._adadelta_step_(*lists, **options) is False
    assert (ones.tolist(), count.item()) == ([1.0] * 3, 0)
    lists[2] = [ones * 1]
    assert _C._adadelta_step_(*lists, **options) is True
    assert count.item() == 1


@pytest.mark.parametrize("case", _FUSED, ids=str)
def test_state_of_another_dtype_is_stepped_on_by_operators(case: Case) -> None:
    param = shmtensor.ones(3)
    optimizer = getattr(optim, case.name)([param], **case.options)
    param.grad = shmtensor.ones(3)
    optimizer.step()
    state = optimizer.state[param]
    narrow = [k for k, v in state.items() if v.shape == param.shape]
    state[narrow[0]] = state[narrow[0]].double()
    with contextlib.suppress(RuntimeError):  # an operator may not mix dtypes
        optimizer.step()
    assert shmtensor.isfinite(param).all()


@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop"])
def test_meta_parameters_are_stepped_on_without_data(name: str) -> None:
    param = shmtensor.ones(3, device="meta")
    param.grad = shmtensor.ones(3, device="meta")
    optimizer = getattr(optim, name)([param])
    optimizer.step()
    assert all(v.is_meta or v.dim() == 0 for v in optimizer.state[param].values())
