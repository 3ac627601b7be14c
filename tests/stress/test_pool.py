"""Pools whose workers are killed at random: every task ends, with its value or as lost.

Not covered: single deaths, which tests/multiprocessing/test_pool.py takes one by one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import shmtensor

pytestmark = [pytest.mark.stress, pytest.mark.timeout(600)]

_KILLS = """
import os, random, sys, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing.pool import WorkerLostError

def double(i, tensor):
    return tensor[i] * 2

if __name__ == "__main__":
    random.seed(int(sys.argv[2]))
    tensor = st.arange(1000, dtype=st.float64)
    n_wrong = n_ok = 0
    with mp.get_context(sys.argv[1]).Pool(4) as pool:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            results = [pool.apply_async(double, (i, tensor)) for i in range(60)]
            for _ in range(3):
                worker = random.choice(list(pool._pool) or [None])
                if worker is not None and worker.pid is not None and worker.exitcode is None:
                    worker.kill()
                time.sleep(random.random() * 0.02)
            for i, result in enumerate(results):
                try:
                    n_wrong += result.get(120).item() != 2.0 * i
                    n_ok += 1
                except WorkerLostError:
                    pass
    pool.join()
    print(n_wrong, n_ok > 0)
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_random_kills_of_workers_lose_only_their_tasks(method: str, tmp_path: Path) -> None:
    script = tmp_path / "kills.py"
    script.write_text(_KILLS)
    result = subprocess.run(
        [sys.executable, str(script), method, "7"],
        env={"PYTHONPATH": str(Path(shmtensor.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "0 True\n"
