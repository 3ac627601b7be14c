"""The record of benchmarks: tables that are read back, and README's figures from them."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import figures  # noqa: E402
from measure import Result, geometric_mean, print_table  # noqa: E402
from tables import rows_of  # noqa: E402


def test_a_printed_table_is_read_back():
    results = [
        Result("a + b (grad)", 55.0, (54.0, 57.0), 969.0, (962.0, 973.0)),
        Result("4 KB, standard queue", 12.0, (11.0, 13.0), 480_813_000.0, (1e8, 5e9)),
    ]
    printed = io.StringIO()
    with redirect_stdout(printed):
        print_table(results)
    rows = rows_of(printed.getvalue())
    assert [row["name"] for row in rows] == [result.name for result in results]
    for row, result in zip(rows, results, strict=True):
        assert row["ours_ns"] == result.ours_ns
        assert row["theirs_quartiles_ns"] == list(result.theirs_quartiles_ns)
        assert row["ratio"] == pytest.approx(result.ratio, abs=5e-4)
    assert figures._mean({r.name: [r.ratio] for r in results}) == pytest.approx(
        (geometric_mean(results), 2)
    )


def test_the_first_pages_figures_are_those_of_the_recorded_run():
    results = json.loads(figures.RESULTS.read_text())
    page = figures.README.read_text()
    assert figures.with_table(page, figures.table(results)) == page


def test_a_page_without_markers_is_refused():
    with pytest.raises(ValueError, match="figures"):
        figures.with_table("# title\n", "| a |")


def test_peers_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    row = {"ours_ns": 1e4, "theirs_ns": 1e6}
    rows = [{"name": f"{size}, {peer}", **row} for size in ("4 KB", "1 MB") for peer in "ab"]
    path = tmp_path / "images" / "peers.png"
    assert figures.plot({"programs": {"bench_peers.py": {"results": rows}}}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert not figures.plot({"programs": {}}, path)
