"""examples/inference_server.py as a user runs it: answers, versions, processes that die."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import waiting
from programs import EXAMPLES, Run, check_refusals, finished, to_its_end

PROGRAM = EXAMPLES / "inference_server.py"
NOTHING_LOST = re.compile(r"(\d+) answers.* mixed 0 +lost 0")
SECONDS = 2  # a worker that stops for half of it is noticed

pytestmark = pytest.mark.timeout(300)
pytest.importorskip("sklearn")


def start(started: list[Run], out: Path, *arguments: str, folder: str = "--out") -> Run:
    run = Run(PROGRAM.name, out, "--quick", "--seconds", str(SECONDS), *arguments, folder=folder)
    started.append(run)
    return run


def windows(out: Path) -> list[dict[str, str]]:
    with open(out / "latencies.csv") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What a run of forked processes printed, and its folder."""
    out = tmp_path_factory.mktemp("served") / "run"
    return to_its_end(PROGRAM, out, "--quick", "--seconds", "3", "--check"), out


def test_every_request_is_answered_by_one_version(served):
    check_answers(*served)


def test_spawned_processes_answer_every_request(started, tmp_path):
    out = tmp_path / "run"
    run = start(started, out, "--seconds", "3", "--check", "--start-method", "spawn")
    check_answers(finished(run), out)


def check_answers(text: str, out: Path) -> None:
    found = NOTHING_LOST.search(text)
    assert found, text
    rows = windows(out)
    assert int(found.group(1)) == sum(int(row["answers"]) for row in rows)
    assert [float(row["version"]) for row in rows] == sorted(float(r["version"]) for r in rows)
    assert {float(row["version"]) for row in rows} == {0, 1, 2, 3}
    for row in rows:
        assert 0 < float(row["p50_ms"]) <= float(row["p90_ms"]) <= float(row["p99_ms"])
    assert (out / "latencies.png").read_bytes()[:4] == b"\x89PNG"


def test_worker_that_stops_keeps_no_request(started, tmp_path):
    run = start(started, tmp_path / "run")
    pids = run.worker_pids()
    run.wait_for("version 2 is published")
    os.kill(pids[0], signal.SIGSTOP)
    run.wait_for("version 4 is published")
    os.kill(pids[0], signal.SIGCONT)
    assert NOTHING_LOST.search(finished(run))


def test_only_requests_of_a_killed_client_end_and_not_those_of_a_killed_worker(started, tmp_path):
    run = start(started, tmp_path / "run", "--check")
    workers = run.worker_pids()
    run.wait_for("version 2 is published")
    children = {p for p in run.marked() if parent_of(p) == run.process.pid}
    client = max(children - set(workers))
    os.kill(client, signal.SIGKILL)
    run.wait_for(rf"\(pid {client}\) was killed by SIGKILL; its open requests are dropped")
    os.kill(workers[0], signal.SIGKILL)
    text = finished(run)
    assert f"worker 0 (pid {workers[0]}) was killed by SIGKILL; process" in text
    assert NOTHING_LOST.search(text), text


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has just ended
        return 0


def test_all_ends_with_a_killed_parent(started, tmp_path):
    run = start(started, tmp_path / "run")
    run.worker_pids()
    run.wait_for("version 2 is published")
    run.process.kill()
    run.process.wait()
    assert run.nothing_is_left()


def test_an_interrupted_run_goes_on(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out)
    first.worker_pids()
    first.wait_for("version 2 is published")
    first.process.send_signal(signal.SIGINT)
    assert "interrupted" in first.finish()
    assert first.process.returncode == 130
    assert first.nothing_is_left()
    text = finished(start(started, out, folder="--resume"))
    assert NOTHING_LOST.search(text), text


def test_a_run_goes_on_after_everything_was_killed(started, tmp_path):
    out = tmp_path / "run"
    first = start(started, out, "--checkpoint-every", "0.2")
    first.wait_for("version 3 is published")
    first.kill_all()
    assert first.nothing_is_left()
    text = finished(start(started, out, "--check", folder="--resume"))
    assert "version 1 is published" not in text
    assert NOTHING_LOST.search(text), text
    seconds = [float(row["seconds"]) for row in windows(out)]
    assert seconds == sorted(seconds)
    assert seconds[0] < 1
    assert seconds[-1] > SECONDS - 0.1


@pytest.fixture
def taken() -> Iterator[tuple[str, int]]:
    """A service in which another process publishes: its name, and that process."""
    name = f"taken-{os.getpid()}"
    holder = f"""
import sys; import shmtensor; from shmtensor.service import Service
Service({name!r}, start=True).publish("digits", shmtensor.zeros(1))
print("ready", flush=True); sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        yield name, process.pid
        process.stdin.close()


def test_bad_input_is_one_line(served, taken, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "checkpoint.pt").write_bytes(b"nothing")
    name, holder = taken
    nowhere = f"nowhere-{os.getpid()}"
    cases = {
        ("--workers", "0"): "--workers",
        ("--max-delay-ms", "-1"): "--max-delay-ms",
        ("--resume", "empty"): "no run to resume",
        ("--resume", "bad"): "is not a checkpoint",
        ("--resume", str(served[1]), "--width", "64"): (
            "is of a run with width 256, this one has 64"
        ),
        ("--service", name): f"is in use: process {holder} publishes in it",
        ("--role", "worker"): "--role worker needs --service",
        ("--role", "client", "--service", nowhere): nowhere,
    }
    check_refusals(PROGRAM, tmp_path, cases)
    assert not (tmp_path / "runs").exists()


def test_client_finds_an_answer_by_a_mixture_of_versions(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from common import load

    expected = np.stack([np.zeros((1, 10)), np.ones((1, 10))])
    checker = load.Checker(np.zeros(1), expected)
    for scores in (np.ones(10), np.full(10, 0.5)):
        checker.answered(0, 0.0, 1, scores)
    records, counts = checker.take_report()
    assert counts == {"asked_again": 0, "mixed": 1, "lost": 0}
    assert len(records) == 2
    assert [len(r) for r in checker.take_report()] == [0, 3]


def test_more_workers_and_clients_join_by_the_services_name(started, tmp_path):
    name = f"inference-join-{os.getpid()}"
    seconds = str(8 * waiting.SLOWER)  # two more programs start meanwhile
    run = start(started, tmp_path / "run", "--service", name, "--seconds", seconds)
    run.wait_for("version 1 is published")
    run.worker_pids()
    joined = [
        subprocess.Popen([sys.executable, str(PROGRAM), "--role", role, "--service", name])
        for role in ("worker", "client")
    ]
    try:
        run.wait_for("version 3 is published")
        assert [process.poll() for process in joined] == [None, None]
        text = run.finish()
        assert [process.wait(60) for process in joined] == [0, 0]
        assert run.process.returncode == 0 and NOTHING_LOST.search(text), text
        assert run.nothing_is_left()
    finally:
        for process in joined:
            process.kill()
            process.wait()
