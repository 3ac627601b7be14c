"""docs/tutorial.md, done as it says: its programs, a worker killed, a run stopped and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT
from documents import programs as programs_of
from programs import Run, own_session

PROGRAMS = {
    text.splitlines()[0].removeprefix("# "): text for text in programs_of(ROOT / "docs/tutorial.md")
}


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "train.py"])
def test_small_programs_run(name: str, tmp_path: Path) -> None:
    # Under the name that the page gives it: a program must not hide a module that it imports.
    (tmp_path / name).write_text(PROGRAMS[name])
    subprocess.run([sys.executable, name], check=True, timeout=120, cwd=tmp_path, env=own_session())


@pytest.mark.check
def test_a_killed_worker_is_lost_and_a_stopped_run_goes_on(
    started: list[Run], tmp_path: Path
) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAMS["train.py"])

    first = Run(str(program), tmp_path / "unused")
    started.append(first)
    pids = first.training_pids("accuracy")
    os.kill(pids[1], signal.SIGKILL)
    first.wait_for(r"\[1\] lost")
    first.process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in first.finish()
    assert first.nothing_is_left()
    assert (tmp_path / "run").is_dir()

    second = Run(str(program), tmp_path / "unused")
    started.append(second)
    steps = second.wait_for(r"\[0\] \w+ (\d+) .*\[1\] \w+ (\d+)")
    assert int(steps[1]) > 0
    assert int(steps[2]) > 0
    second.wait_for(r"training .*training")
    second.process.send_signal(signal.SIGINT)
    second.finish()
    assert second.nothing_is_left()
