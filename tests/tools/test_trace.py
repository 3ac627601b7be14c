"""``SHMTENSOR_TRACE_ALLOC=1``: where a program made the memory that it leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shmtensor.inspect import Session

ROOT = Path(__file__).resolve().parents[2]

# Line 7 makes a tensor that only a message keeps, line 9 one that stays, line 11 moves one.
_PROGRAM = """import os
import sys
import shmtensor as T
import shmtensor.multiprocessing as mp
inbox, outbox = mp.get_context("fork").Pipe(False)
def send():
    outbox.send(T.full((501,), 1, dtype=T.uint8, shared=True))
def keep():
    return T.zeros(1 << 21, dtype=T.uint8, shared=True)
def move():
    return T.ones(70_001, dtype=T.uint8).share_memory_()
send()
kept = keep(), move()
print(os.environ["SHMTENSOR_MANAGER"], flush=True)
sys.stdin.readline()
"""


@pytest.fixture(params=["1", "0"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The address of the program's session, and the value of the option."""
    script = tmp_path / "a_program_that_forgets.py"
    script.write_text(_PROGRAM)
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT))}
    environment.pop("SHMTENSOR_MANAGER", None)
    environment["SHMTENSOR_TRACE_ALLOC"] = request.param
    process = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().removeprefix("@"), request.param
        process.communicate("\n", timeout=60)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.mark.check
def test_blocks_know_where_they_were_made(
    program: tuple[str, str], shmtensor_command: Callable[..., Any]
) -> None:
    address, traced = program
    with Session(address) as session:
        sites = {b.nbytes: b.site for b in session.blocks()}
    name = "a_program_that_forgets.py"
    done = shmtensor_command(
        "leaks", "--session", address, "--older", "0", "--watch", "0.1", "--min-bytes", "1000"
    )
    assert done.status == 3
    if traced == "0":
        assert set(sites.values()) == {""}
        assert f"{name}:" not in done.out
        return
    assert all(len(site) < 56 for site in sites.values())
    assert sites[501].endswith(f"{name}:7")
    assert sites[1 << 21].endswith(f"{name}:9")
    assert sites[70_001].endswith(f"{name}:11")
    stranded = next(line for line in done.out.splitlines() if line.split()[1:3] == ["501", "B"])
    assert stranded.endswith(f"{name}:7")
