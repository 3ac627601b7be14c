"""Whoever is killed at whatever step of the sharing protocol, the others go on and nothing stays.

One run for each failpoint of the scenarios "family", "ring", "topic", "call" and "ack": a family
works (every step of the protocol, with forked children); the first process that reaches the point,
be it parent, child or manager, is killed there. Then a bystander's tensors must be whole, sharing
must work again, and no memory, client or manager may be left. Messages in pipes that die with their
reader keep their block until they are collected, which the test does. Not covered: the queues above
(tests/multiprocessing), random instants (tests/stress).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import native
import pytest
import waiting

_BYSTANDER = """
import sys, os
sys.path.insert(0, {here!r})
import native
from pathlib import Path
n = native.Native(Path({directory!r}), {session})
mine = n.new(100_000).fill(5)
print("ready", flush=True)
sys.stdin.readline()
assert mine.value() == 5
again = n.new(50_000).fill(6)
copy = n.open(again.handle())
assert copy.value() == 6 and mine.value() == 5
del again, copy
from waiting import until

def is_alone():
    n.collect()
    resident, status = n.trim(), n.status()
    return status["n_clients"] == 1 and resident <= 100_000 + 3 * 65536 and status["n_leases"] == 0

until(is_alone, lambda: (n.trim(), n.status()))
assert mine.value() == 5
print(n.status()["manager_pid"], flush=True)
"""


# What works, and is killed, for each step.
_PROGRAMS = {
    **dict.fromkeys(native.failpoints("family"), "native.py"),
    **dict.fromkeys(native.failpoints("ring"), "native_ring.py"),
    **dict.fromkeys(native.failpoints("topic"), "native_topic.py"),
    **dict.fromkeys(native.failpoints("call"), "native_call.py"),
    **dict.fromkeys(native.failpoints("ack"), "native_ack.py"),
}
# The socket is bound before the bystander is ready; a second time only after a manager's death.
_MAYBE_ONCE = ("socket_bound", "manager_started")


def _run(point: str, number: int, native_directory: Path, tmp_path: Path) -> None:
    session = (os.getpid() << 42) | 1 << 40 | number
    here = str(Path(__file__).parent)
    code = _BYSTANDER.format(here=here, directory=str(native_directory), session=session)
    token = tmp_path / point
    armed = dict(os.environ, SHMTENSOR_FAILPOINT=f"{point}:{token}")
    bystander = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=armed,
    )
    assert bystander.stdin is not None
    assert bystander.stdout is not None
    try:
        assert bystander.stdout.readline() == "ready\n"
        token.touch()
        program = f"{here}/{_PROGRAMS[point]}"
        worker = subprocess.run(
            [sys.executable, program, str(native_directory), str(session)],
            env=armed,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert worker.returncode in (0, -9), worker.stderr
        # Points of the manager's periodic look.
        if point not in _MAYBE_ONCE:
            waiting.until(lambda: not token.exists(), lambda: f"{point} was not reached")
        out, _ = bystander.communicate("\n", timeout=150)
    finally:
        bystander.kill()
        bystander.wait()
    assert bystander.returncode in (0, -9), out
    if bystander.returncode == 0:
        manager = int(out.split()[-1])
        waiting.until(lambda: not waiting.runs(manager), lambda: "the manager outlives its clients")


@pytest.fixture(scope="module")
def runs(
    native_directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    directory = tmp_path_factory.mktemp("tokens")
    with ThreadPoolExecutor(8) as pool:
        yield {
            point: pool.submit(_run, point, number, native_directory, directory)
            for number, point in enumerate(_PROGRAMS)
        }


@pytest.mark.parametrize("point", _PROGRAMS)
def test_kill_at_step_leaves_others_working_and_nothing_behind(
    point: str, runs: dict[str, Future[None]]
) -> None:
    runs[point].result()
