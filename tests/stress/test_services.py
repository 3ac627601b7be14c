"""A service under random kills of its users and managers: values, locks, topics, calls, jobs.

The number of kills is a share of SHMTENSOR_STRESS_KILLS (2000), the first seed is in
SHMTENSOR_STRESS_SEED (1). Not covered: the single steps of the manager (tests/shm).
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
import waiting

import shmtensor

pytestmark = [pytest.mark.stress, pytest.mark.timeout(1800)]

SEED = int(os.environ.get("SHMTENSOR_STRESS_SEED", "1"))
KILLS = max(int(os.environ.get("SHMTENSOR_STRESS_KILLS", "2000")) // 4, 1)


@pytest.mark.parametrize("loop", ["service_loop", "talk_loop"])
def test_random_kills_tear_hang_and_leave_nothing(loop: str) -> None:
    program = [sys.executable, str(Path(__file__).parent / f"{loop}.py")]
    env = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    env["PYTHONPATH"] = waiting.python_path(Path(shmtensor.__file__).parents[1])
    name = f"stress-{os.getpid()}-{secrets.token_hex(8)}"
    process = subprocess.Popen(
        [*program, name, str(SEED), str(KILLS)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=1700)
    finally:
        if process.poll() is None or process.returncode != 0:
            subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=False)
        process.wait()
    assert process.returncode == 0, f"seed {SEED}: {err[-4000:]}"
    kills, *done = map(int, out.split())
    print(f"seed {SEED}: {kills} kills; {done}")
    assert kills >= KILLS
    assert min(done) > 0
