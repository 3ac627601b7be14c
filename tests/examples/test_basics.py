"""The small programs that people copy: they run, are short, and need nothing beside them."""

from __future__ import annotations

import ast
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import waiting
from programs import EXAMPLES, own_session

from shmtensor import inspect

BASICS = EXAMPLES / "basics"
LAST_LINES = {
    "queue_of_arrays": r"picture 19: the mean was 19\.\d+, now it is -?\d\.\de-0[5-9]",
    "pool_over_arrays": r"deviation 0\.7\d+ before, 0\.7\d+ after",
    "data_loader": r"batches are in shared memory: True",
    "train_together": r"(9\d|100)\.\d% of new points are classified correctly",
    "actors_and_learner": r"the policy pulls lever 3 \d+% of the time",
}


def _run(name: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, f"{name}.py"],
        capture_output=True,
        text=True,
        timeout=240,
        cwd=BASICS,
        env={**own_session(), **variables},
        check=False,
    )


@pytest.mark.parametrize("name", LAST_LINES)
def test_program_does_what_it_says(name: str) -> None:
    done = _run(name)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert re.fullmatch(LAST_LINES[name], done.stdout.splitlines()[-1])


@pytest.mark.check
def test_one_program_attaches_what_another_publishes() -> None:
    service = f"basics-{os.getpid()}-{uuid.uuid4().hex}"
    publisher = subprocess.Popen(
        [sys.executable, "publish.py"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=BASICS,
        env={**own_session(), "SHMTENSOR_SERVICE": service},
    )
    try:
        done = _run("attach", SHMTENSOR_SERVICE=service)
    finally:
        publisher.send_signal(signal.SIGINT)
        _, errors = publisher.communicate(timeout=60)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 10
    assert publisher.returncode == 0 and not errors


@pytest.mark.check
def test_watchers_see_what_is_published() -> None:
    service = f"basics-{os.getpid()}-{uuid.uuid4().hex}"
    environment = {**own_session(), "SHMTENSOR_SERVICE": service}
    publisher = subprocess.Popen(
        [sys.executable, "telemetry.py", "publish", "--rate", "100"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=BASICS,
        env=environment,
    )
    try:
        done = subprocess.run(
            [sys.executable, "telemetry.py", "watch", "--count", "3"],
            capture_output=True,
            text=True,
            timeout=240,
            cwd=BASICS,
            env=environment,
            check=False,
        )
    finally:
        publisher.send_signal(signal.SIGINT)
        _, errors = publisher.communicate(timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    *readings, lost = done.stdout.splitlines()
    assert len(readings) == 3 and re.fullmatch(r"\d+ lost", lost)
    assert all(re.fullmatch(r"step +\d+  mean [+-]\d\.\d{3}  +\d+\.\d\d ms", r) for r in readings)
    assert publisher.returncode == 0 and not errors


def _session_of(service: str) -> inspect.Session:
    """Wait until a program has started it."""

    def answers() -> bool:
        for session in inspect.open_sessions(service):
            with session:
                if session.manager_pid():
                    return True
        return False

    waiting.until(answers)  # until then, one sees files of its members, and not what is in them
    return inspect.open_sessions(service)[0]


@pytest.mark.check
def test_job_of_a_killed_worker_goes_to_another_one() -> None:
    service = f"basics-{os.getpid()}-{uuid.uuid4().hex}"
    environment = {**own_session(), "SHMTENSOR_SERVICE": service}

    def start(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "work_queue.py", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=BASICS,
            env=environment,
        )

    lazy = start("work", "--seconds", "1000")
    with _session_of(service) as session:  # before another program could start the service, too
        putter = start("put", "3")
        waiting.until(lambda: any(q.n_unacknowledged for q in session.queues()))
        lazy.kill()
        worker = start("work", "--seconds", "0")
        out, errors = putter.communicate(timeout=240)
    worker.send_signal(signal.SIGINT)
    done, worker_errors = worker.communicate(timeout=60)
    lazy.communicate()
    assert (out, errors) == ("3 jobs are done, 0 were given up\n", "")
    assert (worker.returncode, worker_errors) == (0, "")
    numbers = re.findall(r"job (\d)( again)?,", done)
    assert sorted(numbers) == [("0", " again"), ("1", ""), ("2", "")]


@pytest.mark.check
def test_model_server_answers_in_batches_though_one_is_killed() -> None:
    service = f"basics-{os.getpid()}-{uuid.uuid4().hex}"
    environment = {**own_session(), "SHMTENSOR_SERVICE": service}

    def start(*arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "model_server.py", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=BASICS,
            env=environment,
        )

    client = start("ask", "1000")  # which waits for servers
    with _session_of(service) as session:
        waiting.until(lambda: any(s.n_requests > 0 for s in session.servers().values()))
        first = start("serve")
        waiting.until(lambda: any(s.n_waiting < s.n_requests for s in session.servers().values()))
        first.kill()
        second = start("serve")
    out, errors = client.communicate(timeout=240)
    second.send_signal(signal.SIGINT)
    first.communicate()
    _, server_errors = second.communicate(timeout=60)
    found = re.fullmatch(r"1000 answers in \d+\.\d\d s, at most (\d+) together: \[.*\]\n", out)
    assert found, (out, errors)
    assert 1 < int(found[1]) <= 32
    assert (second.returncode, server_errors) == (0, "")


@pytest.mark.parametrize("path", sorted(BASICS.glob("*.py")), ids=lambda path: path.stem)
def test_program_is_short_and_stands_alone(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= 60
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            imported.add((node.module or "").partition(".")[0])
        elif isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
    assert imported <= {"numpy", "shmtensor", *sys.stdlib_module_names}
