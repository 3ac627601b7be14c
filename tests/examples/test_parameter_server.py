"""examples/parameter_server.py as a user runs it: bounds of staleness, processes that die."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from programs import EXAMPLES, Run, check_refusals, finished, to_its_end

PROGRAM = EXAMPLES / "parameter_server.py"
FOREVER = ("--epochs", "100000")

pytestmark = pytest.mark.timeout(300)
pytest.importorskip("sklearn")


def start(started: list[Run], out: Path, *arguments: str, folder: str = "--out") -> Run:
    run = Run(PROGRAM.name, out, *arguments, folder=folder)
    started.append(run)
    return run


def updates_in(text: str) -> int:
    found = re.search(r"(?m)^held-out accuracy [\d.]+ +(\d+) updates", text)
    assert found, text
    return int(found.group(1))


def table(path: Path) -> list[dict[str, str]]:
    with open(path) as file:
        return list(csv.DictReader(file))


def wait_until_it_trains(run: Run) -> None:
    run.wait_for(r" s +[1-9]\d* updates.*accuracy")


def server_of(run: Run) -> int:
    """Its first child but the workers: it is started before them."""
    workers = run.worker_pids()
    wait_until_it_trains(run)
    children = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text()
    named = [int(pid) for pid in children.split() if int(pid) not in workers]
    return min(pid for pid in named if "manager" not in command(pid))


def command(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a quick run of forked workers printed, and its folder."""
    out = tmp_path_factory.mktemp("trained") / "run"
    return to_its_end(PROGRAM, out, "--quick", "--check"), out


def test_workers_learn_through_the_server(trained):
    check_files(*trained)


def test_spawned_workers_learn_through_the_server(started, tmp_path):
    out = tmp_path / "run"
    run = start(started, out, "--quick", "--check", "--start-method", "spawn")
    check_files(finished(run), out)


def check_files(text: str, out: Path) -> None:
    n_updates = -(-1438 * 60 // 32)
    assert updates_in(text) == n_updates
    staleness = {row["staleness"]: int(row["updates"]) for row in table(out / "staleness.csv")}
    refused = staleness.pop("refused")
    assert f"{refused} gradients refused" in text
    assert list(staleness) == ["0", "1", "2", "3", "4"]
    assert sum(staleness.values()) == n_updates
    curve = table(out / "curve.csv")
    assert float(curve[-1]["accuracy"]) >= 0.95
    assert int(curve[-1]["updates"]) == n_updates
    assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "model.safetensors").stat().st_size > 1000


def test_nobody_runs_ahead_of_a_slow_worker(started, tmp_path):
    arguments = ("--slow-ms", "20", "--staleness", "2", "--epochs", "1")
    run = start(started, tmp_path / "run", *arguments)
    text = finished(run)
    pushed = re.findall(r"\[[01]\] \d+ (\d+) \d+ ([\d.]+) s", text)[-2:]
    assert int(pushed[1][0]) - int(pushed[0][0]) <= 3
    assert float(pushed[1][1]) > 0  # the quick one waited


def test_killed_worker_is_reported_and_not_waited_for(started, tmp_path):
    run = start(started, tmp_path / "run", *FOREVER, "--seconds", "4")
    pids = run.worker_pids()
    wait_until_it_trains(run)
    os.kill(pids[0], signal.SIGKILL)
    text = finished(run)
    assert f"worker 0 (pid {pids[0]}) was killed by SIGKILL; the others continue" in text
    assert "1 of 2 workers finished" in text
    assert updates_in(text) > 100


def test_killed_workers_end_the_run(started, tmp_path):
    run = start(started, tmp_path / "run", *FOREVER)
    pids = run.worker_pids()
    wait_until_it_trains(run)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert "all workers died, after" in finished(run, 1)


def test_killed_server_ends_all_and_its_checkpoint_goes_on(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out, *FOREVER, "--checkpoint-every", "0.2")
    server = server_of(first)
    first.wait_for(r"^ +[2-9]\.\d s ")
    os.kill(server, signal.SIGKILL)
    last = finished(first, 1).splitlines()[-1]
    found = re.fullmatch(
        rf"parameter_server: server 0 \(pid {server}\) was killed by SIGKILL after (\d+) updates; "
        rf"to resume: --resume {re.escape(str(out))}",
        last,
    )
    assert found, last
    text = finished(start(started, out, *FOREVER, "--seconds", "1", "--check", folder="--resume"))
    assert updates_in(text) > 0.5 * int(found.group(1))
    seconds = [float(row["seconds"]) for row in table(out / "curve.csv")]
    assert seconds == sorted(seconds)
    assert seconds[0] < 1.5
    assert seconds[-1] > 2


def test_all_ends_with_a_killed_parent(started, tmp_path):
    run = start(started, tmp_path / "run", *FOREVER)
    wait_until_it_trains(run)
    run.process.kill()
    run.process.wait()
    assert run.nothing_is_left()


def test_an_interrupted_run_goes_on(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out, *FOREVER)
    first.worker_pids()
    wait_until_it_trains(first)
    first.process.send_signal(signal.SIGINT)
    assert "interrupted" in first.finish()
    assert first.process.returncode == 130
    assert first.nothing_is_left()
    text = finished(start(started, out, "--epochs", "30", folder="--resume"))
    assert updates_in(text) >= -(-1438 * 30 // 32)


def test_a_run_goes_on_after_everything_was_killed(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out, "--checkpoint-every", "0.1", *FOREVER)
    wait_until_it_trains(first)
    first.kill_all()
    assert first.nothing_is_left()
    text = finished(start(started, out, "--quick", "--check", folder="--resume"))
    assert updates_in(text) >= -(-1438 * 60 // 32)


def test_bad_input_is_one_line(trained, tmp_path):
    name = f"taken-{os.getpid()}"
    holder = f"""
import sys; import shmtensor; from shmtensor.service import Service
Service({name!r}, start=True).publish("parameters", shmtensor.zeros(1))
print("ready", flush=True); sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        cases = {
            ("--service", name): f"is in use: process {process.pid} publishes in it",
            ("--staleness", "-1"): "--staleness is out of range: -1",
            ("--data", "nowhere"): "nowhere: no such file or folder",
            ("--resume", "nowhere"): "no run to resume",
            ("--resume", str(trained[1]), "--batch", "16"): (
                "of a run with batch 32, this one has 16"
            ),
        }
        check_refusals(PROGRAM, tmp_path, cases)
        process.stdin.close()
    assert not (tmp_path / "runs").exists()
