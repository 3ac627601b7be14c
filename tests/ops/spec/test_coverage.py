"""Every entry of the specification is in these tests, or stands in a list that says why not."""

from __future__ import annotations

import re

import pytest
from ops.spec import kinds
from ops.spec.cases import STEPS, TABLE, called, cases, is_elsewhere, is_step
from ops.spec.entries import ROOT, entries, form, model
from ops.spec.references import PROPERTIES, REFERENCES, key_in

_CALL = re.compile(r"[A-Za-z_]\w*")


def _used() -> set[str]:
    """Names of operators that derivatives, composite expressions and C functions call."""
    texts = [path.read_text() for path in sorted((ROOT / "csrc" / "ops").rglob("*.c"))]
    found = {name for text in texts for name in re.findall(r"shmt_op_(\w+)\(", text)}
    for entry in entries():
        lines = [derivative.expression for derivative in entry.derivatives]
        lines += [expression for _, expression in entry.jvp]
        if entry.composite_expression is not None:
            lines.append(entry.composite_expression)
        found |= {name for line in lines for name in _CALL.findall(line)}
    return found


@pytest.mark.check
def test_every_entry_has_a_case() -> None:
    for entry in called():
        assert cases(entry), entry.name


def test_every_step_of_a_derivative_is_used() -> None:
    used = _used()
    missing = {e.name for e in entries() if is_step(e)} - used
    assert not missing, f"no case in tests/ops/spec, and nothing calls it: {sorted(missing)}"


def test_every_entry_has_a_reference_or_a_reason() -> None:
    for entry in called():
        known = any(key_in(table, entry) for table in (REFERENCES, PROPERTIES))
        assert known or kinds.has_no_reference(entry), f"no reference of {entry.name}"
        assert not (known and kinds.has_no_reference(entry)), f"{entry.name} has a reference"


@pytest.mark.check
def test_every_reference_is_of_an_entry() -> None:
    used = {key_in(table, entry) for table in (REFERENCES, PROPERTIES) for entry in called()}
    assert set(REFERENCES) | set(PROPERTIES) <= used


def test_tables_name_entries_that_exist() -> None:
    known = {entry.name for entry in entries()}
    lists = {
        name: value
        for name, value in vars(kinds).items()
        if name.isupper() and name not in ("SYMMETRIC", "TRIANGULAR")
    }
    for name, value in {**lists, "TABLE": TABLE, "STEPS": STEPS}.items():
        unknown = {key for key in value if key not in known}
        assert not unknown, f"{name}: {sorted(unknown)}"


def test_every_derived_form_is_one_that_tests_of_forms_call() -> None:
    for entry in called():
        derived = [op for op in entry.operators if op.derived]
        assert all(form(entry, op.form) is op for op in derived), entry.name
    steps = {op.schema.full_name for e in entries() if is_step(e) for op in e.operators}
    elsewhere = sum(len(e.operators) for e in entries() if is_elsewhere(e))
    both = sum(len(e.operators) for e in called()) + elsewhere
    assert len(model().operators) == len(steps) + both
