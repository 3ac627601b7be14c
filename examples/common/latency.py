"""What came out of an inference server's run: a table, a picture, a line."""

from __future__ import annotations

import csv
from pathlib import Path

from common.load import Log
from common.plots import Panel, draw_panels

__all__ = ["print_summary", "write_files"]


def write_files(folder: Path, log: Log, swaps: dict[float, str]) -> list[Path]:
    """Write the percentiles over time as a table and a picture; returns the paths."""
    table = folder / "latencies.csv"
    with open(table, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(Log.COLUMNS)
        rows.writerows([f"{value:.6g}" for value in row] for row in log.windows)
    columns = dict(zip(Log.COLUMNS, zip(*log.windows, strict=True), strict=True))
    seconds = columns["seconds"]
    latency = Panel("latency, ms", "seconds", is_log=True, marks=swaps)
    for percentile in ("p50", "p99"):
        latency.lines[percentile] = seconds, columns[f"{percentile}_ms"]
    rate = Panel("answers a second", "seconds", marks=swaps)
    steps = [b - a for a, b in zip((0.0, *seconds), seconds, strict=False)]
    rate.lines[""] = seconds, [n / s for n, s in zip(columns["answers"], steps, strict=True)]
    accuracy = Panel("share of right answers", "seconds", marks=swaps)
    accuracy.lines[""] = seconds, columns["accuracy"]
    title = "Inference server: versions are swapped while clients ask"
    return [table, *draw_panels([latency, rate, accuracy], folder / "latencies.png", title)]


def print_summary(log: Log) -> None:
    """One line about a run."""
    p50, p90, p99 = log.percentiles_ms()
    counts = "  ".join(f"{key.replace('_', ' ')} {n}" for key, n in log.counts.items())
    print(
        f"{log.n_answers} answers, {log.rate:.0f}/s   latency 50 % {p50:.2f}  90 % {p90:.2f}  "
        f"99 % {p99:.2f} ms   {counts}"
    )
