"""Run CPython's own tests of `multiprocessing` on `shmtensor.multiprocessing`.

The tests are those of the interpreter that runs them (``test._test_multiprocessing``), loaded from
where it is installed. Each start method runs twice: with the standard package, whose results are
kept in ``build/cpython_suite`` for the next time, and with ours in its place. A test that fails is
tried once more, alone. The exit status is 1 when a test fails with ours that passes with the
standard package.

    python tools/cpython_suite.py
    python tools/cpython_suite.py --python ../venv313/bin/python --methods fork spawn
    python tools/cpython_suite.py --only '*Pool*' --fresh
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import fnmatch
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve()
CACHE = ROOT / "build" / "cpython_suite"
METHODS = ("fork", "spawn", "forkserver")
PREFIX = "cpython_suite_"
GOOD = ("ok", "skipped", "expected failure")

Outcomes = dict[str, str]


# --- inside the process that runs the tests ---------------------------------------------------


def run_tests(method: str, pattern: str, out: Path) -> None:
    """Run the tests of a start method; a line of JSON for each goes to *out*."""
    import importlib
    import unittest

    # Shells start background jobs with the signal ignored, which some tests need.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module = importlib.import_module(PREFIX + method)

    class Result(unittest.TextTestResult):
        def startTest(self, test: unittest.TestCase) -> None:
            _append(out, test.id(), "started")
            super().startTest(test)

        def stopTest(self, test: unittest.TestCase) -> None:
            super().stopTest(test)
            _append(out, test.id(), self._outcome(test))

        def _outcome(self, test: unittest.TestCase) -> str:
            def has(entries: list[tuple[unittest.TestCase, str]]) -> bool:
                # A failed subtest counts for its test.
                return any(getattr(t, "test_case", t) is test for t, _ in entries)

            if has(self.errors):
                return "error"
            if has(self.failures) or test in self.unexpectedSuccesses:
                return "failure"
            if has(self.skipped):
                return "skipped"
            return "expected failure" if has(self.expectedFailures) else "ok"

    suite = unittest.TestSuite()
    for case in _cases(unittest.defaultTestLoader.loadTestsFromModule(module)):
        if fnmatch.fnmatchcase(case.id().partition(".")[2], pattern):
            suite.addTest(case)
    unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)
    _append(out, "", "done")


def _cases(suite):  # type: ignore[no-untyped-def]
    for entry in suite:
        if hasattr(entry, "__iter__"):
            yield from _cases(entry)
        else:
            yield entry


def _append(out: Path, test: str, outcome: str) -> None:
    with open(out, "a") as file:
        file.write(json.dumps([test.partition(".")[2], outcome]) + "\n")


# --- outside ----------------------------------------------------------------------------------


def _write_modules(directory: Path, *, redirect: bool) -> None:
    """Write what the tests' processes import: a module for each start method."""
    # A test lists the package's modules by their files. Some of ours have none, only stubs.
    names = "import mp_redirect\n\nmp_redirect.list_modules(_test_multiprocessing)"
    for method in METHODS:
        (directory / f"{PREFIX}{method}.py").write_text(
            textwrap.dedent(
                f"""\
                from test import _test_multiprocessing

                _test_multiprocessing.install_tests_in_module_dict(globals(), {method!r})
                """
            )
            + (names if redirect else "")
        )
    if redirect:
        (directory / "sitecustomize.py").write_text(
            textwrap.dedent(
                f"""\
                import sys

                sys.path.append({str(HERE.parent)!r})
                import mp_redirect

                mp_redirect.install()
                """
            )
        )


