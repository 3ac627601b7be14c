"""Tangents of every entry: against the vjp, against central differences, and in place.

With J the Jacobian at a case's arguments, v a direction of them and w weights of the results,
``<w, J v>`` by forward mode equals ``<J^H w, v>`` by backward.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops.spec import kinds
from ops.spec.arguments import seed_of
from ops.spec.cases import called, cases
from ops.spec.entries import REFUSALS, form, overload
from ops.spec.test_gradients import (
    STEP,
    Problem,
    _agree,
    _array,
    _gradients,
    _is_differentiable,
    _moved,
    _product,
    _tensors,
    _weights,
)

import shmtensor as st
from codegen.spec.model import OperatorEntry
from shmtensor.autograd import forward_ad as fwAD

EXACT = 1e-7  # both products are in double precision
MOST = 2  # cases of an entry
# Their gradient has no tangent, since its second derivative has none.
NO_SECOND = ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
# A tangent has another storage, and no rule for a new geometry in place.
NO_TANGENT = ("as_strided_", "_as_strided_at_")


def _duals(problem: Problem, steps: list[np.ndarray]) -> list[Any]:
    leaves = problem.inputs(problem.values)
    tangents = [_tensors([s], [x])[0] for s, x in zip(steps, leaves, strict=True)]
    return [fwAD.make_dual(x, t) for x, t in zip(leaves, tangents, strict=True)]


def _tangent(y: Any) -> np.ndarray:
    tangent = fwAD.unpack_dual(y).tangent
    return np.zeros(tuple(y.shape)) if tangent is None else _array(tangent)


def _weighed(weights: list[np.ndarray], tangents: list[np.ndarray]) -> float:
    pairs = zip(weights, tangents, strict=True)
    return float(sum(np.real(np.vdot(w, t)) for w, t in pairs))


def _has_tangents(entry: OperatorEntry) -> bool:
    # An operator whose second derivative raises has no tangent without a formula.
    by_vjps = entry.jvp_kind == "vjps" and entry.double_backward not in ("", "zero")
    if entry.name in NO_TANGENT:
        return False
    return _is_differentiable(entry) and entry.jvp_kind != "missing" and not by_vjps


def _problems(entry: OperatorEntry) -> list[tuple[Problem, np.random.Generator]]:
    found = []
    most = min(MOST, kinds.GRADIENT_CASES.get(entry.name) or MOST)
    for one in cases(entry)[:most]:
        for dtype in ("float64", "complex128") if entry.variants else ("float64",):
            rng = np.random.default_rng(seed_of(entry.name, 98))
            try:
                problem = Problem(entry, one, dtype)
                inputs = problem.inputs(problem.values)
                if inputs and problem.outputs(inputs):
                    found.append((problem, rng))
            except REFUSALS:
                continue
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", [e for e in called() if _has_tangents(e)], ids=lambda e: e.name)
def test_tangent(entry: OperatorEntry) -> None:
    for problem, rng in _problems(entry):
        steps = [problem.direction(k, rng) for k in range(len(problem.values))]
        with fwAD.dual_level():
            outputs = problem.outputs(_duals(problem, steps))
            weights = _weights(outputs, rng)
            found = _weighed(weights, [_tangent(y) for y in outputs])
        inputs = problem.inputs(problem.values)
        grads = _gradients(problem, inputs, weights)
        by_vjp = _product(steps, grads)
        scale = max(1.0, abs(by_vjp), sum(float(np.abs(_array(g)).sum()) for g in grads))
        assert abs(found - by_vjp) <= EXACT * scale, f"{found} by tangents, {by_vjp} by backward"
        high = _product(weights, problem.outputs(_moved(problem, steps, STEP)))
        low = _product(weights, problem.outputs(_moved(problem, steps, -STEP)))
        _agree(found, (high - low) / (2 * STEP), abs(high) * 1e-3, "tangent")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", [e for e in called() if _has_tangents(e)], ids=lambda e: e.name)
def test_tangent_of_gradient(entry: OperatorEntry) -> None:
    """Forward over reverse: the gradient of dual tensors has the tangent that differences say."""
    if entry.double_backward not in ("", "zero") or entry.name in NO_SECOND:
        return
    for problem, rng in _problems(entry)[:1]:
        steps = [problem.direction(k, rng) for k in range(len(problem.values))]
        weights = _weights(problem.outputs(problem.inputs(problem.values)), rng)
        with fwAD.dual_level():
            grads = _gradients(problem, _duals(problem, steps), weights)
            second = _weights(grads, rng)
            found = _weighed(second, [_tangent(g) for g in grads])
        high = _product(second, _gradients(problem, _moved(problem, steps, STEP), weights))
        low = _product(second, _gradients(problem, _moved(problem, steps, -STEP), weights))
        _agree(found, (high - low) / (2 * STEP), abs(high) * 1e-3, "tangent of the gradient")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "entry",
    [e for e in called() if _has_tangents(e) and form(e, "inplace")],
    ids=lambda e: e.name,
)
def test_tangent_in_place(entry: OperatorEntry) -> None:
    """In place the tangent is the same, and the tensor given to make_dual has it no more."""
    operator = form(entry, "inplace")
    assert operator is not None
    for problem, rng in _problems(entry):
        steps = [problem.direction(k, rng) for k in range(len(problem.values))]
        with fwAD.dual_level(), st.no_grad():
            made: list[Any] = []
            for call in (overload(entry), overload(operator)):
                args, kwargs = problem.arguments([d.clone() for d in _duals(problem, steps)])
                try:
                    made.append(call(*args, **kwargs))
                except REFUSALS:
                    break
            if len(made) < 2 or made[0].shape != made[1].shape or made[0].dtype != made[1].dtype:
                continue
            expected, found = (_tangent(y) for y in made)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
