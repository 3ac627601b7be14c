"""The models of the sharing protocol: their steps are the fail points, and the smallest is walked.

``make model`` walks them all.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"

sys.path.insert(0, str(CSRC))

from codegen.emit.protocol import load_failpoints  # noqa: E402 -- found by the path above


def _points_of(model: Path) -> set[str]:
    lists = re.findall(r"point: ((?:\w+(?:, )?)+)", model.read_text())
    return {name for names in lists for name in names.split(", ")} - {"x"}


def _rows() -> dict[str, set[str]]:
    """The table of the documentation: by model, its fail points; "none" has those of no model."""
    page = (ROOT / "docs" / "reliability.md").read_text()
    rows = re.findall(r"^\| `?(?:model/)?(\w+)(?:\.pml`)? \|[^|]*\| ((?:`\w+` ?)+) \|$", page, re.M)
    return {name: set(re.findall(r"`(\w+)`", points)) for name, points in rows}


@pytest.mark.check
def test_documentation_says_which_fail_points_are_steps_of_the_models() -> None:
    models = {path.stem: _points_of(path) for path in (ROOT / "model").glob("*.pml")}
    rows = _rows()
    not_modelled = rows.pop("none")
    assert rows == models
    known = {point.name for point in load_failpoints(CSRC / "spec" / "failpoints.yaml", ROOT)}
    assert set().union(*models.values()) | not_modelled == known
    assert not set().union(*models.values()) & not_modelled


@pytest.mark.check
def test_every_planted_fault_is_in_its_model_and_is_run() -> None:
    driver = (ROOT / "tools" / "model.py").read_text()
    run = set(re.findall(r'Run\("(\w+)", "[^"]*", "(FAULT_\w+)"\)', driver))
    planted = {
        (path.stem, fault)
        for path in (ROOT / "model").glob("*.pml")
        for fault in re.findall(r"#ifn?def (FAULT_\w+)", path.read_text())
    }
    assert run == planted


@pytest.mark.skipif(not (shutil.which("spin") and shutil.which("gcc")), reason="spin is missing")
def test_smallest_model_has_no_fault_and_planted_ones_are_found() -> None:
    for wanted in ("TWO_NAMESPACES", "REFUSED"):
        result = subprocess.run(
            [sys.executable, str(ROOT / "tools" / "model.py"), "--only", wanted],
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
