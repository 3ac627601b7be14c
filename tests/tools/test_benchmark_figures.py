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

import compare  # noqa: E402
import figures  # noqa: E402
import summary  # noqa: E402
from measure import Result, geometric_mean, print_table  # noqa: E402
from tables import markdown, microseconds, rows_of  # noqa: E402


@pytest.mark.check
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


def test_a_comparison_of_builds_reads_a_printed_table():
    printed = io.StringIO()
    with redirect_stdout(printed):
        print_table([Result("a + b, 4", 55.0, (54.0, 57.0), 969.0, (962.0, 973.0))])
    assert compare.rows(printed.getvalue()) == {("a + b, 4", 0): 55.0}


@pytest.mark.parametrize(
    ("nanoseconds", "expected"),
    [
        (57, "0.057"),
        (999.6, "1.00"),
        (2345, "2.35"),
        (10831, "10.8"),
        (478332, "478"),
        (47878599, "47 900"),
    ],
)
def test_microseconds_have_three_digits(nanoseconds: float, expected: str):
    assert microseconds(nanoseconds) == expected


def test_what_a_program_printed_becomes_tables_and_text():
    results = [
        Result("fork, Queue, 4 KB", 10831.0, (1e4, 3e4), 478332.0, (4e5, 5e5)),
        Result("fork, a * b | c, 4 KB", 57.0, (55.0, 60.0), 1034.0, (1e3, 2e3)),
    ]
    printed = io.StringIO()
    with redirect_stdout(printed):
        print("against gloo:")
        print_table(results, theirs="gloo")
        print("\nstart      4.78 ms  goal 10\nattach    10.9 µs")
    assert markdown(printed.getvalue()) == "\n".join(
        [
            "Against gloo:",
            "",
            "| fork, 4 KB | shmtensor, µs | gloo, µs | ratio |",
            "|---|---:|---:|---:|",
            "| Queue | 10.8 | 478 | 0.023 |",
            r"| a \* b \| c | 0.057 | 1.03 | 0.055 |",
            "",
            "Geometric mean of the ratios: 0.035",
            "",
            "|  |  |  |",
            "| --- | ---: | ---: |",
            "| start | 4.78 ms | goal 10 |",
            "| attach | 10.9 µs |  |",
        ]
    )


@pytest.mark.check
def test_the_page_is_that_of_the_recorded_run():
    assert summary.page(json.loads(figures.RESULTS.read_text())) == summary.PAGE.read_text()


def test_the_first_pages_figures_are_those_of_the_recorded_run():
    results = json.loads(figures.RESULTS.read_text())
    page = figures.README.read_text()
    assert figures.with_table(page, figures.table(results)) == page


def test_a_page_without_markers_is_refused():
    with pytest.raises(ValueError, match="figures"):
        figures.with_table("# title\n", "| a |")


def test_tables_are_drawn_with_their_quartiles(tmp_path):
    pytest.importorskip("matplotlib")
    results = [Result(f"case {i}", 55.0, (54.0, 57.0), 969.0, (962.0, 973.0)) for i in range(3)]
    printed = io.StringIO()
    with redirect_stdout(printed):
        print_table(results)
        print_table(results[:1])
        print_table(results)
    path = tmp_path / figures.image_name("bench_training.py --threads 1")
    assert path.name == "bench_training_threads_1.png"
    assert figures.plot_tables(printed.getvalue(), path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert not figures.plot_tables("ratio: 0.119\n", path)


def test_peers_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    row = {"ours_ns": 1e4, "theirs_ns": 1e6}
    rows = [{"name": f"{size}, {peer}", **row} for size in ("4 KB", "1 MB") for peer in "ab"]
    path = tmp_path / "images" / "peers.png"
    assert figures.plot({"programs": {"bench_peers.py": {"results": rows}}}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert not figures.plot({"programs": {}}, path)
