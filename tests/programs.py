"""Run a program of examples/ as a user does, and see what it leaves."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import waiting

from shmtensor import inspect

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def own_session() -> dict[str, str]:
    """The environment without the session of the tests: a user's program starts one of its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SHMTENSOR_")}


def marked(mark: str) -> list[int]:
    """Processes that still run with this text in SHMT_TEST_MARK, whoever their parent is."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if (
                process.status() != psutil.STATUS_ZOMBIE
                and process.environ().get("SHMT_TEST_MARK") == mark
            ):
                found.append(process.pid)
    return found


class Run:
    """The example as a process, every descendant of which carries a mark.

    *prefix* is what starts Python, such as ``mpiexec -n 2``.
    """

    def __init__(
        self,
        program: str,
        out: Path,
        *arguments: str,
        folder: str = "--out",
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.mark = uuid.uuid4().hex
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [
                *(*prefix, sys.executable, str(EXAMPLES / program)),
                *("--plain", folder, str(out), *arguments),
            ],
            cwd=out.parent,
            env={**own_session(), "SHMT_TEST_MARK": self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read lines until one matches."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            found = re.search(pattern, line)
            if found:
                return found
        raise AssertionError(f"no line matches {pattern!r}:\n" + "".join(self.lines))

    def finish(self) -> str:
        """Everything printed, after the end."""
        rest, _ = self.process.communicate(timeout=240)
        return "".join(self.lines) + rest

    def worker_pids(self) -> list[int]:
        """Read from the line that names them."""
        return [int(p) for p in self.wait_for(r"worker pids: ([\d ]+)").group(1).split()]

    def training_pids(self, metric: str) -> list[int]:
        """The two workers, once both train and the model was measured."""
        pids = self.worker_pids()
        self.wait_for(rf"training [1-9].*training [1-9].*{metric}")
        return pids

    def marked(self) -> list[int]:
        """Processes with the mark that still run, whoever their parent is."""
        return marked(self.mark)

    def sessions(self) -> set[str]:
        """Addresses of the sessions whose manager is one of these processes."""
        marked, found = self.marked(), set()
        for session in inspect.open_sessions():
            with contextlib.closing(session), contextlib.suppress(OSError, RuntimeError):
                if session.manager_pid() in marked:
                    found.add(session.address)
        return found

    def nothing_is_left(self) -> bool:
        """Whether every marked process ends by itself, and with it its sessions."""
        sessions = self.sessions()
        return waiting.comes_true(lambda: not self.marked()) and not sessions & {
            session.address for session in inspect.open_sessions()
        }

    def kill_all(self) -> None:
        """Kill every marked process."""
        for pid in self.marked():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Leave nothing of it, whatever the test found."""
        self.kill_all()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def finished(run: Run, status: int = 0) -> str:
    """What an example printed, after an end with this status that left nothing."""
    text = run.finish()
    assert run.process.returncode == status, text
    assert run.nothing_is_left()
    return text


def to_its_end(program: Path, out: Path, *arguments: str) -> str:
    """What an example printed, in a run of its own that ended well and left nothing."""
    run = Run(program.name, out, *arguments)
    try:
        return finished(run)
    finally:
        run.close()


# To start Python and to import what a program needs takes longer than to refuse its arguments.
_REFUSALS = """
import contextlib, importlib, io, json, sys
from pathlib import Path

program, results = Path(sys.argv[1]), []
sys.path.insert(0, str(program.parent))
main = importlib.import_module(program.stem).main
for arguments in json.load(sys.stdin):
    sys.argv = [str(program), *arguments]
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            status = main()
        except SystemExit as end:
            status = end.code
    results.append([status, errors.getvalue()])
print(json.dumps(results))
"""


def refusals(program: Path, folder: Path, *lines: Sequence[str]) -> list[str]:
    """What an example, run in *folder*, says of each command line that it refuses.

    All are given to its `main` in one process.
    """
    result = subprocess.run(
        [sys.executable, "-c", _REFUSALS, str(program)],
        input=json.dumps([["--plain", *line] for line in lines]),
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert (result.returncode, result.stderr) == (0, "")
    said = json.loads(result.stdout)
    assert [(line, status) for line, (status, _) in zip(lines, said, strict=True)] == [
        (line, 2) for line in lines
    ], said
    return [errors for _, errors in said]


def error_lines(program: Path, folder: Path, *lines: Sequence[str]) -> list[str]:
    """The last line of each, behind the usage."""
    return [errors.splitlines()[-1] for errors in refusals(program, folder, *lines)]


def check_refusals(program: Path, folder: Path, cases: Mapping[tuple[str, ...], str]) -> None:
    """Each command line is refused, and its text is in the message, not just in the usage."""
    for errors, text in zip(refusals(program, folder, *cases), cases.values(), strict=True):
        assert text in re.split(rf"^{program.stem}\S*: ", errors, flags=re.M)[-1], errors
