"""`hogwild.run` in one program: training, evaluation, failing workers, snapshots, bad arguments.

Not covered: programs that are killed (test_resume).
"""

from __future__ import annotations

import csv
import functools
import itertools
import multiprocessing
import os
import re
import time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import alarms
import hogwild_cases as cases
import numpy as np
import pytest
import waiting

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import hogwild, nn
from shmtensor.hogwild._board import Board
from shmtensor.hogwild._evaluation import Evaluator
from shmtensor.hogwild._workers import Workers
from shmtensor.utils.data import TensorDataset

METHODS = ["fork", "spawn", "forkserver"]

pytestmark = pytest.mark.filterwarnings("ignore:hogwild.run.*will wait for each other")


def run(train_step: Any = cases.squared_error, data: Any = None, **options: Any) -> hogwild.Result:
    options.setdefault("view", "none")
    if not {"epochs", "steps", "seconds"} & options.keys():
        options["steps"] = 100
    before = set(multiprocessing.active_children())
    try:
        return hogwild.run(
            options.pop("make_model", cases.make_model),
            train_step,
            cases.data() if data is None else data,
            **options,
        )
    finally:
        assert set(multiprocessing.active_children()) == before


@pytest.mark.parametrize("method", METHODS)
def test_a_plane_is_found(method: str) -> None:
    result = run(start_method=method, epochs=60, evaluate=cases.distance)
    assert result.metrics["distance"] < 1e-2
    assert [worker.state for worker in result.workers] == ["finished"] * 2
    assert result.steps == sum(worker.steps for worker in result.workers) == 2 * 5 * 60
    assert result.points[-1].steps == result.steps
    assert not result.lost_workers and not result.is_resumed
    assert result.seconds > 0 and result.steps_per_second > 0
    assert all(parameter.is_shared() for parameter in result.model.parameters())


@pytest.mark.check
@pytest.mark.parametrize(
    "data",
    [cases.data(), TensorDataset(*cases.data()), [*zip(*cases.data(), strict=True)], cases.batches],
    ids=["tensors", "rows", "samples", "function"],
)
def test_data_may_be(data: Any) -> None:
    assert run(data=data, steps=400, evaluate=cases.distance).metrics["distance"] < 1e-2


@pytest.mark.parametrize("is_shared", [False, True])
def test_optimizers_are_of_each_or_of_all(is_shared: bool) -> None:
    result = run(
        make_optimizer=cases.adam, shared_optimizer=is_shared, steps=300, evaluate=cases.distance
    )
    assert result.metrics["distance"] < 5e-2


