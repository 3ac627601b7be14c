"""``python -m shmtensor.testing``: passes here, and reports what does not work.

What the single checks try is tested where it belongs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
import waiting

from shmtensor.testing._selftest import command, section
from shmtensor.testing._selftest.command import main


def selftest(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it as a user does, outside the session of the tests."""
    kept = {k: v for k, v in os.environ.items() if k != "SHMTENSOR_MANAGER"}
    return subprocess.run(
        [sys.executable, "-m", "shmtensor.testing", *arguments],
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def failures(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    return {c["name"]: c for c in json.loads(done.stdout) if c["verdict"] == "bad"}


@pytest.mark.check
def test_every_check_passes_here():
    done = selftest("--json")
    assert (done.returncode, done.stderr, failures(done)) == (0, "", {})
    names = Counter(check["name"] for check in json.loads(done.stdout))
    assert max(names.values()) == 1
    wanted = {"version", "manager program", "matrix products", "backward", "queues, forkserver"}
    assert wanted <= set(names)
    assert next(reversed(json.loads(done.stdout)))["name"] == "nothing is left"


def test_files_and_processes_that_are_left_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "_AFTER_S", 0.0)
    (tmp_path / "forgotten").touch()
    assert "forgotten" in command._left_behind("of nobody", str(tmp_path)).found
    program = [sys.executable, "-c", "input()  # goes on"]
    env = {**os.environ, "SHMTENSOR_SELFTEST": "of one"}
    with subprocess.Popen(program, env=env, stdin=subprocess.PIPE) as left:
        waiting.until(lambda: command._marked("of one"))
        assert f"{left.pid} ({' '.join(program)})" in command._left_behind("of one", "/").found
        assert left.wait() == -signal.SIGKILL


def test_text_has_a_line_for_each_check_and_a_sum(capfd):
    assert main(["--quick"]) == 0
    *lines, last = capfd.readouterr().out.splitlines()
    verdicts = [line for line in lines if not line.startswith(" ")]
    assert {line.split()[0] for line in verdicts} <= {"ok", "note"}
    assert last.startswith(f"{len(verdicts)} checks: 0 failed, ")


def test_memory_that_cannot_be_shared_is_reported_and_fails():
    done = selftest("--quick", "--json", SHMTENSOR_MAX_SHARED_BYTES="4096")
    assert done.returncode == 1
    bad = failures(done)
    assert "queues, spawn" in bad
    assert "elementary functions" not in bad
    assert "sharing.py" in bad["queues, spawn"]["advice"]


def test_wrong_setting_is_named():
    done = selftest("--quick", SHMTENSOR_MAX_SHARED_BYTES="4G")
    assert done.returncode == 1
    assert "'4G'" in done.stdout


def test_section_that_cannot_start_is_reported(tmp_path):
    # The section ends with a traceback, the command with a verdict.
    (tmp_path / "numpy.py").write_text("raise ImportError('no numpy here')\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    code = (
        "import sys, os; from shmtensor.testing._selftest.command import main; "
        f"os.environ['PYTHONPATH'] = {path!r}; sys.exit(main(['--quick', '--json']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert failures(done)["operators"]["found"] == "ended with status 1"
    assert "no numpy here" in done.stderr


@pytest.mark.parametrize(
    ("got", "expected"), [(1.1, 1.0), (float("nan"), 1.0), (1.0, float("nan")), (2.0, [1.0, 2.0])]
)
def test_numbers_that_differ_raise(got, expected):
    with pytest.raises(AssertionError, match="a number"):
        section.close("a number", got, expected, 1e-3)
