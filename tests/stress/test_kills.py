"""2 000 random kills over the start methods: of forwarders, receivers, creators and the manager.

Each run is a session of its own, counted from outside. The first seed is in SHMTENSOR_STRESS_SEED
(1), the number of kills in SHMTENSOR_STRESS_KILLS. Not covered: the single steps (tests/shm), more
queue forms (test_queues).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import waiting

import shmtensor

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1800)]

SEED = int(os.environ.get("SHMTENSOR_STRESS_SEED", "1"))
KILLS = int(os.environ.get("SHMTENSOR_STRESS_KILLS", "2000"))
#: Share of the kills; spawned children take long to start.
SHARES = {"fork": 0.6, "forkserver": 0.3, "spawn": 0.1}


def _users_of(session: str) -> list[int]:
    """Processes that have a file or the socket of the session."""
    number = session.rpartition("-")[2].encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and number in (entry / "maps").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("method", SHARES)
def test_random_kills_hang_lose_and_leave_nothing(method: str) -> None:
    kills = max(int(KILLS * SHARES[method]), 1)
    program = [sys.executable, str(Path(__file__).parent / "kill_loop.py")]
    env = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    env["PYTHONPATH"] = str(Path(shmtensor.__file__).parents[1])
    before = set(os.listdir("/dev/shm"))
    result = subprocess.run(
        [*program, method, str(SEED), str(kills)],
        env=env,
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
    )
    assert result.returncode == 0, f"seed {SEED}: {result.stderr[-4000:]}"
    killed, n_messages, lost, session = result.stdout.split()
    print(f"{method}: seed {SEED}, {killed} kills, {n_messages} messages, {lost} in dead hands")
    # Nothing is asked of them any more: manager and helpers end by themselves.
    start = time.monotonic()
    while left := _users_of(session):
        assert time.monotonic() - start < 60, left
        time.sleep(0.1)
    print(f"nothing left after {time.monotonic() - start:.1f} s")
    assert session[1:] not in Path("/proc/net/unix").read_text()
    assert waiting.nothing_new_in_dev_shm(before)
