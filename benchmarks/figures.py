"""The figures of README.md and the plots, from the recorded results of the last run.

``python benchmarks/figures.py`` writes the table between the markers in README.md and a plot for
each program; ``--check`` only compares the table with the results, for ``make lint``. `summary.py`
records the results.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import Any

from tables import Table, microseconds, parts_of

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
README = HERE.parent / "README.md"
IMAGES = HERE.parent / "docs" / "images"
PEERS = "bench_peers.py"
BEGIN, END = "<!-- figures: benchmarks/figures.py -->", "<!-- end of figures -->"


def _ratios(results: dict[str, Any], command: str) -> dict[str, list[float]]:
    """Exact ratios of a program's rows, by name, in their order."""
    found: dict[str, list[float]] = {}
    for row in results["programs"][command]["results"]:
        found.setdefault(row["name"], []).append(row["ours_ns"] / row["theirs_ns"])
    return found


def _mean(ratios: dict[str, list[float]], *, without: str = "\0") -> tuple[float, int]:
    values = [v for name, row in ratios.items() if not name.startswith(without) for v in row]
    return math.exp(statistics.fmean(math.log(value) for value in values)), len(values)


def _figure(value: float) -> str:
    return f"{value:.3f}" if value < 0.01 else f"{value:.2f}"


def table(results: dict[str, Any]) -> str:
    """Return the lines between the markers.

    Args:
        results: What `summary.py` recorded.

    Raises:
        KeyError: A program or a row that a figure comes from is missing.
    """
    sends, n_sends = _mean(_ratios(results, "bench_sends.py"))
    calls, n_calls = _mean(_ratios(results, "bench_call.py"), without="chain")
    steps, n_steps = _mean(_ratios(results, "bench_training.py --threads 1"))
    # The first table of bench_share is against torch's default strategy.
    dict_of_100 = _ratios(results, "bench_share.py")["dict of 100"][0]
    share = _ratios(results, "bench_memory.py")["share_memory_ 4 KB"][0]
    sizes = f"{n_sends} sizes, queues and start methods, mean"
    lines = [
        f"| compared with torch {results['torch']} on a CPU | time, torch = 1 |",
        "|---|---|",
        f"| send a tensor to another process ({sizes}) | {_figure(sends)} |",
        f"| send a dict of 100 tensors | {_figure(dict_of_100)} |",
        f"| `share_memory_()` of 4 KB | {_figure(share)} |",
        f"| call a small operator (mean of {n_calls}) | {_figure(calls)} |",
        f"| train a step (mean of {n_steps} networks, one thread) | {_figure(steps)} |",
    ]
    return "\n".join(lines)


def with_table(page: str, lines: str) -> str:
    """Return a page with *lines* between the markers.

    Raises:
        ValueError: The page has no markers.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{lines}\n{END}{after}"


def image_name(command: str) -> str:
    """Return the file name of a program's plot."""
    words = "".join(c if c.isalnum() else "_" for c in command.replace(".py", ""))
    return "_".join(filter(None, words.split("_"))) + ".png"


def plot_tables(output: str, path: Path) -> bool:
    """Draw the tables of two sides that a program printed, a panel each, with the quartiles.

    Returns:
        Whether there were any, and matplotlib.
    """
    tables = [part for part in parts_of(output) if isinstance(part, Table) and part.rows]
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("not drawn: matplotlib is not installed")
        return False
    if not tables:
        return False
    n_columns = min(len(tables), 2)
    panels = [tables[i : i + n_columns] for i in range(0, len(tables), n_columns)]
    heights = [0.7 + 0.17 * max(len(table.rows) for table in row) for row in panels]
    figure = Figure(figsize=(5.2 * n_columns, sum(heights)), layout="constrained")
    grid = figure.subplots(
        len(panels), n_columns, squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    for axes in grid.flat[len(tables) :]:
        axes.set_axis_off()
    for axes, table in zip(grid.flat, tables, strict=False):
        _draw(axes, table)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=80)
    print(f"written: {path}")
    return True


def _draw(axes: Any, table: Table) -> None:
    places = range(len(table.rows))
    ours, theirs = ([row[side] / 1e3 for row in table.rows] for side in ("ours_ns", "theirs_ns"))
    axes.hlines(places, ours, theirs, color="#d5dbe0", linewidth=1)
    for side, times, colour in (("theirs", theirs, "#6b7780"), ("ours", ours, "#1f6fb4")):
        quartiles = [row[f"{side}_quartiles_ns"] for row in table.rows]
        low, high = ([pair[i] / 1e3 for pair in quartiles] for i in (0, 1))
        axes.hlines(places, low, high, color=colour, linewidth=2.5, alpha=0.4)
        axes.plot(times, places, "o", color=colour, markersize=4, label=getattr(table, side))
    axes.set_yticks(places, table.short_names())
    axes.invert_yaxis()
    axes.set_xscale("log")
    # Whole decades, so that each axis has labels.
    ends = (math.floor(math.log10(min(ours + theirs))), math.ceil(math.log10(max(ours + theirs))))
    axes.set_xlim(10.0 ** ends[0], 10.0 ** ends[1])
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}".replace(",", " "))
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.set_xlabel("µs", fontsize=8)
    title = [table.caption.partition(" (")[0].rstrip(":"), *table.common()]
    axes.set_title(", ".join(filter(None, title)), fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=7)
    axes.legend(fontsize=7, frameon=False)


def plot(results: dict[str, Any], path: Path) -> bool:
    """Draw the times of bench_peers; returns whether there were any, and matplotlib."""
    rows = results["programs"].get(PEERS, {}).get("results", [])
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("not drawn: matplotlib is not installed")
        return False
    if not rows:
        return False
    sizes: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        size, _, peer = row["name"].partition(", ")
        sizes.setdefault(size, {})[peer] = row
    figure = Figure(figsize=(4.2 * len(sizes), 3.6), layout="constrained")
    for axes, (size, peers) in zip(
        figure.subplots(1, len(sizes), squeeze=False)[0], sizes.items(), strict=True
    ):
        ours = statistics.median(row["ours_ns"] for row in peers.values()) / 1e3
        names = ["shmtensor", *peers]
        times = [ours, *(row["theirs_ns"] / 1e3 for row in peers.values())]
        bars = axes.barh(names, times, color=["#1f6fb4", *["#9aa7b2"] * len(peers)])
        axes.bar_label(bars, [microseconds(time * 1e3) for time in times], padding=3, fontsize=8)
        axes.set_xscale("log")
        axes.set_xlim(min(times) / 3, max(times) * 6)
        axes.invert_yaxis()
        axes.set_title(f"{size} there and back, µs", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"written: {path}")
    return True


def main() -> int:
    """Write or check the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    page = README.read_text()
    new = with_table(page, table(results))
    if options.check:
        if new != page:
            print(
                "README.md: the figures are not those of benchmarks/results.json; run", sys.argv[0]
            )
        return int(new != page)
    README.write_text(new)
    print(f"written: {README}")
    plot(results, IMAGES / image_name(PEERS))
    for command, found in results["programs"].items():
        if command != PEERS:
            plot_tables(found["output"], IMAGES / image_name(command))
    return 0


if __name__ == "__main__":
    sys.exit(main())
