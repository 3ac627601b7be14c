"""examples/inference_server.py as a user runs it: answers, versions, processes that die."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import waiting
from programs import EXAMPLES, Run, error_line, finished

PROGRAM = EXAMPLES / "inference_server.py"
NOTHING_LOST = re.compile(r"(\d+) answers.* mixed 0 +lost 0")

pytestmark = pytest.mark.timeout(300)
pytest.importorskip("sklearn")


def start(started: list[Run], out: Path, *arguments: str, folder: str = "--out") -> Run:
    run = Run(PROGRAM.name, out, "--quick", "--seconds", "3", *arguments, folder=folder)
    started.append(run)
    return run


def windows(out: Path) -> list[dict[str, str]]:
    with open(out / "latencies.csv") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_every_request_is_answered_by_one_version(started, tmp_path, method):
    out = tmp_path / "run"
    text = finished(start(started, out, "--check", "--start-method", method))
    found = NOTHING_LOST.search(text)
    assert found, text
    rows = windows(out)
    assert int(found.group(1)) == sum(int(row["answers"]) for row in rows)
    assert [float(row["version"]) for row in rows] == sorted(float(r["version"]) for r in rows)
    assert {float(row["version"]) for row in rows} == {0, 1, 2, 3}
    for row in rows:
        assert 0 < float(row["p50_ms"]) <= float(row["p90_ms"]) <= float(row["p99_ms"])
    assert (out / "latencies.png").read_bytes()[:4] == b"\x89PNG"


def test_requests_of_a_killed_worker_are_answered_by_another(started, tmp_path):
    run = start(started, tmp_path / "run", "--check")
    pids = run.worker_pids()
    run.wait_for("version 2 is published")
    os.kill(pids[0], signal.SIGKILL)
    text = finished(run)
    assert f"worker 0 (pid {pids[0]}) was killed by SIGKILL; process" in text
    assert NOTHING_LOST.search(text), text


def test_worker_that_stops_keeps_no_request(started, tmp_path):
    run = start(started, tmp_path / "run")
    pids = run.worker_pids()
    run.wait_for("version 2 is published")
    os.kill(pids[0], signal.SIGSTOP)
    run.wait_for("version 4 is published")
    os.kill(pids[0], signal.SIGCONT)
    assert NOTHING_LOST.search(finished(run))


def test_killed_client_takes_only_its_own_requests_with_it(started, tmp_path):
    run = start(started, tmp_path / "run", "--check")
    workers = run.worker_pids()
    run.wait_for("version 2 is published")
    children = {p for p in run.marked() if parent_of(p) == run.process.pid}
    client = max(children - set(workers))
    os.kill(client, signal.SIGKILL)
    text = finished(run)
    assert f"(pid {client}) was killed by SIGKILL; its open requests are dropped" in text
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
    assert seconds[-1] > 2.9


def test_bad_input_is_one_line(tmp_path):
    assert "--workers" in error_line(PROGRAM, tmp_path, "--workers", "0")
    assert "--max-delay-ms" in error_line(PROGRAM, tmp_path, "--max-delay-ms", "-1")
    (tmp_path / "empty").mkdir()
    assert "no run to resume" in error_line(PROGRAM, tmp_path, "--resume", "empty")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "checkpoint.pt").write_bytes(b"nothing")
    assert "is not a checkpoint" in error_line(PROGRAM, tmp_path, "--resume", "bad")


def test_checkpoint_of_other_settings_is_refused(started, tmp_path):
    out = tmp_path / "run"
    finished(start(started, out, "--seconds", "0.5"))
    line = error_line(PROGRAM, tmp_path, "--resume", str(out), "--width", "64")
    assert "is of a run with width 256, this one has 64" in line


def test_service_in_use_is_refused(tmp_path):
    name = f"taken-{os.getpid()}"
    holder = f"""
import sys; import shmtensor; from shmtensor.service import Service
Service({name!r}, start=True).publish("digits", shmtensor.zeros(1))
print("ready", flush=True); sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        line = error_line(PROGRAM, tmp_path, "--service", name)
        assert f"is in use: process {process.pid} publishes in it" in line
        assert process.stdin is not None
        process.stdin.close()
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
    seconds = str(10 * waiting.SLOWER)  # two more programs start meanwhile
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


def test_joining_needs_a_service_that_runs(tmp_path):
    assert "--role worker needs --service" in error_line(PROGRAM, tmp_path, "--role", "worker")
    nowhere = f"nowhere-{os.getpid()}"
    line = error_line(PROGRAM, tmp_path, "--role", "client", "--service", nowhere)
    assert nowhere in line
