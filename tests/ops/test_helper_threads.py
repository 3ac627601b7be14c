"""Helper threads on the processors that they may use."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HELPERS = """
import os, time, shmtensor
from shmtensor import set_num_threads
a = shmtensor.arange(1 << 20).float()
before = set(os.listdir("/proc/self/task"))
set_num_threads(4)
want = (a + a).sum().item()
helpers = [int(task) for task in set(os.listdir("/proc/self/task")) - before]
assert helpers
time.sleep(0.2)  # asleep: none is on its way to another processor and takes its old mask back
every = os.sched_getaffinity(0)
"""


def run(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HELPERS + script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.check
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_helpers_that_leave_the_callers_processor_may_come_back() -> None:
    run(
        """
os.sched_setaffinity(0, {min(every)})  # the caller's thread only
for _ in range(300):
    for helper in helpers:  # onto the caller's processor
        os.sched_setaffinity(helper, {min(every)})
        os.sched_setaffinity(helper, every)
    assert (a + a).sum().item() == want
time.sleep(0.1)  # a helper may still be on its way
assert all(os.sched_getaffinity(helper) == every for helper in helpers)
"""
    )


def test_threads_that_share_one_processor() -> None:
    run(
        """
for thread in (0, *helpers):
    os.sched_setaffinity(thread, {min(every)})
for _ in range(300):
    assert (a + a).sum().item() == want
assert all(os.sched_getaffinity(helper) == {min(every)} for helper in helpers)
"""
    )
