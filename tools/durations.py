"""Say in Markdown how long tests took: ``durations.py REPORT.xml``, of ``pytest --junitxml``.

CI shows it as the summary of a job, so that a test that became slow is seen.
"""

from __future__ import annotations

import argparse
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

N_ROWS = 25


def _table(title: str, rows: Iterable[tuple[str, float]]) -> list[str]:
    return [f"| {title} | s |", "|---|---:|", *(f"| {name} | {s:.1f} |" for name, s in rows), ""]


def summary(report: str) -> str:
    """The slowest files and tests of a report, with how many tests ran and failed."""
    files: Counter[str] = Counter()
    tests: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    for case in ElementTree.fromstring(report).iter("testcase"):
        seconds = float(case.get("time", "0"))
        file = case.get("classname", "").replace(".", "/") + ".py"
        files[file] += seconds  # type: ignore[assignment]
        tests[f"{file}::{case.get('name')}".replace("|", "\\|")] += seconds  # type: ignore[assignment]
        kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        outcomes[kinds[0] if kinds else "passed"] += 1
    counts = ", ".join(f"{n} {kind}" for kind, n in sorted(outcomes.items()))
    lines = [f"{sum(files.values()) / 60:.1f} minutes of tests: {counts}", ""]
    lines += _table("slowest files", files.most_common(N_ROWS))
    lines += _table("slowest tests", tests.most_common(N_ROWS))
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Print the summary of a report; a report that is missing is said, and no error."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("report", type=Path)
    path = parser.parse_args(arguments).report
    print(summary(path.read_text()) if path.exists() else f"{path.name} was not written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