def test_workers_share_each_epoch() -> None:
    shards = hogwild._data.Shards((st.arange(23),), 4, 3, seed=5)

    class Worker:
        rank = 0

    per_epoch = shards.steps_per_epoch
    assert per_epoch == 2
    seen: list[list[int]] = []
    for rank in range(3):
        Worker.rank = rank
        batches = shards.batches(Worker, 0)
        seen.append([int(i) for _ in range(2 * per_epoch) for i in next(batches)])
        again = shards.batches(Worker, 3)
        assert next(again).tolist() == seen[-1][-len(next(shards.batches(Worker, 3))) :]
    first_epoch = [i for mine in seen for i in mine[: len(mine) // 2]]
    assert sorted(first_epoch) == list(range(23))


# --- workers that die ----------------------------------------------------------------------------


def test_the_others_finish_when_a_worker_is_killed(caplog: Any) -> None:
    train_step = functools.partial(
        cases.killed_at_10_before_the_other_is_at_20, multiprocessing.Event()
    )
    result = run(train_step, evaluate=cases.distance)
    (lost,) = result.lost_workers
    assert (lost.rank, lost.steps, lost.end) == (0, 10, "killed by SIGKILL")
    assert result.workers[1].steps == 100
    assert result.metrics["distance"] < 0.1
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("shmtensor.hogwild", "WARNING")
    assert record.getMessage() == "hogwild: worker 0 killed by SIGKILL after 10 steps"


def test_a_killed_worker_is_started_again() -> None:
    result = run(cases.killed_at_10, on_failure="restart")
    assert [w.steps for w in result.workers] == [100, 100]
    assert [w.restarts for w in result.workers] == [1, 0]
    assert not result.lost_workers


def test_restarts_have_an_end() -> None:
    with pytest.raises(RuntimeError, match="all workers died: worker 0 killed by SIGKILL after 0"):
        run(cases.always_killed, on_failure="restart", max_restarts=2)


def test_one_death_may_stop_all() -> None:
    with pytest.raises(RuntimeError, match=r"worker 0 \(pid \d+\) killed by SIGKILL"):
        run(cases.killed_at_10, on_failure="stop", steps=10**9)


def test_a_worker_that_raises_shows_where(capfd: Any) -> None:
    result = run(cases.raises)
    assert result.lost_workers[0].end == "ended with status 1"
    assert "LookupError: no such thing" in capfd.readouterr().err


def test_a_worker_that_dies_in_an_update_holds_nobody_up(tmp_path: Path) -> None:
    result = run(
        cases.killed_inside_an_update,
        evaluate=cases.distance,
        folder=tmp_path,
        checkpoint_every=0.01,
        on_failure="restart",
        max_restarts=1,
    )
    assert [w.steps for w in result.workers] == [100, 100] and "distance" in result.metrics


@pytest.mark.parametrize("kind", ["update", "optimizer"])
def test_a_step_is_not_repeated_if_its_worker_died_in_its_change(kind: str) -> None:
    result = run(
        cases.DiesInItsChange(kind),
        data=st.zeros(8),
        make_model=cases.Counts,
        make_optimizer=cases.plain,
        workers=1,
        steps=3,
        on_failure="restart",
    )
    (worker,) = result.workers
    assert (worker.restarts, worker.steps, worker.loss) == (1, 3, 5.0)
    assert result.model.counts[0].item() == 3


@pytest.mark.parametrize("has_changed", [False, True])
@pytest.mark.parametrize("kind", ["update", "optimizer"])
def test_a_step_that_raises_counts_if_it_has_changed_something(
    kind: str, has_changed: bool
) -> None:
    with pytest.raises(RuntimeError, match=f"ended with status 1 after {int(has_changed)} steps"):
        run(
            functools.partial(cases.change_and_raise, kind, has_changed),
            data=st.zeros(8),
            make_model=cases.Counts,
            make_optimizer=functools.partial(cases.RaisesInItsChange, has_changed),
            workers=1,
            steps=3,
        )


def test_an_update_ends_before_a_process_replaces_the_one_that_died_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board = Board(1)
    turns = []

    class Ended:
        def start(self) -> None:
            turns.append(board.columns["turn"][0].item())

        def has_ended(self) -> bool:
            return True

    monkeypatch.setattr(Workers, "_child", lambda self, rank: Ended())
    workers = Workers(mp.get_context("fork"), board, "restart", max_restarts=1)
    job: Any = None
    workers.start(job)
    board.begin_update(0)
    workers.look_after()
    assert turns == [0, 2]


@pytest.mark.check
def test_an_evaluation_that_fails_ends_the_run(capfd: Any) -> None:
    with pytest.raises(RuntimeError, match="the evaluation ended with status 1"):
        run(evaluate=cases.fails, steps=10**9)
    assert "LookupError: no score" in capfd.readouterr().err


# --- snapshots -----------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [cases.count_up, cases.count_up_with_a_step])
def test_snapshots_are_whole(step: Any, tmp_path: Path) -> None:
    result = run(
        step,
        data=st.zeros(2, 1),
        make_model=cases.Pair,
        batch_size=1,
        seconds=2.0 * waiting.SLOWER,
        evaluate=cases.is_whole,
        folder=tmp_path,
        checkpoint_every=0.01,
    )
    seen = [point.metrics for point in result.points if point.metrics]
    assert len({metrics["count"] for metrics in seen}) > 3
    assert all(metrics["whole"] == 1.0 for metrics in seen)
    saved = st.load(tmp_path / "checkpoint.pt")["model"]
    assert st.equal(saved["a"], saved["b"])


# --- what is written -----------------------------------------------------------------------------


def test_curve_goes_to_files(tmp_path: Path) -> None:
    result = run(evaluate=cases.distance)
    result.write_csv(tmp_path / "curve.csv")
    with open(tmp_path / "curve.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[-1].keys() == {"seconds", "steps", "loss", "distance"}
    assert int(rows[-1]["steps"]) == result.steps
    pytest.importorskip("matplotlib")
    result.write_plot(tmp_path / "curve.png", title="a plane")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_files_of_a_run_may_be_links(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    names = ["checkpoint.pt", "curve.csv"]
    for name in names:
        (folder / name).symlink_to(elsewhere / name)
    result = run(folder=folder)
    assert all((folder / name).is_symlink() for name in names)
    assert sorted(path.name for path in elsewhere.iterdir()) == names
    assert st.load(elsewhere / "checkpoint.pt")["steps"] == [w.steps for w in result.workers]
    assert (elsewhere / "curve.csv").read_text().startswith("seconds,steps,loss")


def test_curve_does_not_replace_a_pipe(tmp_path: Path) -> None:
    result = run()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe: not a regular file"):
        result.write_csv(tmp_path / "pipe")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


@pytest.mark.parametrize("view", ["plain", "table", "auto"])
def test_views_show_workers(view: str, capsys: Any) -> None:
    if view == "table":
        pytest.importorskip("rich")
    result = run(view=view, evaluate=cases.distance)
    shown = capsys.readouterr().out
    assert "finished" in shown
    last = shown.rpartition("distance ")[2].split()[0]
    assert last == f"{result.metrics['distance']:.4g}"


# --- bad arguments -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workers": 0}, "workers must be at least 1, got 0"),
        ({"batch_size": -1}, "batch_size must be at least 1, got -1"),
        ({"epochs": 0}, "epochs must be above 0, got 0"),
        ({"seconds": float("nan")}, "seconds must be above 0, got nan"),
        ({"steps": 0}, "steps must be above 0, got 0"),
        ({"steps": -(10**400)}, "steps must be above 0, got -1000"),
        ({"seconds": -(10**400)}, "seconds must be above 0, got -1000"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"max_restarts": -1}, "max_restarts must be at least 0, got -1"),
        ({"evaluate_every": -1.0}, "evaluate_every must be 0 or more, got -1.0"),
        ({"checkpoint_every": float("nan")}, "checkpoint_every must be 0 or more, got nan"),
        ({"epochs": 1, "steps": 1}, "not both"),
        ({"on_failure": "ignore"}, "one of continue, restart, stop, got 'ignore'"),
        ({"view": "loud"}, "one of auto, table, plain, none, got 'loud'"),
        ({"data": st.zeros(1, 3)}, "2 workers cannot share 1 samples"),
        ({"data": cases.batches, "epochs": 1}, "has no epochs"),
    ],
)
def test_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        run(**options)


@pytest.mark.parametrize("name", ["workers", "batch_size", "seed", "threads", "max_restarts"])
def test_numbers_that_are_no_integers_are_refused_at_once(name: str) -> None:
    for wrong in (1.5, float("nan"), "1"):
        with pytest.raises(TypeError, match=f"{name} must be an integer, got {wrong!r}"):
            run(**{name: wrong})


@pytest.mark.parametrize("name", ["epochs", "seconds", "evaluate_every", "checkpoint_every"])
def test_what_is_no_number_is_refused_at_once(name: str) -> None:
    for wrong in ("1", [1.0], 1j):
        with pytest.raises(TypeError, match=re.escape(f"{name} must be a number, got {wrong!r}")):
            run(**{name: wrong})


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 10**400, "seconds": 0.2},
        {"epochs": 10**400, "seconds": Fraction(1, 5)},
        {"seconds": Decimal("0.2"), "evaluate_every": Decimal(1), "checkpoint_every": Decimal(1)},
    ],
)
def test_numbers_may_be_of_any_type_and_size(options: dict[str, Any], tmp_path: Path) -> None:
    result = run(**options, evaluate=cases.distance, folder=tmp_path)
    assert result.steps > 0 and not result.lost_workers


