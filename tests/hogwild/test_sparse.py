"""Row-sparse steps in `hogwild.run`: sparse gradients with each optimizer that takes them.

Not covered: what sparse gradients are (tests/sparse), dense steps (test_run).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sparse_cases as cases
import waiting

import shmtensor as st
from shmtensor import hogwild

OPTIMIZERS = [cases.sgd, cases.sparse_adam, cases.adagrad]


def run(**options: Any) -> hogwild.Result:
    chosen: dict[str, Any] = {
        "make_model": cases.make_table,
        "train_step": cases.squared_error,
        "data": cases.data(),
        "batch_size": 8,
        "view": "none",
        **options,
    }
    if "seconds" not in chosen:
        chosen.setdefault("steps", 500)
    return hogwild.run(**chosen)


@pytest.mark.parametrize("is_shared", [False, True], ids=["own", "shared"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_rows_are_learned(optimizer: Any, is_shared: bool) -> None:
    result = run(make_optimizer=optimizer, shared_optimizer=is_shared, evaluate=cases.distance)
    assert result.metrics["distance"] < 0.1
    assert result.metrics["untouched"] == 1.0


@pytest.mark.check
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_rows_are_learned_by_spawned_workers(method: str) -> None:
    result = run(make_optimizer=cases.sparse_adam, start_method=method, evaluate=cases.distance)
    assert result.metrics["distance"] < 0.1


def test_staleness_of_sparse_steps_is_counted() -> None:
    result = run(train_step=cases.slow_squared_error, make_optimizer=cases.sgd, steps=200)
    assert all(0 < worker.staleness <= worker.max_staleness for worker in result.workers)


@pytest.mark.check
@pytest.mark.parametrize("optimizer", [cases.sgd, cases.sparse_adam])
def test_snapshots_have_whole_sparse_steps(optimizer: Any, tmp_path: Path) -> None:
    result = run(
        make_model=cases.Tables,
        train_step=cases.both_alike,
        make_optimizer=optimizer,
        evaluate=cases.are_alike,
        seconds=1.5 * waiting.SLOWER,
        folder=tmp_path,
        checkpoint_every=0.01,
    )
    seen = [point.metrics for point in result.points if point.metrics]
    assert len({metrics["count"] for metrics in seen}) > 3
    assert all(metrics["alike"] == 1.0 for metrics in seen)
    saved = st.load(tmp_path / "checkpoint.pt")["model"]
    assert st.equal(saved["a.weight"], saved["b.weight"])


@pytest.mark.parametrize("optimizer", [cases.sparse_adam, cases.adagrad])
def test_the_state_of_rows_is_in_the_checkpoint(optimizer: Any, tmp_path: Path) -> None:
    options = {"make_optimizer": optimizer, "folder": tmp_path}
    first = run(steps=50, **options)
    states = st.load(tmp_path / "checkpoint.pt")["optimizers"]
    assert len(states) == 2
    for state in states:
        (of_table,) = state["state"].values()
        assert of_table["step"] == 50
        tables = [t for t in of_table.values() if getattr(t, "ndim", 0) == 2]
        assert tables and all((t[:-1] != 0).any(1).all() for t in tables)
        assert all((t[-1] == 0).all() for t in tables)
    again = run(steps=500, evaluate=cases.distance, **options)
    assert again.is_resumed and first.steps == 100 and again.steps == 1000
    assert again.metrics["distance"] < 0.1
    (of_table,) = st.load(tmp_path / "checkpoint.pt")["optimizers"][0]["state"].values()
    assert of_table["step"] == 500


def test_a_step_by_hand_changes_rows_inside_an_update() -> None:
    result = run(train_step=_by_hand, evaluate=cases.distance)
    assert result.metrics["distance"] < 0.1 and result.metrics["untouched"] == 1.0


def _by_hand(worker: Any, batch: Any) -> float:
    rows, values = batch
    with st.no_grad():
        errors = values - worker.model.weight[rows]
        with worker.update():
            worker.model.weight.index_add_(0, rows, errors, alpha=0.2)
    return float(errors.abs().mean())
