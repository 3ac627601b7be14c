"""Programs that tests run in sessions of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import waiting


class Script:
    """A Python program in a session of its own, which may import what is in *folders*."""

    def __init__(
        self,
        text: str,
        *arguments: str,
        session: str | None = None,
        folders: tuple[Path, ...] = (),
    ) -> None:
        env = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
        package = Path(sys.modules["shmtensor"].__file__).parent
        env["PYTHONPATH"] = waiting.python_path(*folders, Path(__file__).parent, package.parent)
        if session is not None:
            env["SHMTENSOR_MANAGER"] = session
        self.process = subprocess.Popen(
            [sys.executable, "-c", text, *arguments],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def kill(self) -> None:
        """End it and what it has started, which may have its pipes, and wait for it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):  # what was not written yet
                pipe.close()

    def line(self) -> str:
        """Wait for a line of its output; fails with its error output when it has ended."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, self.process.communicate()[1]
        return text.rstrip("\n")

    def say(self, text: str) -> None:
        """Write it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def finish(self, timeout: float = 150) -> str:
        """Wait for its successful end; returns the rest of its output."""
        out, err = self.process.communicate(timeout=timeout)
        assert self.process.returncode == 0, err
        return out


@contextlib.contextmanager
def starting_scripts(*folders: Path) -> Iterator[Callable[..., Script]]:
    """What starts scripts that may import what is in *folders*; it ends with all of them killed."""
    made: list[Script] = []

    def start(text: str, *arguments: str, session: str | None = None) -> Script:
        made.append(Script(text, *arguments, session=session, folders=folders))
        return made[-1]

    try:
        yield start
    finally:
        for script in made:
            script.kill()


def users_of(session: str) -> list[int]:
    """Processes that have a file of the session open or mapped; named by its manager's socket."""
    number = session.rpartition("-")[2].encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if number in (entry / "maps").read_bytes():
                found.append(int(entry.name))
                continue
            links = [os.readlink(fd).encode() for fd in (entry / "fd").iterdir()]
        except OSError:
            continue
        if any(number in link for link in links):
            found.append(int(entry.name))
    return found