def test_steps_are_whole() -> None:
    for wrong in (1.5, float("inf")):
        with pytest.raises(TypeError, match=f"steps must be an integer, got {wrong!r}"):
            run(steps=wrong)


@pytest.mark.parametrize("epochs", [float("inf"), 1e300])
def test_epochs_without_an_end_end_with_the_time(epochs: float) -> None:
    result = run(epochs=epochs, seconds=0.5, checkpoint_every=float("inf"))
    assert result.steps > 0


@pytest.mark.parametrize("seed", [np.int64(3), -3, 2**70])
def test_seeds_may_be_any_integers(seed: Any) -> None:
    assert run(seed=seed, workers=np.int64(1), batch_size=np.int32(8), steps=2).steps == 2


def test_refused_data_and_no_end() -> None:
    with pytest.raises(TypeError, match="got int"):
        run(data=3)
    with pytest.raises(TypeError, match="a function that returns a module, got a Linear itself"):
        hogwild.run(nn.Linear(2, 1), cases.squared_error, cases.data(), steps=1)
    with pytest.raises(ValueError, match="one of epochs, steps and seconds"):
        hogwild.run(cases.make_model, cases.squared_error, cases.data())


def test_more_workers_than_processors_are_told() -> None:
    n = len(os.sched_getaffinity(0)) + 1
    with pytest.warns(UserWarning, match=f"{n} workers for {n - 1} processors"):
        run(workers=n, steps=3)


