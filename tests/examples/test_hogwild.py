"""examples/hogwild.py as a user runs it: training, files, bad data, and processes that die.

What shared memory promises in general is tested in tests/multiprocessing, all start methods in
tests/hogwild.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import numpy as np
import psutil
import pytest
from programs import EXAMPLES, Run, check_refusals, own_session

from shmtensor.utils.safetensors import load_file, read_metadata

PROGRAM = EXAMPLES / "hogwild.py"
FOREVER = "100000"
# Ends by the clock, so that the workers are still training when a test kills something.
FOR_A_WHILE = ("--epochs", FOREVER, "--seconds", "10")

pytestmark = pytest.mark.timeout(300)


def start(started: list[Run], out: Path, *arguments: str, folder: str = "--out") -> Run:
    run = Run(PROGRAM.name, out, *arguments, folder=folder)
    started.append(run)
    return run


def training_pids(run: Run) -> list[int]:
    """The workers, once all train and the model was measured."""
    pids = run.worker_pids()
    run.wait_for(r"training [1-9].*training [1-9].*accuracy")
    return pids


def accuracy_in(text: str) -> float:
    found = re.search(r"(?m)^held-out accuracy ([\d.]+)", text)
    assert found, text
    return float(found.group(1))


@pytest.mark.parametrize(
    ("model", "method"),
    [("mlp", "fork"), ("mlp", "spawn"), ("cnn", "fork")],
)
def test_two_workers_learn_digits_and_leave_their_files(started, tmp_path, model, method):
    out = tmp_path / "run"
    run = start(started, out, "--model", model, "--start-method", method, "--workers", "2")
    text = run.finish()
    assert run.process.returncode == 0, text
    assert accuracy_in(text) >= 0.96, text
    assert "steps/s" in text
    assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"
    with open(out / "curve.csv") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["accuracy"]) == pytest.approx(accuracy_in(text), abs=1e-3)
    assert float(rows[-1]["loss"]) < float(rows[-1]["held-out loss"]) < 1
    state = load_file(out / "model.safetensors")
    assert all(t.isfinite().all() for t in state.values())
    assert read_metadata(out / "model.safetensors")["model"] == model
    assert run.nothing_is_left()


def test_killed_manager_disturbs_nobody_and_a_killed_worker_is_reported(started, tmp_path):
    run = start(started, tmp_path / "run", *FOR_A_WHILE)
    pids = training_pids(run)
    managers = [
        pid for pid in run.marked() if "shmtensor-manager" in psutil.Process(pid).cmdline()[0]
    ]
    assert managers
    for pid in managers:
        os.kill(pid, signal.SIGKILL)
    for _ in range(2):  # all go on
        run.wait_for(r"training [1-9].*training [1-9].*accuracy")
    os.kill(pids[0], signal.SIGKILL)
    text = run.finish()
    assert run.process.returncode == 0, text
    assert "worker 0 killed by SIGKILL after" in text
    assert text.count("killed by") == 1
    assert "1 of 2 workers finished" in text
    assert accuracy_in(text) >= 0.96
    assert run.nothing_is_left()


def test_killed_parent_takes_everything_with_it(started, tmp_path):
    run = start(started, tmp_path / "run", "--epochs", FOREVER)
    pids = training_pids(run)
    assert set(pids) <= set(run.marked())
    run.process.kill()
    run.process.wait()
    assert run.nothing_is_left()


def test_interrupt_ends_the_workers_and_says_how_to_go_on(started, tmp_path):
    run = start(started, tmp_path / "run", "--epochs", FOREVER)
    training_pids(run)
    run.process.send_signal(signal.SIGINT)
    text = run.finish()
    assert "Traceback" not in text
    assert run.process.returncode == 130
    assert run.nothing_is_left()
    command = shlex.split(text.splitlines()[-1].removeprefix("interrupted; to resume: "))
    again = subprocess.run(
        [*command, "--seconds", "1"],
        capture_output=True,
        text=True,
        env=own_session(),
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert FOREVER in command


def test_a_run_goes_on_after_everything_was_killed(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out, "--epochs", FOREVER, "--checkpoint-every", "0.1")
    training_pids(first)
    first.wait_for(r"^ +[12]\.\d s ")
    first.kill_all()
    assert first.nothing_is_left()
    again = start(started, out, "--epochs", FOREVER, "--seconds", "1", folder="--resume")
    text = again.finish()
    assert again.process.returncode == 0, text
    assert accuracy_in(text) >= 0.96
    with open(out / "curve.csv") as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    assert seconds == sorted(seconds)
    assert seconds[0] < 1
    assert seconds[-1] > 1.5


# --- data of the user's own --------------------------------------------------------------------


@pytest.fixture
def load(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from common.data import load

    return lambda path: load(path, 0)


def images_and_labels() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (40, 6, 6), dtype=np.uint8), np.arange(40) % 4


def idx_bytes(array: np.ndarray) -> bytes:
    sizes = b"".join(n.to_bytes(4, "big") for n in array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def test_idx_folder_is_read_plain_and_gzipped(load, tmp_path):
    x, y = images_and_labels()
    (tmp_path / "train-images-idx3-ubyte").write_bytes(idx_bytes(x))
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(idx_bytes(y))
    (tmp_path / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(x[:8])))
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(y[:8])))
    data = load(tmp_path)
    assert data.train_x.shape == (40, 1, 6, 6)
    assert data.test_x.shape == (8, 1, 6, 6)
    assert data.train_x.max() <= 1.0
    assert data.n_classes == 4


def test_npz_and_csv_are_read_and_split(load, tmp_path):
    x, y = images_and_labels()
    np.savez(tmp_path / "a.npz", images=x, labels=y)
    rows = np.column_stack([y, x.reshape(40, -1)])
    header = "label," + ",".join(f"p{i}" for i in range(36))
    np.savetxt(tmp_path / "a.csv", rows, fmt="%d", delimiter=",", header=header, comments="")
    for name in ("a.npz", "a.csv"):
        data = load(tmp_path / name)
        assert data.train_x.shape == (32, 1, 6, 6)
        assert sorted({*data.train_y.tolist(), *data.test_y.tolist()}) == [0, 1, 2, 3]


def test_bad_input_is_a_message_not_a_traceback(tmp_path):
    labels = b""
    folders: dict[str, dict[str, bytes]] = {
        "short": {"images-idx3": b"\0\0\x08\x03\0\0", "labels-idx1": labels},
        "other": {"images-idx3": b"hello", "labels-idx1": labels},
        "few": {"images-idx3": b"\0\0\x08\x01\0\0\0\x05ab", "labels-idx1": labels},
        ".": {"a.npz": b"PK", "a.csv": b"a,b\n1,x\n", "b.csv": b"1,2\n3,4\n"},
    }
    for folder, files in folders.items():
        (tmp_path / folder).mkdir(exist_ok=True)
        for name, content in files.items():
            (tmp_path / folder / name).write_bytes(content)
    cases = {
        ("--data", "absent"): "no such file",
        ("--data", "short/images-idx3"): "cut off",
        ("--data", "other/images-idx3"): "no IDX file",
        ("--data", "few/images-idx3"): "takes 5 bytes, there are 2",
        ("--data", "a.npz"): "a.npz",
        ("--data", "a.csv"): "a.csv",
        ("--data", "b.csv"): "at least 10 examples",
        ("--resume", "absent"): "absent has no checkpoint.pt to resume from",
        ("--workers", "0"): "--workers",
        ("--lr", "-1"): "--lr",
        ("--lr", "nan"): "--lr",
        ("--momentum", "1"): "--momentum",
    }
    check_refusals(PROGRAM, tmp_path, cases)
    assert not (tmp_path / "runs").exists()
