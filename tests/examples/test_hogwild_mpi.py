"""examples/hogwild_mpi.py as a user runs it: two nodes, lost ones, resumed ones, bad input."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mpi_ranks import MPIEXEC, require_mpi
from programs import EXAMPLES, Run, own_session

import shmtensor
from shmtensor import inspect
from shmtensor.utils.safetensors import load_file

require_mpi()

PROGRAM = EXAMPLES / "hogwild_mpi.py"
FOREVER = "100000"
#: How the loss of another node shows: UCX ends a process that reads the memory of a dead one.
HOW = "(no sign of life for 3|the leader of node . ended with status -)"

pytestmark = pytest.mark.timeout(90)


def start(started: list[Run], out: Path, *arguments: str, folder: str = "--out") -> Run:
    run = Run(PROGRAM.name, out, *arguments, folder=folder)
    started.append(run)
    return run


def pids(run: Run) -> tuple[dict[int, int], dict[int, int]]:
    """Of the programs and of the leaders, by node, once node 0 has learnt something."""
    programs, leaders = {}, {}
    while len(programs) < 2:
        found = run.wait_for(r"node (\d) of 2: process (\d+), leader (\d+)")
        node, program, leader = map(int, found.groups())
        programs[node], leaders[node] = program, leader
    run.wait_for(r"training [1-9]")
    return programs, leaders


def accuracies(text: str) -> list[float]:
    return [float(found) for found in re.findall(r": held-out accuracy ([\d.]+), ", text)]


@pytest.mark.parametrize("method", ["accumulate", "average"])
def test_two_nodes_reach_what_one_reaches(started, tmp_path, method):
    out = tmp_path / "run"
    run = start(started, out, "--quick", "--check", "--method", method, "--compare", "alone")
    text = run.finish()
    assert run.process.returncode == 0, text
    together, same, alone = sorted(accuracies(text))
    assert min(together, same) >= 0.95, text
    assert alone - together < 0.02, text
    models = [load_file(out / f"node-{k}" / "model.safetensors") for k in range(2)]
    for name, tensor in models[0].items():
        assert tensor.isfinite().all()
        assert (tensor == models[1][name]).all()
    for k in range(2):
        assert (out / f"node-{k}" / "curve.png").read_bytes()[:4] == b"\x89PNG"
        with open(out / f"node-{k}" / "curve.csv") as file:
            assert float(list(csv.DictReader(file))[-1]["accuracy"]) >= 0.95
    assert run.nothing_is_left()


def test_by_mpiexec_alone_with_a_session_for_each_rank(started, tmp_path):
    assert MPIEXEC is not None
    options = ("--epochs", FOREVER, "--seconds", "3", "--check")
    run = Run(PROGRAM.name, tmp_path / "run", *options, prefix=(MPIEXEC, "-n", "2"))
    started.append(run)
    programs, _ = pids(run)
    names = set()
    for program in programs.values():
        (session,) = inspect.open_sessions(str(program))
        names.add(session.name)
        session.close()
    assert len(names) == 2
    text = run.finish()
    assert run.process.returncode == 0, text
    assert re.search(r"node 1 of 2: \d+ exchanges", text), text
    assert min(accuracies(text)) >= 0.95
    assert run.nothing_is_left()


def test_a_killed_node_is_reported_and_the_other_goes_on(started, tmp_path):
    run = start(started, tmp_path / "run", "--epochs", FOREVER, "--seconds", "12", "--check")
    programs, _ = pids(run)
    os.kill(programs[1], signal.SIGKILL)
    text = run.finish()
    assert re.search(f"node 1 is lost: {HOW}.*; node 0 continues", text), text
    assert accuracies(text)[-1] >= 0.95, text
    assert "node 0 of 2: wrote" in text
    assert run.nothing_is_left()


def test_a_killed_leader_leaves_both_nodes_alone(started, tmp_path):
    run = start(started, tmp_path / "run", "--epochs", FOREVER, "--seconds", "12", "--check")
    _, leaders = pids(run)
    os.kill(leaders[0], signal.SIGKILL)
    text = run.finish()
    assert run.process.returncode == 0, text
    assert re.search(
        r"node 1 is lost: the leader of node 0 ended with status -9.*; node 0 continues", text
    )
    assert re.search(f"node 0 is lost: {HOW}.*; node 1 continues", text), text
    assert len(accuracies(text)) == 2
    assert min(accuracies(text)) >= 0.95, text
    assert run.nothing_is_left()


def test_nodes_that_are_to_stop_can_be_resumed(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out, "--epochs", FOREVER, "--on-lost", "stop")
    programs, _ = pids(first)
    os.kill(programs[1], signal.SIGKILL)
    text = first.finish()
    assert re.search(f"hogwild_mpi: node 1 is lost: {HOW}", text), text
    assert first.nothing_is_left()
    before = shmtensor.load(out / "node-0" / "checkpoint.pt")["seconds"]
    options = ("--epochs", FOREVER, "--seconds", "1", "--check")
    again = start(started, out, *options, folder="--resume")
    text = again.finish()
    assert again.process.returncode == 0, text
    assert min(accuracies(text)) >= 0.95, text
    with open(out / "node-0" / "curve.csv") as file:
        seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    assert seconds == sorted(seconds)
    assert seconds[-1] > before + 0.5


def test_a_run_goes_on_after_everything_was_killed(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out, "--epochs", FOREVER, "--checkpoint-every", "0.2")
    pids(first)
    first.wait_for(r"^ +[2-9]\.\d s ")
    first.kill_all()
    assert first.nothing_is_left()
    options = ("--epochs", FOREVER, "--seconds", "1", "--check")
    again = start(started, out, *options, folder="--resume")
    text = again.finish()
    assert again.process.returncode == 0, text
    assert min(accuracies(text)) >= 0.95, text


def test_interrupt_ends_all_nodes(started, tmp_path):
    run = start(started, tmp_path / "run", "--epochs", FOREVER)
    pids(run)
    run.process.send_signal(signal.SIGINT)
    run.finish()
    assert run.nothing_is_left()


# --- bad input ---------------------------------------------------------------------------------


def failed(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """What a program says that ends with status 2."""
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--plain", "--nodes", "1", *arguments],
        env={**own_session(), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_without_mpi4py_it_says_what_to_install(tmp_path):
    # A folder of a module that cannot be found: its name stands for nothing.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "found = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'mpi4py' else found(name, *a)\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    text = failed("--nodes", "2", environment={"PYTHONPATH": path})
    assert text == "hogwild_mpi: mpi4py is not installed: pip install 'shmtensor[mpi]'\n"


def test_bad_data_and_options_are_one_line(tmp_path):
    assert failed("--data", str(tmp_path / "absent")).count("\n") == 1
    assert "has no node-*/checkpoint.pt" in failed("--resume", str(tmp_path))
    assert "must be at least 1" in failed("--nodes", "0")
    assert "invalid choice" in failed("--on-lost", "wait")


def test_a_checkpoint_of_another_run_is_refused(started, tmp_path):
    out = tmp_path / "run"
    done = subprocess.run(
        [
            *(sys.executable, str(PROGRAM), "--plain", "--nodes", "1"),
            *("--out", str(out), "--epochs", "1"),
        ],
        env=own_session(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    text = failed("--resume", str(out), "--batch", "16")
    assert "checkpoint.pt is of a run with batch_size 32, this one has 16" in text
    assert text.count("\n") == 1