def test_the_last_point_is_of_the_final_model() -> None:
    result = run()
    last = result.points[-1]
    assert (last.steps, last.seconds) == (result.steps, result.seconds)
    assert last.loss == np.mean([worker.loss for worker in result.workers])
    seconds = [point.seconds for point in result.points]
    assert seconds == sorted(set(seconds))


def test_metrics_belong_to_the_moment_of_the_snapshot() -> None:
    result = run(cases.slow, evaluate=cases.norm_after_a_while, seconds=1.5)
    points = result.points
    assert [p.seconds for p in points] == sorted(p.seconds for p in points)
    assert [p.steps for p in points] == sorted(p.steps for p in points)
    seen = [p.metrics["norm"] for p in points if p.metrics]
    # The metrics of one snapshot are those of all points until the next one.
    changes = sum(a != b for a, b in itertools.pairwise(seen))
    assert len(set(seen)) == changes + 1 >= 2
    assert points[-1].metrics == {"norm": result.model.weight.norm().item()}


def test_only_the_final_model_is_measured_where_that_is_wanted() -> None:
    result = run(cases.slow, evaluate=cases.distance, evaluate_every=float("inf"))
    assert [point for point in result.points if point.metrics] == [result.points[-1]]


@pytest.mark.check
def test_an_alarm_while_an_evaluation_is_waited_for() -> None:
    evaluator = Evaluator(mp.get_context("fork"), cases.make_model, slowly, cases.make_model())
    try:
        evaluator.begin()
        with alarms.comes(0.2, TimeoutError("of the program")), pytest.raises(TimeoutError):
            evaluator.result(60)
        assert evaluator.result(60) == {"score": 1.0}
    finally:
        evaluator.end()


def slowly(model: nn.Module) -> float:
    time.sleep(1)
    return 1.0
