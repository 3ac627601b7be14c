"""Threads that look at a tensor's storage while others give it another one."""

from __future__ import annotations

import sys
import threading

import pytest

import shmtensor


@pytest.fixture
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.check
@pytest.mark.usefixtures("frequent_switches")
def test_storage_is_asked_for_while_data_is_set():
    shown = shmtensor.ones(64)
    seen: set[int] = set()

    def work() -> None:
        for _ in range(20_000):
            shown.data = shmtensor.ones(64)
            seen.add(shown.untyped_storage().nbytes())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {256}
