"""What all programs of examples/ do alike: how they run, warn and end."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from types import ModuleType

import pytest
from programs import EXAMPLES


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    from common import program

    return program


@pytest.mark.check
def test_run_shows_warnings_in_a_line_and_restores_how_they_are_shown(
    program: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = warnings.showwarning, list(warnings.filters)

    def warn() -> None:
        warnings.simplefilter("always")
        warnings.warn("look out", stacklevel=1)

    assert program.run("name", argparse.Namespace(workers=1), tmp_path, warn) == 0
    assert "name: look out\n" in capsys.readouterr().err
    assert (warnings.showwarning, list(warnings.filters)) == before


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (["--workers", "3", "--out", "here"], ["--workers", "3"]),
        (["--resume=there", "--lr", "0.1"], ["--lr", "0.1"]),
        (["--resume", "there"], []),
    ],
)
def test_an_interrupted_run_says_the_command_that_goes_on(
    program: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    kept: list[str],
) -> None:
    (tmp_path / "checkpoint.pt").touch()
    monkeypatch.setattr("sys.executable", "python")
    monkeypatch.setattr("sys.argv", ["train.py", *arguments])

    def stop() -> None:
        raise KeyboardInterrupt

    assert program.run("name", argparse.Namespace(workers=1), tmp_path, stop) == 130
    command = " ".join(["python train.py", *kept, "--resume", str(tmp_path)])
    assert capsys.readouterr().out == f"\ninterrupted; to resume: {command}\n"
