"""Run a library's own tests with torch and with this package in its place, and compare.

    python tools/library_suite.py ../linear_operator/test
    python tools/library_suite.py ../kornia/tests --python ../oracle/bin/python -- -k color

TESTS is what pytest is given: a file or folder of the library's source, of the version that is
installed. The interpreter (``--python``; this one if not given) has torch, the library and pytest;
this package is found in the checkout, and answers ``import torch`` the second time. What comes
after ``--`` goes to pytest both times. A test that ends its process or takes too long counts as
lost, and the others run in a new process.

Prints how many of the tests that pass with torch pass with this package, and the others by the
last line of their error. The exit status is 1 when there are any.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: Where the plugin, inside the process that runs the tests, writes a line of JSON for each event.
_EVENTS = "LIBRARY_SUITE_EVENTS"
_SIDES = {
    "torch": ["-m", "pytest"],
    "shmtensor": ["-m", "shmtensor", "run", "--as-torch", "-m", "pytest"],
}
#: After so many processes that ended within a test, the rest is not tried.
_MOST_PROCESSES = 20


# --- the plugin of pytest -------------------------------------------------------------------------


def _write(*event: str) -> None:
    with open(os.environ[_EVENTS], "a") as file:
        file.write(json.dumps(event) + "\n")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Leave out the tests of earlier processes."""
    begun = {test for test, *_ in _events(Path(os.environ[_EVENTS]))}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in begun])
    items[:] = [item for item in items if item.nodeid not in begun]


def pytest_runtest_logstart(nodeid: str) -> None:
    """Note that a test begins."""
    _write(nodeid, "begun", "")


def pytest_runtest_logreport(report: Any) -> None:
    """Note how a part of a test ended, unless it is a part that passed before the test itself."""
    if report.failed:
        # An error without a report of its own is one text.
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash else str(report.longrepr)
        _write(report.nodeid, "failed", text.strip().splitlines()[0] if text.strip() else "")
    elif report.skipped or report.when == "call":
        _write(report.nodeid, report.outcome, "")


def pytest_collectreport(report: Any) -> None:
    """Note a file that cannot be imported."""
    if report.failed:
        _write(report.nodeid, "not collected", str(report.longrepr).strip().splitlines()[-1])


# --- outside --------------------------------------------------------------------------------------


def _events(path: Path) -> list[tuple[str, str, str]]:
    if not path.exists():
        return []
    return [tuple(json.loads(line)) for line in path.read_text().splitlines()]


def _outcomes(path: Path) -> dict[str, tuple[str, str]]:
    """The outcome and the error of each test; a failure stays one, whatever follows."""
    found: dict[str, tuple[str, str]] = {}
    for test, outcome, error in _events(path):
        if found.get(test, ("begun", ""))[0] in ("begun", "passed"):
            found[test] = (outcome, error)
    return found


def run(
    side: str, tests: list[str], python: str, pytest_args: list[str], timeout_s: float
) -> dict[str, tuple[str, str]]:
    """Run the tests with one of the packages.

    Args:
        side: "torch" or "shmtensor".
        tests: Files and folders.
        python: The interpreter.
        pytest_args: More arguments.
        timeout_s: How long one test may take; its process ends with it.

    Returns:
        For each test, and each file that cannot be collected, its outcome and its error.
    """
    with tempfile.TemporaryDirectory(prefix="library-suite-") as folder:
        events = Path(folder) / "events"
        env = {
            **os.environ,
            _EVENTS: str(events),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)]),
        }
        command = [python, *_SIDES[side], "-q", "-p", Path(__file__).stem, "-p", "no:cacheprovider"]
        command += ["--continue-on-collection-errors", *pytest_args, *tests]
        for _ in range(_MOST_PROCESSES):
            if _run_once(command, env, events, timeout_s):
                break
            for test, (outcome, _) in _outcomes(events).items():
                if outcome == "begun":
                    with open(events, "a") as file:
                        file.write(json.dumps([test, "did not end", "its process ended"]) + "\n")
        return _outcomes(events)


def _run_once(command: list[str], env: dict[str, str], events: Path, timeout_s: float) -> bool:
    """Run one process until it ends by itself, or no test begins or ends for so long.

    Returns:
        Whether all tests have been run.
    """
    process = subprocess.Popen(
        command, env=env, stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True
    )
    n_before = -1
    try:
        while True:
            try:
                # 0 to 2: passed, failed, or not all collected; 5: none left.
                return process.wait(timeout_s) in (0, 1, 2, 5)
            except subprocess.TimeoutExpired:
                n_now = len(_events(events))
                if n_now == n_before:
                    return False
                n_before = n_now
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="+", metavar="TESTS")
    parser.add_argument("--python", default=sys.executable, metavar="PATH")
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one test (300)")
    split = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    options = parser.parse_args(sys.argv[1:split])
    pytest_args = sys.argv[split + 1 :]
    theirs, ours = (
        run(side, options.tests, options.python, pytest_args, options.timeout) for side in _SIDES
    )
    passed = [test for test, (outcome, _) in theirs.items() if outcome == "passed"]
    lost = [test for test in passed if ours.get(test, ("not run", ""))[0] != "passed"]
    causes = collections.defaultdict(list)
    for test in lost:
        outcome, error = ours.get(test, ("not run", ""))
        causes[f"{outcome}: {error}" if error else outcome].append(test)
    for test, (outcome, error) in ours.items():
        if outcome == "not collected":
            print(f"not collected: {test}: {error}")
    for cause, some in sorted(causes.items(), key=lambda item: -len(item[1])):
        print(f"{len(some):5} {cause[:300]}\n        {some[0]}")
    if not passed:
        raise SystemExit("no test passes with torch")
    n_kept = len(passed) - len(lost)
    print(f"{n_kept} of {len(passed)} that pass with torch ({n_kept / len(passed):.1%})")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
