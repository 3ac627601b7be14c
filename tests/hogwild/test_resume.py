"""Runs that are killed: nothing is left, and the next run goes on from the checkpoint."""

from __future__ import annotations

import os
import re
import signal
import traceback
import warnings
from pathlib import Path
from typing import Any

import hogwild_cases as cases
import pytest
import waiting
from mp_scripts import users_of

import shmtensor as st
from shmtensor import hogwild
from shmtensor.hogwild import _checkpoint, _parent

#: Prints its session and process ids, and trains until it is killed.
_PROGRAM = """
import os, sys, threading, time
import hogwild_cases as cases
from multiprocessing import active_children
from shmtensor import hogwild

method, folder, steps = sys.argv[1:]

def say() -> None:
    while len(active_children()) < 2 or not os.path.exists(folder + "/checkpoint.pt"):
        time.sleep(0.01)
    pids = [p.pid for p in active_children()]
    print(os.environ["SHMTENSOR_MANAGER"], os.getpid(), *pids, flush=True)

if __name__ == "__main__":
    threading.Thread(target=say, daemon=True).start()
    hogwild.run(
        cases.make_model, cases.slow, cases.data(), steps=int(steps), start_method=method,
        evaluate=cases.distance, folder=folder, checkpoint_every=0.05, view="none",
    )
"""


@pytest.mark.check
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_nothing_is_left_of_a_killed_program(scripts: Any, method: str, tmp_path: Path) -> None:
    script = scripts(_PROGRAM, method, str(tmp_path), str(10**9))
    session, parent, *workers = script.line().split()
    os.kill(int(parent), signal.SIGKILL)
    waiting.until(lambda: not any(waiting.runs(int(pid)) for pid in (parent, *workers)))
    waiting.until(lambda: not users_of(session))


def test_an_interrupted_program_saves_and_ends(scripts: Any, tmp_path: Path) -> None:
    script = scripts(_PROGRAM, "fork", str(tmp_path), str(10**9))
    session, _parent, *workers = script.line().split()
    os.killpg(script.process.pid, signal.SIGINT)
    _, errors = script.process.communicate(timeout=100)
    assert errors.count("Traceback") == 1
    last_line = errors.rstrip().rpartition("\n")[2]
    assert re.match(
        r"KeyboardInterrupt: hogwild\.run\(\) was interrupted after \d+ steps", last_line
    )
    assert f"saved in {tmp_path}/checkpoint.pt" in last_line
    waiting.until(lambda: not any(waiting.runs(int(pid)) for pid in workers))
    waiting.until(lambda: not users_of(session))
    assert sum(st.load(tmp_path / "checkpoint.pt")["steps"]) > 0


def test_a_run_goes_on_after_all_were_killed(scripts: Any, tmp_path: Path) -> None:
    script = scripts(_PROGRAM, "fork", str(tmp_path), "100")
    script.line()
    os.killpg(script.process.pid, signal.SIGKILL)
    script.process.wait()
    saved = st.load(tmp_path / "checkpoint.pt")
    result = _again(tmp_path, steps=100)
    assert result.is_resumed
    assert [worker.steps for worker in result.workers] == [100, 100]
    assert result.points[0].seconds <= saved["seconds"] <= result.seconds
    undisturbed = _again(tmp_path / "other", steps=100)
    assert not undisturbed.is_resumed
    assert result.metrics["distance"] < 0.1 and undisturbed.metrics["distance"] < 0.1


def _again(folder: Path, **options: Any) -> hogwild.Result:
    chosen = {
        "make_model": cases.make_model,
        "train_step": cases.squared_error,
        "data": cases.data(),
        "folder": folder,
        "evaluate": cases.distance,
        "view": "none",
        **options,
    }
    return hogwild.run(**chosen)


def test_speeds_after_a_resumption_are_those_of_this_part(tmp_path: Path) -> None:
    first = _again(tmp_path, steps=400)
    again = _again(tmp_path, steps=401, train_step=cases.slow)
    assert [worker.steps for worker in again.workers] == [401, 401]
    assert all(0 < worker.steps_per_second <= 1000 for worker in again.workers)  # 1 ms a step
    assert again.steps > first.steps


def test_an_interrupt_does_not_tell_of_what_was_handled_when_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def watch(*_: object) -> None:
        try:
            raise FileNotFoundError("no checkpoint yet")
        except FileNotFoundError:
            raise KeyboardInterrupt  # noqa: B904 -- as the handler of a signal does

    monkeypatch.setattr(_parent.Parent, "watch", watch)
    with pytest.raises(KeyboardInterrupt, match="the same call continues") as caught:
        _again(tmp_path, steps=20)
    assert "no checkpoint yet" not in "".join(traceback.format_exception(caught.value))


def test_a_finished_run_has_nothing_more_to_do(tmp_path: Path) -> None:
    first = _again(tmp_path, steps=20)
    again = _again(tmp_path, steps=20)
    assert again.is_resumed and again.steps == first.steps
    assert st.equal(again.model.weight, first.model.weight)
    fresh = _again(tmp_path, steps=5, resume=False)
    assert not fresh.is_resumed and fresh.steps == 10


