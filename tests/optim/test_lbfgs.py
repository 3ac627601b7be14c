"""L-BFGS: the Rosenbrock valley, tolerances and limits, its search for step sizes, torch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import shmtensor
from shmtensor.optim import LBFGS


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def start(lib: Any = shmtensor, dtype: str = "float64", n: int = 2) -> Any:
    values = np.resize(np.array([-1.2, 1.0]), n)
    return lib.tensor(values.tolist(), dtype=getattr(lib, dtype)).requires_grad_()


def closure_of(x: Any, optimizer: Any, calls: list[float] | None = None) -> Callable[[], Any]:
    def closure() -> Any:
        optimizer.zero_grad()
        loss = rosenbrock(x)
        loss.backward()
        if calls is not None:
            calls.append(float(loss.detach()))
        return loss

    return closure


@pytest.mark.check
@pytest.mark.parametrize("n", [2, 10])
def test_strong_wolfe_finds_the_end_of_the_valley(n: int) -> None:
    x = start(n=n)
    optimizer = LBFGS([x], max_iter=200, tolerance_change=1e-14, line_search_fn="strong_wolfe")
    first = optimizer.step(closure_of(x, optimizer))
    assert first.item() == pytest.approx(float(rosenbrock(start(n=n))))
    assert x.tolist() == pytest.approx([1.0] * n, abs=1e-6)


def test_without_search_small_steps_go_down() -> None:
    x = start()
    optimizer = LBFGS([x], lr=0.1, max_iter=100)
    before = float(rosenbrock(x))
    for _ in range(5):
        optimizer.step(closure_of(x, optimizer))
    assert float(rosenbrock(x)) < 0.1 * before


def test_a_quadratic_takes_as_many_steps_as_it_has_dims() -> None:
    matrix = shmtensor.diag(shmtensor.tensor([1.0, 4.0, 9.0], dtype=shmtensor.float64))
    x = shmtensor.ones(3, dtype=shmtensor.float64).requires_grad_()
    optimizer = LBFGS([x], line_search_fn="strong_wolfe", max_iter=12, tolerance_change=1e-14)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = x @ matrix @ x / 2
        loss.backward()
        return loss

    optimizer.step(closure)
    assert x.tolist() == pytest.approx([0.0] * 3, abs=1e-6)


def test_several_parameters_are_one_vector() -> None:
    whole, parts = start(n=4), [start(n=4).detach()[k : k + 1] for k in range(4)]
    parts = [part.clone().requires_grad_() for part in parts]
    one, many = (LBFGS(p, line_search_fn="strong_wolfe") for p in ([whole], parts))
    one.step(closure_of(whole, one))

    def closure() -> Any:
        many.zero_grad()
        loss = rosenbrock(shmtensor.cat(parts))
        loss.backward()
        return loss

    many.step(closure)
    assert [p.item() for p in parts] == pytest.approx(whole.tolist(), rel=1e-9)


def test_a_parameter_without_gradient_stays() -> None:
    x, unused = start(), start()
    optimizer = LBFGS([unused, x], line_search_fn="strong_wolfe")
    optimizer.step(closure_of(x, optimizer))
    assert unused.tolist() == [-1.2, 1.0]
    assert x.tolist() != [-1.2, 1.0]


@pytest.mark.parametrize(
    ("options", "n_evals", "n_iter", "ends"),
    [
        ({"max_iter": 4, "max_eval": 5}, 10, 7, [-1.35369604824826, 1.79773274725761]),
        ({"max_iter": 3}, 6, 3, [-1.42013650450017, 2.02371042514471]),
        ({"max_iter": 10, "max_eval": 2}, 5, 2, [-1.42004040113399, 2.02486821486103]),
        ({"max_iter": 10, "max_eval": 1}, 4, 2, [-1.5, 2.0]),
    ],
)
def test_searches_for_step_sizes_keep_to_the_limit(
    options: dict[str, Any], n_evals: int, n_iter: int, ends: list[float]
) -> None:
    x = shmtensor.tensor([-1.5, 2.0], dtype=shmtensor.float64).requires_grad_()
    optimizer = LBFGS([x], line_search_fn="strong_wolfe", **options)
    for _ in range(2):
        optimizer.step(closure_of(x, optimizer))
    state = optimizer.state[x]
    assert (state["func_evals"], state["n_iter"]) == (n_evals, n_iter)
    assert x.tolist() == pytest.approx(ends, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "n_calls"),
    [
        ({"max_iter": 3}, 3),
        ({"max_iter": 20, "max_eval": 5}, 5),
        ({"tolerance_grad": 1e9}, 1),
        ({"tolerance_change": 1e9}, 1),
        ({"max_iter": 0}, 1),
    ],
)
def test_limits_and_tolerances_end_a_step(options: dict[str, Any], n_calls: int) -> None:
    x = start()
    optimizer = LBFGS([x], lr=1e-4, **options)
    calls: list[float] = []
    optimizer.step(closure_of(x, optimizer, calls))
    assert len(calls) == n_calls
    assert optimizer.state[x]["func_evals"] == n_calls


@pytest.mark.check
def test_the_history_is_no_longer_than_asked() -> None:
    x = start(n=6)
    optimizer = LBFGS([x], history_size=3, max_iter=30, line_search_fn="strong_wolfe")
    optimizer.step(closure_of(x, optimizer))
    assert [len(optimizer.state[x][k]) for k in ("old_dirs", "old_stps", "ro")] == [3, 3, 3]


def test_defaults_and_refusals() -> None:
    x = start()
    assert LBFGS([x]).defaults["max_eval"] == 25
    with pytest.raises(ValueError, match=r"doesn't support per-parameter options"):
        LBFGS([{"params": [x]}, {"params": [start()]}])
    with pytest.raises(TypeError, match="closure"):
        LBFGS([x]).step()
    optimizer = LBFGS([x], line_search_fn="golden")
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        optimizer.step(closure_of(x, optimizer))


@pytest.mark.parametrize("twin_of", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_goes_on_the_same_way(twin_of: Callable[[Any], Any]) -> None:
    x = start(n=4)
    optimizer = LBFGS([x], max_iter=5, line_search_fn="strong_wolfe")
    optimizer.step(closure_of(x, optimizer))
    other = twin_of(optimizer)
    y = other.param_groups[0]["params"][0]
    assert y is not x
    optimizer.step(closure_of(x, optimizer))
    other.step(closure_of(y, other))
    assert x.tolist() == y.tolist()


def test_complex_parameters_are_pairs_of_numbers() -> None:
    z = shmtensor.tensor([1 + 2j, -1 - 1j], dtype=shmtensor.complex128).requires_grad_()
    optimizer = LBFGS([z], line_search_fn="strong_wolfe")

    def closure() -> Any:
        optimizer.zero_grad()
        loss = ((z - (3 - 1j)).abs() ** 2).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert z.tolist() == pytest.approx([3 - 1j, 3 - 1j], abs=1e-6)


# --- torch --------------------------------------------------------------------------------------


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
@pytest.mark.parametrize(
    "options",
    [{}, {"history_size": 2}, {"max_eval": 7}, {"lr": 0.5, "tolerance_change": 1e-3}],
    ids=str,
)
def test_losses_are_those_of_torch(search: str | None, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (shmtensor, torch):
        x = start(lib, n=5)
        options = {"lr": 1.0 if search else 1e-3, **options}
        optimizer = lib.optim.LBFGS([x], max_iter=6, line_search_fn=search, **options)
        losses: list[float] = []
        for _ in range(3):
            optimizer.step(closure_of(x, optimizer, losses))
        found.append((losses, optimizer.state[x]["n_iter"], x.tolist()))
    assert len(found[0][0]) == len(found[1][0])
    assert found[0][1] == found[1][1]
    # The valley enlarges a rounding by the hundred in each step.
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-8)
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-8)


def test_state_has_the_entries_of_torch() -> None:
    torch = pytest.importorskip("torch")
    found = []
    for lib in (shmtensor, torch):
        x = start(lib)
        optimizer = lib.optim.LBFGS([x], line_search_fn="strong_wolfe")
        optimizer.step(closure_of(x, optimizer))
        state = optimizer.state_dict()["state"][0]
        found.append({k: type(v).__name__ for k, v in state.items()})
    assert found[0] == found[1]
