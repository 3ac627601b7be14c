"""examples/hogwild_sparse.py as a user runs it: both tasks, with locks and without, processes that
die, bad data.
"""

from __future__ import annotations

import csv
import importlib.util
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import waiting
from programs import EXAMPLES, check_refusals, finished, refusals, to_its_end

PROGRAM = EXAMPLES / "hogwild_sparse.py"
FOREVER = ("--epochs", "100000")
RATINGS = ("--task", "factorisation")

pytestmark = pytest.mark.timeout(300)


def quality(text: str, metric: str) -> float:
    found = re.search(rf"processes.* {metric} ([\d.]+) ", text)
    assert found, text
    return float(found.group(1))


@pytest.fixture(scope="module")
def classified(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a quick run of logistic regression printed, and its folder."""
    out = tmp_path_factory.mktemp("classified") / "run"
    return to_its_end(PROGRAM, out, "--quick", "--check"), out


def test_the_stated_accuracy_is_reached(classified):
    check_files(*classified, "accuracy")


def test_the_stated_error_is_reached(start, tmp_path):
    text = finished(start(*RATINGS, "--start-method", "spawn", "--quick", "--check"))
    check_files(text, tmp_path / "run", "error")


def check_files(text: str, out: Path, metric: str) -> None:
    with open(out / "curve.csv") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1][metric]) == pytest.approx(quality(text, metric), abs=1e-3)
    if importlib.util.find_spec("matplotlib"):
        assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"


def test_speed_up_has_the_same_quality_three_times(start):
    text = finished(start(*RATINGS, "--speed-up", "--quick", "--check"))
    found = re.findall(r"error ([\d.]+) +\d+ steps/s  ([\d.]+) of 1 process", text)
    assert len(found) == 3, text
    assert all(float(error) <= 0.55 for error, _ in found)


@pytest.mark.parametrize("mode", [(), ("--locked",)], ids=["free", "locked"])
def test_a_killed_worker_holds_nobody_up(start, mode):
    run = start(*FOREVER, *mode, "--seconds", str(4 * waiting.SLOWER), "--decay", "1")
    os.kill(run.training_pids("accuracy")[0], signal.SIGKILL)
    text = finished(run)
    assert "worker 0 killed by SIGKILL after" in text
    assert "1 of 2 workers finished" in text
    assert quality(text, "accuracy") >= 0.85


def test_a_run_goes_on_after_everything_was_killed(start, tmp_path):
    first = start(*RATINGS, *FOREVER, "--decay", "0.999", "--checkpoint-every", "0.2")
    first.training_pids("error")
    first.wait_for(r"^ +[2-9]\.\d s ")
    first.kill_all()
    assert first.nothing_is_left()
    seconds = str(3 * waiting.SLOWER)
    again = start(*RATINGS, *FOREVER, "--decay", "0.999", "--seconds", seconds, folder="--resume")
    assert quality(finished(again), "error") <= 0.75
    with open(tmp_path / "run" / "curve.csv") as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    assert seconds == sorted(seconds)
    assert seconds[0] < 1 and seconds[-1] > 3


def test_a_killed_parent_leaves_nothing(start):
    run = start(*FOREVER)
    run.training_pids("accuracy")
    assert len(run.sessions()) == 1
    run.process.kill()
    run.process.wait()
    assert run.nothing_is_left()


# --- data of the user's own, and what is refused ------------------------------------------------


def test_ratings_are_read_from_csv(start, tmp_path):
    rng = np.random.default_rng(0)
    users, items = rng.integers(0, 40, 4000), rng.integers(0, 30, 4000)
    likes = rng.standard_normal((2, 40))
    lines = [
        f"u{u},i{i},{3 + likes[0, u] + (i % 5 - 2) * likes[1, u]:.3f},2020"
        for u, i in zip(users, items, strict=True)
    ]
    path = tmp_path / "ratings.csv"
    path.write_text("userId,movieId,rating,timestamp\n" + "\n".join(lines))
    text = finished(start(*RATINGS, "--data", str(path), "--epochs", "60", "--decay", "0.97"))
    assert "ratings.csv: 3600 to train on, 400 held out" in text
    assert quality(text, "error") < 0.3


def test_bad_data_is_one_line(tmp_path):
    contents = {
        "columns.csv": "1,2\n3,4\n",
        "few.csv": "user,item,rating\n1,2,3\n",
        "nan.csv": "1,2,nan\n" * 20,
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    texts = {
        "absent.csv": "No such file",
        "columns.csv": "row 2 is not user,item,rating: ['3', '4']",
        "few.csv": "at least 10 ratings are needed, got 1",
        "nan.csv": "not finite",
    }
    lines = [(*RATINGS, "--data", name, "--out", "run") for name in texts]
    for errors, text in zip(refusals(PROGRAM, tmp_path, *lines), texts.values(), strict=True):
        assert text in errors and errors.startswith("hogwild_sparse: ") and errors.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_of_another_run_is_refused(classified, tmp_path):
    others = (RATINGS, ("--batch", "7"), ("--workers", "1"))
    lines = [(*other, "--resume", str(classified[1])) for other in others]
    *others_said, none_said = refusals(PROGRAM, tmp_path, *lines, ("--resume", "none"))
    for errors in others_said:
        assert "is of a" in errors and errors.count("\n") == 1
    assert "none has no checkpoint.pt to resume from" in none_said and none_said.count("\n") == 1
    assert not (tmp_path / "none").exists()


def test_bad_options_are_refused(tmp_path):
    cases = {
        ("--workers", "0"): "--workers",
        ("--lr", "-1"): "--lr",
        ("--data", "x.csv"): "--data is for --task factorisation",
        ("--locked", "--speed-up"): "not allowed with",
        ("--speed-up", "--resume", "x"): "--speed-up makes three",
    }
    check_refusals(PROGRAM, tmp_path, cases)
