"""examples/word_vectors.py as a user runs it: quality, neighbours, processes that die, bad data."""

from __future__ import annotations

import csv
import os
import re
import signal
from pathlib import Path

import numpy as np
import pytest
import waiting
from programs import EXAMPLES, finished, refusals, to_its_end

PROGRAM = EXAMPLES / "word_vectors.py"
FOREVER = ("--epochs", "100000")
METRIC = "pairs above random"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts of two subjects, whose words are never near each other.

    Half of the random words are of the same subject, so no more than 0.75 can be reached.
    """
    rng = np.random.default_rng(0)
    subjects = [
        [f"{a}{b}" for a in letters for b in "abcdefghij"] for letters in ("klmno", "pqrst")
    ]
    folder = tmp_path_factory.mktemp("notes")
    for i in range(200):
        (folder / f"{i:03}.txt").write_text(" ".join(rng.choice(subjects[(i + i // 20) % 2], 100)))
    return folder


def quality(text: str) -> float:
    found = re.search(rf"(?m)^{METRIC} ([\d.]+)", text)
    assert found, text
    return float(found.group(1))


@pytest.mark.skipif(waiting.SLOWER > 1, reason="trains for minutes under a sanitizer")
def test_the_stated_quality_is_reached_on_the_standard_library(start, tmp_path):
    text = finished(start("--quick", "--check", "--near", "file,notaword"))
    assert re.search(r"^  file: .*(files|open|directory|path)", text, re.MULTILINE), text
    assert "  notaword: ?" in text
    with open(tmp_path / "run" / "curve.csv") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1][METRIC]) == pytest.approx(quality(text), abs=1e-3)
    saved = np.load(tmp_path / "run" / "vectors.npz")
    assert saved["vectors"].shape == (len(saved["words"]), 48)
    assert np.isfinite(saved["vectors"]).all()


NEAR = ("--near", "ka,pa", "--batch", "64")


@pytest.fixture(scope="module")
def learned(notes: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a run of forked workers printed, and its folder."""
    out = tmp_path_factory.mktemp("learned") / "run"
    return to_its_end(PROGRAM, out, "--data", str(notes), *NEAR), out


def test_words_of_one_subject_are_near_each_other(learned):
    check_words(learned[0])


def test_spawned_workers_learn_the_same(start, notes):
    check_words(finished(start("--data", str(notes), *NEAR, "--start-method", "spawn")))


def check_words(text: str) -> None:
    near = dict(re.findall(r"^  (\w+): (.*)$", text, re.MULTILINE))
    assert all(word[0] in "klmno" for word in near["ka"].split(", "))
    assert all(word[0] in "pqrst" for word in near["pa"].split(", "))
    assert quality(text) > 0.66


def test_a_killed_worker_holds_nobody_up(start, notes):
    run = start("--data", str(notes), *FOREVER, "--seconds", "4")
    os.kill(run.training_pids(METRIC)[0], signal.SIGKILL)
    text = finished(run)
    assert "worker 0 killed by SIGKILL after" in text
    assert "1 of 2 workers finished" in text
    assert quality(text) > 0.66


def test_a_run_goes_on_after_everything_was_killed(start, notes, tmp_path):
    options = ("--data", str(notes), *FOREVER)
    first = start(*options, "--checkpoint-every", "0.2")
    first.training_pids(METRIC)
    first.wait_for(r"^ +[2-9]\.\d s ")
    first.kill_all()
    assert first.nothing_is_left()
    text = finished(start(*options, "--seconds", "1", folder="--resume"))
    assert quality(text) > 0.66
    with open(tmp_path / "run" / "curve.csv") as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    assert seconds == sorted(seconds)
    assert seconds[0] < 1 and seconds[-1] > 2


def test_a_killed_parent_leaves_nothing(start, notes):
    run = start("--data", str(notes), *FOREVER)
    run.training_pids(METRIC)
    assert len(run.sessions()) == 1
    run.process.kill()
    run.process.wait()
    assert run.nothing_is_left()


def test_bad_input_is_one_line(learned, notes, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "short.txt").write_text("a few words")
    (tmp_path / "broken.py").write_text("def (")
    cases = {
        ("--data", "absent"): "no such file or folder",
        ("--data", "empty"): "no .md, .py, .rst, .txt files there",
        ("--data", "short.txt"): "only 0 words are in the texts 5 times",
        ("--data", "broken.py"): "only 0 words",
        ("--resume", "none"): "none has no checkpoint.pt to resume from",
        ("--data", str(notes), "--size", "7", "--resume", str(learned[1])): "is of another model",
    }
    said = refusals(PROGRAM, tmp_path, *((*case, *NEAR) for case in cases))
    for errors, text in zip(said, cases.values(), strict=True):
        assert text in errors and errors.startswith("word_vectors: ")
        assert errors.count("\n") == 1 or text == "is of another model"  # each size is named
    assert not (tmp_path / "runs").exists() and not (tmp_path / "none").exists()


def test_bad_options_are_refused(tmp_path):
    lines = (["--size", "0"], ["--lr", "nan"], ["--data", "x", "--packages"])
    for line, errors in zip(lines, refusals(PROGRAM, tmp_path, *lines), strict=True):
        assert line[0] in errors