def test_the_average_of_losses_goes_on(tmp_path: Path) -> None:
    _again(tmp_path, train_step=cases.five, steps=20)
    again = _again(tmp_path, train_step=cases.five, steps=40)
    assert again.is_resumed
    assert all(point.loss == 5.0 for point in again.points if point.steps >= 40)


@pytest.mark.check
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"workers": 1}, "with workers 2, this one has 1"),
        ({"seed": 3}, "with seed 0, this one has 3"),
        ({"batch_size": 7}, "with batch_size 32, this one has 7"),
        ({"data": cases.data(301)}, "with samples 300, this one has 301"),
        ({"data": cases.batches}, "with samples 300, this one has 0"),
        ({"make_model": cases.Pair}, "of another model"),
        ({"make_optimizer": cases.adam}, "with optimizer SGD, this one has Adam"),
    ],
)
def test_checkpoints_of_other_runs_are_refused(
    options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    _again(tmp_path, steps=2)
    with pytest.raises(ValueError, match=text):
        _again(tmp_path, steps=2, **options)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"n_nodes": 2}, "of node 0 of 2, and this is node 0 of 1"),
        ({"n_nodes": 2, "node": 1}, "of node 1 of 2, and this is node 0 of 1"),
    ],
)
def test_checkpoints_of_other_nodes_go_on_and_are_told(
    fields: dict[str, int], text: str, tmp_path: Path
) -> None:
    _again(tmp_path, steps=2)
    path = tmp_path / "checkpoint.pt"
    st.save({**st.load(path), **fields}, path)
    with pytest.warns(UserWarning, match=text):
        assert _again(tmp_path, steps=4).is_resumed


def test_checkpoints_that_say_nothing_about_nodes_go_on(tmp_path: Path) -> None:
    _again(tmp_path, steps=2)
    path = tmp_path / "checkpoint.pt"
    saved = st.load(path)
    assert (saved.pop("n_nodes"), saved.pop("node")) == (1, 0)
    st.save(saved, path)
    assert _again(tmp_path, steps=4).is_resumed


def test_a_checkpoint_has_the_step_in_whose_change_a_worker_died(tmp_path: Path) -> None:
    options = {
        "make_model": cases.Counts,
        "train_step": cases.DiesInItsChange("update"),
        "data": st.zeros(8),
        "steps": 3,
        "evaluate": None,
    }
    assert len(_again(tmp_path, **options).lost_workers) == 1
    saved = st.load(tmp_path / "checkpoint.pt")
    assert saved["steps"] == saved["model"]["counts"].tolist() == [1, 3]
    again = _again(tmp_path, **options)
    assert again.model.counts.tolist() == [3, 3] and not again.lost_workers


@pytest.mark.parametrize("kind", ["update", "optimizer"])
def test_a_checkpoint_counts_the_steps_that_it_has(kind: str, tmp_path: Path) -> None:
    result = hogwild.run(
        cases.Counter,
        cases.CountsAndWaits(tmp_path, kind),
        st.zeros(8),
        workers=1,
        steps=3,
        make_optimizer=cases.plain,
        folder=tmp_path,
        checkpoint_every=1e-3,
        on_failure="stop",
        view="none",
    )
    assert result.model.count.item() == 3


def test_the_curve_is_written_while_the_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    result = _again(folder, train_step=cases.WaitsForTheCurve(folder), workers=1, steps=3)
    assert result.workers[0].loss == 0.0
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint.pt", "curve.csv"]
    rows = (folder / "curve.csv").read_text().splitlines()
    assert rows[0].startswith("seconds,steps,loss")
    assert rows[-1].split(",")[1] == "3"


def test_an_optimizer_that_raises_leaves_no_update_open(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a snapshot that an update holds up warns
        result = hogwild.run(
            cases.Counter,
            cases.CatchesAndWaits(tmp_path),
            st.zeros(8),
            workers=1,
            steps=3,
            make_optimizer=cases.raises_once,
            folder=tmp_path,
            checkpoint_every=1e-3,
            on_failure="stop",
            view="none",
        )
    assert result.model.count.item() == -2


def test_a_scheduler_may_be_made_in_a_worker(tmp_path: Path) -> None:
    result = _again(tmp_path, train_step=cases.with_scheduler, workers=1, steps=3)
    assert result.workers[0].state == "finished"


@pytest.mark.parametrize("data", [cases.stops, cases.StopsAtSample()])
def test_a_stop_iteration_of_the_data_is_a_failure(data: Any, tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="all workers died: worker 0 ended with status 1"):
        _again(tmp_path, data=data, workers=1, steps=3)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint"])
def test_files_that_are_no_checkpoints_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "checkpoint.pt").write_bytes(content)
    with pytest.raises(ValueError, match=r"checkpoint\.pt is not a checkpoint"):
        _again(tmp_path, steps=2)


def test_other_files_of_ours_are_refused(tmp_path: Path) -> None:
    kind = {"kind": _checkpoint._KIND}
    for fields in (kind, {**kind, "more": 1}):
        st.save(fields, tmp_path / "checkpoint.pt")
        with pytest.raises(ValueError, match="not a checkpoint of hogwild"):
            _again(tmp_path, steps=20)
    st.save({"weight": st.ones(2)}, tmp_path / "checkpoint.pt")
    with pytest.raises(ValueError, match="not a checkpoint of hogwild"):
        _again(tmp_path, steps=2)