def _run(python: str, method: str, side: str, pattern: str, timeout_s: float) -> Outcomes:
    """Run the tests of one start method with one of the packages."""
    with tempfile.TemporaryDirectory(prefix="cpython-suite-") as name:
        directory = Path(name)
        _write_modules(directory, redirect=side == "shmtensor")
        out, log = directory / "outcomes", CACHE / f"{_tag(python)}-{method}-{side}.log"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SHMTENSOR_", "PYTHON"))}
        env["PYTHONPATH"] = os.pathsep.join([str(directory), str(ROOT)])
        command = [python, str(HERE), "--run", method, "--only", pattern, "--out", str(out)]
        with open(log, "w") as output:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                print(f"  {method}, {side}: not done after {timeout_s:.0f} s", flush=True)
            finally:
                # A test that hangs leaves children.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        outcomes = _read(out)
    if not outcomes:
        raise SystemExit(f"no test ran: {' '.join(command)}; see {log}")
    return outcomes


def _read(out: Path) -> Outcomes:
    outcomes: Outcomes = {}
    if out.exists():
        for line in out.read_text().splitlines():
            test, outcome = json.loads(line)
            if test:
                outcomes[test] = outcome
    return {t: "did not end" if o == "started" else o for t, o in outcomes.items()}


def _tag(python: str) -> str:
    code = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    return subprocess.check_output([python, "-c", code], text=True).strip()


def _with_retries(python: str, method: str, side: str, pattern: str, timeout_s: float) -> Outcomes:
    outcomes = _run(python, method, side, pattern, timeout_s)
    for test in [t for t, outcome in outcomes.items() if outcome not in GOOD]:
        print(f"  {method}, {side}: {test}: {outcomes[test]}; once more", flush=True)
        outcomes.update(_run(python, method, side, test, min(timeout_s, 300)))
    return outcomes


def _standard(python: str, method: str, pattern: str, timeout_s: float, *, fresh: bool) -> Outcomes:
    """Results of the standard package: those kept, or new ones."""
    kept = CACHE / f"{_tag(python)}-{method}.json"
    if kept.exists() and not fresh:
        outcomes: Outcomes = json.loads(kept.read_text())
        return {t: o for t, o in outcomes.items() if fnmatch.fnmatchcase(t, pattern)}
    outcomes = _with_retries(python, method, "standard", pattern, timeout_s)
    if pattern == "*":
        kept.write_text(json.dumps(outcomes, indent=1, sort_keys=True))
    return outcomes


def _summary(outcomes: Outcomes) -> str:
    counts = collections.Counter(outcomes.values())
    n_bad = sum(n for outcome, n in counts.items() if outcome not in GOOD)
    return f"{counts['ok']} ok, {n_bad} failed, {counts['skipped']} skipped"


def compare(python: str, method: str, pattern: str, timeout_s: float, *, fresh: bool) -> int:
    """Run both sides and print how they differ; returns how many tests only ours fails."""
    started = time.monotonic()
    standard = _standard(python, method, pattern, timeout_s, fresh=fresh)
    ours = _with_retries(python, method, "shmtensor", pattern, timeout_s)
    print(f"Python {_tag(python)}, {method} ({time.monotonic() - started:.0f} s)")
    print(f"  standard   {_summary(standard)}")
    print(f"  shmtensor  {_summary(ours)}")
    n_worse = 0
    for test in sorted({*standard, *ours}):
        before, after = standard.get(test, "not run"), ours.get(test, "not run")
        if (before in GOOD) != (after in GOOD):
            n_worse += before in GOOD
            print(f"  {test}: {before} -> {after}")
    print(flush=True)
    return n_worse


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--python", nargs="+", default=[sys.executable], metavar="PATH")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="such as '*Pool*'")
    parser.add_argument("--fresh", action="store_true", help="run the standard package again")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for each run")
    parser.add_argument("--run", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run_tests(options.run, options.only, options.out)
        return 0
    CACHE.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # not without the tests' processes
    n_worse = 0
    for python in options.python:
        for method in options.methods:
            n_worse += compare(python, method, options.only, options.timeout, fresh=options.fresh)
    print(f"{n_worse} tests fail that pass with the standard package")
    return 1 if n_worse else 0


if __name__ == "__main__":
    sys.exit(main())
