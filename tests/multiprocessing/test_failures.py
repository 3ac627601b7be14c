"""What fails or hangs elsewhere and must not here.

Not covered: kills (test_kill), lifetimes (test_lifetime), queues (test_queues), pools (test_pool).
"""

from __future__ import annotations

from typing import Any

import mp_children
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp

_THREADS_THEN_FORK = """
import os
import shmtensor as st
st.set_num_threads(2)
big = st.ones(400, 400)
expected = (big @ big).sum().item()
(st.ones(2_000_000) * 2).sum()
pid = os.fork()
if pid == 0:
    good = (big @ big).sum().item() == expected and (st.ones(2_000_000) * 2).sum() == 4_000_000
    os._exit(0 if good else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.check
def test_operators_with_threads_work_in_a_child_forked_after_them(scripts: Any) -> None:
    assert scripts(_THREADS_THEN_FORK).finish(timeout=60) == "0\n"


_LONG_TMPDIR = """
import os, sys
os.environ["TMPDIR"] = sys.argv[1]
import shmtensor as st
import shmtensor.multiprocessing as mp
import mp_children
for strategy in mp.get_all_sharing_strategies():
    mp.set_sharing_strategy(strategy)
    tensor = st.zeros(3)
    child = mp.get_context("fork").Process(target=mp_children.add_to_argument,
                                           args=(tensor.share_memory_(),))
    child.start()
    child.join()
    print(tensor.tolist())
"""


@pytest.mark.check
def test_long_directory_for_temporary_files_does_no_harm(scripts: Any, tmp_path: Any) -> None:
    directory = tmp_path / ("d" * 120)
    directory.mkdir()
    assert scripts(_LONG_TMPDIR, str(directory)).finish() == "[1.0, 1.0, 1.0]\n" * 2


@pytest.mark.parametrize("first", ["file_system", "file_descriptor"])
def test_tensor_sent_under_two_strategies_is_one_memory(first: str) -> None:
    before = mp.get_sharing_strategy()
    second = ({"file_system", "file_descriptor"} - {first}).pop()
    queue, back = mp.SimpleQueue(), mp.SimpleQueue()
    tensor = st.zeros(10)
    try:
        mp.set_sharing_strategy(first)
        queue.put([tensor, tensor.view(2, 5)])
        mp.set_sharing_strategy(second)
        queue.put(tensor)
        child = mp.get_context("fork").Process(target=mp_children.check_aliases, args=(queue, back))
        child.start()
        assert back.get() == (True, 42.0, True)
        child.join()
    finally:
        mp.set_sharing_strategy(before)
        queue.close()
        back.close()
    assert tensor[0] == 42
