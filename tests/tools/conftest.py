"""A session of a parent and a child, in processes of their own, for the tools to look at."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shmtensor import _cli

ROOT = Path(__file__).resolve().parents[2]

# The parent makes 5 tensors of 4000 bytes and one of 4 MiB; the child opens 3 of the small ones;
# 2 messages of 2000 bytes stay in the pipe.
_FAMILY = """
import sys
import shmtensor as T
import shmtensor.multiprocessing as mp

def receive(messages, opened, end):
    kept = [messages.recv() for _ in range(3)]
    opened.send(len(kept))
    end.recv()

if __name__ == "__main__":
    context = mp.get_context("spawn")
    out, back, end = context.Pipe(False), context.Pipe(False), context.Pipe(False)
    child = context.Process(target=receive, args=(out[0], back[1], end[0]))
    child.start()
    small = [T.zeros(1000, shared=True) for _ in range(5)]
    large = T.zeros(1 << 20, shared=True)
    for tensor in small[:3]:
        out[1].send(tensor)
    back[0].recv()
    for _ in range(2):
        out[1].send(T.zeros(500, shared=True))
    import os
    print(os.environ["SHMTENSOR_MANAGER"], child.pid, flush=True)
    sys.stdin.readline()
    end[1].send(None)
    child.join()
"""


@dataclass(frozen=True)
class Family:
    """Processes of a running session.

    Attributes:
        process: The parent.
        address: The manager's socket, without the ``@``.
        child: Process id of the child.
    """

    process: subprocess.Popen[str]
    address: str
    child: int

    @property
    def name(self) -> str:
        """The session's name, 16 hexadecimal digits."""
        return self.address[-16:]


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Family]:
    script = tmp_path_factory.mktemp("family") / "family.py"
    script.write_text(_FAMILY)
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))}
    environment.pop("SHMTENSOR_MANAGER", None)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address, child = process.stdout.readline().split()
        yield Family(process, address.removeprefix("@"), int(child))
        process.communicate("\n", timeout=60)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


@dataclass(frozen=True)
class Output:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


@pytest.fixture
def shmtensor_command(capsys: pytest.CaptureFixture[str]) -> object:
    """Run the command in this process: ``shmtensor_command("ls", "-q")`` gives an `Output`."""

    def run(*arguments: str) -> Output:
        try:
            status = _cli.main(arguments)
        except SystemExit as end:
            status = int(end.code or 0)
        out, err = capsys.readouterr()
        return Output(status, out, err)

    return run
