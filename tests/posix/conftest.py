"""A service for owners, names that no other test has, and a C program that knows nothing of us."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("posix_ipc", reason="the extra 'posix' is not installed")

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))

import service_programs as _programs

from shmtensor import posix
from shmtensor.service import Service


@pytest.fixture(scope="session")
def _joined() -> Iterator[Service]:
    # Of the whole run, so that its descriptors and maps are there before the first test module.
    with _programs.joined() as service:
        yield service


@pytest.fixture(autouse=True, scope="session")
def _joined_first(_joined: Service) -> None:
    pass


@pytest.fixture
def service(_joined: Service) -> Service:
    """The service whose manager removes names."""
    return _joined


@pytest.fixture
def name() -> Iterator[str]:
    """A name that nothing has; memory, semaphore and queue of this name are removed at the end."""
    made = f"/shmtensor-test-{os.getpid()}-{secrets.token_hex(6)}"
    yield made
    posix.unlink(made, missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"/dev/shm/sem.{made[1:]}")
    with contextlib.suppress(FileNotFoundError):
        posix.MessageQueue(made).unlink()


@pytest.fixture
def run() -> Iterator[type[_programs.Program]]:
    """Start programs; they are gone at the end."""
    with _programs.reaped() as made:
        yield made


class CProgram:
    """The program of `stranger.c`, running."""

    def __init__(self, path: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        """Wait for a line of its output."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def finish(self) -> str:
        """Let it go on, and wait for its successful end; returns the rest of its output."""
        out, _ = self.process.communicate("\n", timeout=60)
        assert self.process.returncode == 0, self.process.returncode
        return out.rstrip("\n")


@pytest.fixture(scope="session")
def _stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    made = tmp_path_factory.mktemp("posix") / "stranger"
    source = Path(__file__).with_name("stranger.c")
    plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    command = [compiler, "-std=gnu11", "-Wall", "-Werror", source, "-o", made, "-pthread", "-lrt"]
    subprocess.run(command, check=True, env=plain)
    return made


@pytest.fixture
def stranger(_stranger: Path) -> Iterator[Any]:
    """Start the C program with arguments."""
    started: list[CProgram] = []

    def start(*arguments: object) -> CProgram:
        started.append(CProgram(_stranger, *map(str, arguments)))
        return started[-1]

    yield start
    for program in started:
        program.process.kill()
        program.process.wait()
        for pipe in (program.process.stdin, program.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
