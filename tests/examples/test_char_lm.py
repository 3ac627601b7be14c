"""examples/char_lm.py as a user runs it: both models, a sample, processes that die, bad data."""

from __future__ import annotations

import csv
import os
import re
import signal
from pathlib import Path

import pytest
import waiting
from programs import EXAMPLES, check_refusals, finished, refusals, to_its_end

from shmtensor.utils.safetensors import load_file

PROGRAM = EXAMPLES / "char_lm.py"
METRIC = "bits a character"
# A model that is quick to train on a text that is easy to learn.
SMALL = ("--width", "24", "--context", "16", "--sample", "60", "--lr", "0.01")
FOREVER = ("--steps", "100000000")

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of one line, again and again."""
    path = tmp_path_factory.mktemp("counting") / "counting.txt"
    path.write_text("one, two, three and four.\n" * 2000)
    return path


def quality(text: str) -> float:
    found = re.search(rf"(?m)^{METRIC} ([\d.]+)", text)
    assert found, text
    return float(found.group(1))


EASY = (*SMALL, "--temperature", "0.2", "--steps", "1200", "--prompt", "one, ")


@pytest.fixture(scope="module")
def learned(counting: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a transformer's run of forked workers printed, and its folder."""
    out = tmp_path_factory.mktemp("learned") / "run"
    return to_its_end(PROGRAM, out, "--data", str(counting), *EASY), out


def test_an_easy_text_is_learned_and_said(learned):
    check_text(*learned)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_an_lstm_learns_it_too(start, counting, tmp_path, method):
    options = ("--data", str(counting), "--model", "lstm", "--start-method", method)
    check_text(finished(start(*options, *EASY)), tmp_path / "run")


def check_text(text: str, out: Path) -> None:
    assert quality(text) < 0.8
    assert "two, three and four.\none, two" in text
    assert (out / "sample.txt").read_text().startswith("one, two, three")
    with open(out / "curve.csv") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1][METRIC]) == pytest.approx(quality(text), abs=1e-3)
    state = load_file(out / "model.safetensors")
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


def test_a_killed_parent_leaves_nothing(start, counting):
    run = start("--data", str(counting), *SMALL, *FOREVER)
    run.training_pids(METRIC)
    assert len(run.sessions()) == 1
    run.process.kill()
    run.process.wait()
    assert run.nothing_is_left()


def test_bad_input_is_one_line(learned, counting, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "short.txt").write_text("a few words")
    resumed = ("--resume", str(learned[1]), "--model", "lstm")
    cases = {
        ("--data", "absent"): "no such file or folder",
        ("--data", "empty"): "no .md, .py, .rst, .txt files there",
        ("--data", "short.txt"): "too few for rows of 65",
        ("--resume", "none"): "none has no checkpoint.pt to resume from",
        ("--data", str(counting), *SMALL, *resumed): "is of another model",
    }
    for errors, text in zip(refusals(PROGRAM, tmp_path, *cases), cases.values(), strict=True):
        assert text in errors and errors.startswith("char_lm: ")
        assert errors.count("\n") == 1 or text == "is of another model"  # each size is named
    assert not (tmp_path / "runs").exists() and not (tmp_path / "none").exists()


def test_bad_options_are_refused(tmp_path):
    cases = {
        ("--width", "30"): "--width must be a multiple of 4",
        ("--temperature", "0"): "--temperature",
        ("--prompt", ""): "--prompt",
        ("--steps", "-3"): "--steps",
    }
    check_refusals(PROGRAM, tmp_path, cases)
