"""examples/char_lm.py as a user runs it: both models, a sample, processes that die, bad data."""

from __future__ import annotations

import csv
import os
import re
import signal
from pathlib import Path

import pytest
import waiting
from programs import EXAMPLES, finished, refused

from shmtensor.utils.safetensors import load_file

PROGRAM = EXAMPLES / "char_lm.py"
METRIC = "bits a character"
# A model that is quick to train on a text that is easy to learn.
SMALL = ("--width", "24", "--context", "16", "--sample", "60", "--lr", "0.01")
FOREVER = ("--steps", "100000000")

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    """A text of one line, again and again."""
    path = tmp_path / "counting.txt"
    path.write_text("one, two, three and four.\n" * 2000)
    return path


def quality(text: str) -> float:
    found = re.search(rf"(?m)^{METRIC} ([\d.]+)", text)
    assert found, text
    return float(found.group(1))


@pytest.mark.parametrize(
    ("model", "method"), [("transformer", "fork"), ("lstm", "fork"), ("lstm", "spawn")]
)
def test_an_easy_text_is_learned_and_said(start, counting, tmp_path, model, method):
    options = ("--model", model, "--start-method", method, "--temperature", "0.2")
    text = finished(
        start("--data", str(counting), *SMALL, *options, "--steps", "1200", "--prompt", "one, ")
    )
    assert quality(text) < 0.8
    assert "two, three and four.\none, two" in text
    assert (tmp_path / "run" / "sample.txt").read_text().startswith("one, two, three")
    with open(tmp_path / "run" / "curve.csv") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1][METRIC]) == pytest.approx(quality(text), abs=1e-3)
    state = load_file(tmp_path / "run" / "model.safetensors")
    assert state["out.weight"].shape == (97, 24)


@pytest.mark.skipif(waiting.SLOWER > 1, reason="trains for minutes under a sanitizer")
@pytest.mark.slow
def test_the_stated_quality_is_reached_on_the_standard_library(start):
    assert "reached: " in finished(start("--quick", "--check", "--model", "lstm"))


def test_a_killed_worker_holds_nobody_up(start, counting):
    run = start("--data", str(counting), *SMALL, *FOREVER, "--seconds", "5")
    os.kill(run.training_pids(METRIC)[0], signal.SIGKILL)
    text = finished(run)
    assert "worker 0 killed by SIGKILL after" in text
    assert "1 of 2 workers finished" in text
    assert quality(text) < 2


def test_a_run_goes_on_after_everything_was_killed(start, counting, tmp_path):
    options = ("--data", str(counting), *SMALL, *FOREVER)
    first = start(*options, "--checkpoint-every", "0.2")
    first.training_pids(METRIC)
    first.wait_for(r"^ +[3-9]\.\d s ")
    first.kill_all()
    assert first.nothing_is_left()
    text = finished(start(*options, "--seconds", "2", folder="--resume"))
    assert quality(text) < 2
    with open(tmp_path / "run" / "curve.csv") as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    assert seconds == sorted(seconds)
    assert seconds[0] < 1 and seconds[-1] > 3
    errors = refused(
        PROGRAM, tmp_path, *options, "--model", "lstm", "--resume", str(tmp_path / "run")
    )
    assert "is of another model" in errors


def test_a_killed_parent_leaves_nothing(start, counting):
    run = start("--data", str(counting), *SMALL, *FOREVER)
    run.training_pids(METRIC)
    assert len(run.sessions()) == 1
    run.process.kill()
    run.process.wait()
    assert run.nothing_is_left()


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("absent", None, "no such file or folder"),
        ("empty", "", "no .md, .py, .rst, .txt files there"),
        ("short.txt", "a few words", "too few for rows of 65"),
    ],
)
def test_bad_data_is_one_line(tmp_path, name, content, text):
    path = tmp_path / name
    if content == "":
        path.mkdir()
    elif content is not None:
        path.write_text(content)
    errors = refused(PROGRAM, tmp_path, "--data", str(path), "--out", str(tmp_path / "run"))
    assert text in errors and errors.startswith("char_lm: ") and errors.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_run_without_a_checkpoint_is_not_resumed(counting, tmp_path):
    errors = refused(PROGRAM, tmp_path, "--data", str(counting), "--resume", str(tmp_path / "none"))
    assert "none has no checkpoint.pt to resume from" in errors and errors.count("\n") == 1
    assert not (tmp_path / "none" / "curve.csv").exists()


def test_bad_options_are_refused(tmp_path):
    for arguments, text in (
        (["--width", "30"], "--width must be a multiple of 4"),
        (["--temperature", "0"], "--temperature"),
        (["--prompt", ""], "--prompt"),
        (["--steps", "-3"], "--steps"),
    ):
        assert text in refused(PROGRAM, tmp_path, *arguments)
