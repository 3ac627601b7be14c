"""The project's own specification: it generates without a problem."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen import generate
from codegen.emit.kernels import load_loops
from codegen.emit.python import python_tables
from codegen.spec.entries import load_model
from codegen.spec.tables import load_tables

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / "csrc" / "spec"


@pytest.mark.check
def test_specification_has_no_problem(tmp_path: Path) -> None:
    assert generate(SPEC, tmp_path, ROOT, check=True).problems == []


@pytest.mark.check
def test_every_loop_has_a_template_file() -> None:
    tables = load_tables(SPEC, ROOT)
    model = load_model(SPEC, ROOT, tables)
    for template in load_loops(SPEC, ROOT, model, tables).templates.values():
        assert (ROOT / "csrc" / template.path).exists(), template.name


def test_tensor_overloads_come_before_numbers_and_out_last() -> None:
    tables = load_tables(SPEC, ROOT)
    names = {n.name: n for n in python_tables(load_model(SPEC, ROOT, tables)).functions}
    assert [op.schema.overload for op in names["add"].operators] == ["Tensor", "Scalar", "out"]
