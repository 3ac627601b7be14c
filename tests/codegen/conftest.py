"""Specifications for the generator's tests: the project's tables, operators of the test's own."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
TABLES = ("dtypes", "dtype_sets", "errors", "failpoints", "keys", "options", "wire")

sys.path.insert(0, str(ROOT / "csrc"))


def make_project(root: Path, operators: str, loops: str) -> Path:
    """A directory that looks like the project's root; returns its spec directory."""
    spec = root / "csrc" / "spec"
    (spec / "ops").mkdir(parents=True)
    for name in TABLES:
        shutil.copy(ROOT / "csrc" / "spec" / f"{name}.yaml", spec)
    (spec / "loops.yaml").write_text(loops)
    (spec / "ops" / "three.yaml").write_text(operators)
    return spec


@pytest.fixture
def three_operators() -> str:
    """The text of the three-operator specification."""
    return (HERE / "spec" / "ops" / "three.yaml").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Callable[[str], Path]:
    """Make a project out of the text of one operator file; gives its spec directory."""

    def make(operators: str) -> Path:
        return make_project(tmp_path, operators, (HERE / "spec" / "loops.yaml").read_text())

    return make
