"""Run a script as several MPI ranks, each with a proxy of its own, as on machines of its own."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest
import waiting
from programs import marked, own_session

__all__ = ["Ranks", "require_mpi"]

_HERE = Path(__file__).resolve().parent
_BESIDE = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(_BESIDE) if _BESIDE.exists() else shutil.which("mpiexec")


def require_mpi() -> None:
    """Skip the module where mpi4py or MPICH's mpiexec is missing."""
    pytest.importorskip("mpi4py")
    if MPIEXEC is None:
        pytest.skip("mpiexec is not installed", allow_module_level=True)
    version = subprocess.run([MPIEXEC, "--version"], capture_output=True, text=True, timeout=60)
    if "HYDRA" not in version.stdout:
        pytest.skip("mpiexec is not MPICH's", allow_module_level=True)


class Ranks:
    """A job. Each rank writes what it prints to a file of its own.

    Args:
        n: Ranks.
        script: Python text; it may import ``hogwild_cases``.
        folder: Where the script and the files go.
        environment: Variables beside those of this process.
        is_plain: Start by ``mpiexec -n`` alone: a killed rank takes the others with it.
    """

    def __init__(
        self,
        n: int,
        script: str,
        folder: Path,
        *,
        environment: dict[str, str] | None = None,
        is_plain: bool = False,
    ) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "script.py"
        path.write_text(
            f"import sys\nsys.path[:0] = {[str(_HERE), str(_HERE / 'hogwild')]!r}\n{script}"
        )
        hosts = ",".join(f"127.0.0.{1 + k}" for k in range(n))
        proxies = ["-launcher", "fork", "-hosts", hosts, "-ppn", "1", "-disable-auto-cleanup"]
        assert MPIEXEC is not None
        self.process = subprocess.Popen(
            [
                *(MPIEXEC, "-outfile-pattern", str(folder / "out.%r")),
                *("-errfile-pattern", str(folder / "err.%r")),
                *([] if is_plain else proxies),
                *("-n", str(n), sys.executable, "-u", str(path)),
            ],
            cwd=folder,
            env={**own_session(), "SHMT_TEST_MARK": self.mark, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def text(self, rank: int) -> str:
        """What a rank has printed so far."""
        found = ""
        for name in (f"out.{rank}", f"err.{rank}"):
            with contextlib.suppress(FileNotFoundError):
                found += (self.folder / name).read_text()
        return found

    def wait_for(self, rank: int, pattern: str) -> re.Match[str]:
        """Wait until a rank has printed something."""
        deadline = time.monotonic() + waiting.HANG_S
        while True:
            has_ended = self.process.poll() is not None
            found = re.search(pattern, self.text(rank))
            if found:
                return found
            if has_ended or time.monotonic() > deadline:
                raise AssertionError(f"rank {rank} does not say {pattern!r}:\n{self.text(rank)}")
            time.sleep(0.02)

    def finish(self) -> int:
        """Wait for the end of the job; returns the status of mpiexec.

        At the end it may write to a proxy that has gone, and die of that; the ranks ended well.
        """
        status = self.process.wait(timeout=120)
        return 0 if status == -signal.SIGPIPE else status

    def marked(self) -> list[int]:
        """Processes of the job that still run."""
        return marked(self.mark)

    def nothing_is_left(self) -> bool:
        """Whether all processes of the job end by themselves."""
        return waiting.comes_true(lambda: not self.marked())

    def close(self) -> None:
        """Kill what is left of the job."""
        for pid in self.marked():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
