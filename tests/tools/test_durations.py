"""What CI's summary says of a report of pytest's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from durations import main, summary

_REPORT = """<?xml version="1.0"?>
<testsuites><testsuite name="pytest">
<testcase classname="tests.shm.test_ring" name="test_a[x|y]" time="2.5" />
<testcase classname="tests.shm.test_ring" name="test_b" time="1.0"><skipped message="" /></testcase>
<testcase classname="tests.nn.test_init" name="test_c" time="3.0"><failure>no</failure></testcase>
</testsuite></testsuites>
"""


@pytest.mark.check
def test_slowest_files_and_tests_come_first() -> None:
    lines = summary(_REPORT).split("\n")
    assert lines[0] == "0.1 minutes of tests: 1 failure, 1 passed, 1 skipped"
    files = lines.index("| slowest files | s |")
    assert lines[files + 2 : files + 4] == [
        "| tests/shm/test_ring.py | 3.5 |",
        "| tests/nn/test_init.py | 3.0 |",
    ]
    tests = lines.index("| slowest tests | s |")
    assert lines[tests + 2] == "| tests/nn/test_init.py::test_c | 3.0 |"
    assert lines[tests + 3] == "| tests/shm/test_ring.py::test_a[x\\|y] | 2.5 |"


@pytest.mark.check
def test_missing_report_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.xml")]) == 0
    assert capsys.readouterr().out == "none.xml was not written\n"
