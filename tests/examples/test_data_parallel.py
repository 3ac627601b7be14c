"""examples/data_parallel.py as a user runs it: gradients, files, ranks that die, bad input."""

from __future__ import annotations

import csv
import os
import re
import signal
from pathlib import Path

import pytest
import waiting
from programs import EXAMPLES, Run, check_refusals

import shmtensor

PROGRAM = EXAMPLES / "data_parallel.py"
FOREVER = ("--epochs", "1000000")

pytest.importorskip("sklearn")
pytestmark = pytest.mark.timeout(300)


def start(started: list[Run], out: Path, *arguments: str, folder: str = "--out") -> Run:
    run = Run(PROGRAM.name, out, *arguments, folder=folder)
    started.append(run)
    return run


def steps_of(path: Path) -> list[int]:
    with open(path) as file:
        return [int(row["steps"]) for row in csv.DictReader(file)]


@pytest.mark.parametrize(
    ("workers", "method", "epochs"), [("2", "fork", 60), ("1", "fork", 6), ("2", "spawn", 6)]
)
def test_ranks_take_the_steps_of_one_process(
    started: list[Run], tmp_path: Path, workers: str, method: str, epochs: int
) -> None:
    out = tmp_path / "run"
    options = ("--workers", workers, "--start-method", method)
    learns = epochs == 60
    length = ("--quick", "--check") if learns else ("--epochs", str(epochs))
    run = start(started, out, *length, *options)
    text = run.finish()
    assert run.process.returncode == 0, text
    assert "reached: difference of gradients" in text
    assert "reached: held-out accuracy" in text or not learns
    assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"
    n_steps = epochs * (1438 // 64)
    assert steps_of(out / "curve.csv")[-1] == n_steps
    assert shmtensor.load(out / "checkpoint.pt")["step"] == n_steps
    assert {p.name for p in out.iterdir()} == {"checkpoint.pt", "curve.csv", "curve.png"}
    assert run.nothing_is_left()


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_is_reported_and_all_go_on(
    started: list[Run], tmp_path: Path, rank: int
) -> None:
    out = tmp_path / "run"
    run = start(started, out, *FOREVER, "--seconds", "3", "--check")
    pids = run.worker_pids()
    run.wait_for(r"step [1-9]")
    os.kill(pids[rank], signal.SIGKILL)
    text = run.finish()
    assert run.process.returncode == 0, text
    assert f"rank {rank} (pid {pids[rank]}) was killed by SIGKILL; the others save and end" in text
    found = re.search(r"all ranks start again from step (\d+)", text)
    assert found and int(found.group(1)) > 0, text
    steps = steps_of(out / "curve.csv")
    assert steps == sorted(steps)
    assert run.nothing_is_left()


def test_a_killed_parent_takes_everything_with_it(started: list[Run], tmp_path: Path) -> None:
    run = start(started, tmp_path / "run", *FOREVER)
    run.wait_for(r"step [1-9]")
    run.process.kill()
    run.process.wait()
    assert run.nothing_is_left()


def test_a_run_goes_on_after_everything_was_killed(started: list[Run], tmp_path: Path) -> None:
    out = tmp_path / "run"
    before = set(os.listdir("/dev/shm"))
    first = start(started, out, *FOREVER, "--checkpoint-every", "0.1")
    while not (out / "checkpoint.pt").exists():
        first.wait_for(r"step [1-9]")
    first.kill_all()
    assert first.nothing_is_left() and waiting.nothing_new_in_dev_shm(before)
    at = shmtensor.load(out / "checkpoint.pt")["step"]
    again = start(started, out, *FOREVER, "--seconds", "2", "--check", folder="--resume")
    text = again.finish()
    assert again.process.returncode == 0, text
    assert steps_of(out / "curve.csv")[0] > at > 0
    assert again.nothing_is_left()


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    for name in ("damaged", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "damaged" / "checkpoint.pt").write_bytes(b"no checkpoint")
    other = {"step": 1, "made": "--model cnn --batch 64 --data None"}
    shmtensor.save(other, tmp_path / "other" / "checkpoint.pt")
    cases = {
        ("--batch", "65"): "--batch 65 cannot be shared by --workers 2",
        ("--momentum", "1"): "--momentum",
        ("--data", "absent"): "no such file",
        ("--batch", "100000"): "--batch 100000 of 1438 examples",
        ("--resume", "absent"): "has no checkpoint.pt",
        ("--resume", "damaged"): "is not a checkpoint of this program",
        ("--resume", "other"): "was made with --model cnn",
    }
    check_refusals(PROGRAM, tmp_path, cases)
