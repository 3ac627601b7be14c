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
from programs import EXAMPLES, own_session

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
