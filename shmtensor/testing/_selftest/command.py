"""The command line of the self-test: runs the sections, prints results, looks what was left."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from shmtensor._boundary.runtime import cpu_capability, only_cpu_capability
from shmtensor._cli._common import check_lines, count, print_json
from shmtensor.inspect import Check
from shmtensor.multiprocessing._stdlib import interpreter_flags
from shmtensor.testing._selftest.section import run_section

__all__ = ["main"]

_SECTIONS = ("facts", "operators", "gradients", "sharing")
_LEVELS = ("base", "v3", "v4")
# Each section takes seconds; a loaded or emulated machine may be many times slower.
_TIMEOUT_S = 300.0
# A manager ends one second after its last client.
_AFTER_S = 20.0
_MARK = "SHMTENSOR_SELFTEST"
# Wider than the longest name of a check.
_WIDTH = 30


def _environment(mark: str, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a section: without our parents' session, and marked."""
    kept = {k: v for k, v in os.environ.items() if k != "SHMTENSOR_MANAGER"}
    return {**kept, **changes, _MARK: mark}


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a section's process and those that it started, if it still runs."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _run(section: str, mark: str, changes: Mapping[str, str]) -> Iterator[Check]:
    """Run a section in a process of its own; its end is a result too, if it is not as it should."""
    process = subprocess.Popen(
        [sys.executable, *interpreter_flags(), "-m", "shmtensor.testing", "--section", section],
        env=_environment(mark, changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        _end(process)

    timer = threading.Timer(_TIMEOUT_S, stop)
    timer.name = "shmtensor-selftest"
    timer.start()
    assert process.stdout is not None
    try:
        with process.stdout:
            for line in process.stdout:
                if line.startswith("{"):
                    yield Check(**json.loads(line))
        status = process.wait()
    finally:
        timer.cancel()
        _end(process)
    if is_late.is_set():
        yield Check(section, "bad", f"did not end within {_TIMEOUT_S:g} s, and was killed")
    elif status < 0:
        yield Check(section, "bad", f"was killed by {signal.Signals(-status).name}")
    elif status > 0:
        advice = "the reason is above, on standard error"
        yield Check(section, "bad", f"ended with status {status}", advice)


def _marked(mark: str) -> list[int]:
    """Return the ids of processes that a section started and that still run."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:  # of another user, or ended
            continue
    return found


def _command(pid: int) -> str:
    """Return what a process was started as; empty: it has ended."""
    try:
        return (
            Path(f"/proc/{pid}/cmdline").read_text(errors="replace").rstrip("\0").replace("\0", " ")
        )
    except OSError:
        return ""


def _left_behind(mark: str, folder: str) -> Check:
    """Wait for the processes of all sections, managers included, to end; *folder* was theirs."""
    name = "nothing is left"
    deadline = time.monotonic() + _AFTER_S
    while (pids := _marked(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if pids:
        named = ", ".join(f"process {pid} ({_command(pid)})" for pid in pids)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return Check(name, "bad", f"still ran {_AFTER_S:g} s after the end: {named}")
    if files := sorted(os.listdir(folder)):
        return Check(name, "bad", f"files in the temporary directory: {', '.join(files)}")
    return Check(name, "ok", "the managers ended, no process, no temporary file")


def _lower_levels() -> Sequence[str]:
    """The levels below this process's that the build has, too."""
    return () if only_cpu_capability() else _LEVELS[: _LEVELS.index(cpu_capability())]


def _results(quick: bool, folder: str) -> Iterator[Check]:
    """Run everything; the temporary files of the sections are to go to *folder*, which is empty."""
    mark, own = uuid.uuid4().hex, {"TMPDIR": folder}
    for section in _SECTIONS:
        yield from _run(section, mark, own)
    for lower in () if quick else _lower_levels():
        results = list(_run("operators", mark, {**own, "SHMTENSOR_CPU_CAPABILITY": lower}))
        failed = [check for check in results if check.verdict == "bad"]
        for check in failed:
            yield Check(f"{check.name}, {lower}", check.verdict, check.found, check.advice)
        if not failed:
            yield Check(f"operators, level {lower}", "ok", f"{len(results)} checks as above")
    yield _left_behind(mark, folder)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m shmtensor.testing",
        description="Try on this machine what the package promises; takes less than a minute. "
        "The exit status is 0 when everything works, and 1 otherwise.",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--quick", action="store_true", help="operators only at the processor's instruction set"
    )
    parser.add_argument("--section", choices=_SECTIONS, help=argparse.SUPPRESS)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the self-test with the arguments *argv* (default: the process's).

    Returns:
        0: everything works, perhaps with notes. 1: a check failed.
    """
    arguments = _parser().parse_args(argv)
    if arguments.section:
        run_section(arguments.section)
        return 0
    start = time.monotonic()
    checks = []
    with tempfile.TemporaryDirectory(prefix="shmtensor-", ignore_cleanup_errors=True) as folder:
        for check in _results(arguments.quick, folder):
            checks.append(check)
            if not arguments.json:
                print("\n".join(check_lines(check, _WIDTH)), flush=True)
    failed = sum(check.verdict == "bad" for check in checks)
    if arguments.json:
        print_json([asdict(check) for check in checks])
    else:
        notes = sum(check.verdict == "note" for check in checks)
        seconds = time.monotonic() - start
        print(f"{len(checks)} checks: {failed} failed, {count(notes, 'note')}, {seconds:.1f} s")
    return 1 if failed else 0
