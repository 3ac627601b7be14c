"""Members whose clocks differ from the manager's: time namespaces.

The manager judges ages by its own clock. What members write about times is for people.
"""

from __future__ import annotations

import pytest
from member_programs import can_unshare, run

_DAY_S = 86_400

needs_time_namespaces = pytest.mark.skipif(
    not can_unshare("--time", f"--monotonic={_DAY_S}", "--fork"),
    reason="time namespaces cannot be made here",
)

_MEMBER = f"""
kept = st.ones(16, shared=True)
manager = sharing.status()["manager_pid"]
# A clock cannot be behind by more than the machine runs. So to be behind, this process lets the
# other, which is ahead, start the manager.
inside = '''
import os, sys, time
import shmtensor as st
from multiprocessing.reduction import ForkingPickler
from shmtensor._boundary import sharing
first = st.ones(16, shared=True)
if sys.argv[1] == "behind":
    os.kill(sharing.status()["manager_pid"], 9)
    st.ones(1 << 22, shared=True)
tensor = st.full((1 << 21,), 3.0, shared=True)
message = bytes(ForkingPickler.dumps(tensor[:10]))
sys.stdout.buffer.write(len(message).to_bytes(4, "little") + message)
sys.stdout.buffer.flush()
sys.stdin.readline()
'''
command = ["unshare", "--time", "--monotonic={_DAY_S}", "--fork", sys.executable, "-c", inside]
pipe = subprocess.PIPE
other = subprocess.Popen([*command, sys.argv[1]], stdin=pipe, stdout=pipe)
message = other.stdout.read(int.from_bytes(other.stdout.read(4), "little"))
if sys.argv[1] == "behind":  # we are: it has started the manager
    tensor = st.full((1 << 21,), 4.0, shared=True)
    assert sharing.status()["manager_pid"] != manager
    stored = bytes(ForkingPickler.dumps(tensor))
    del tensor
    gc.collect()
    assert sharing.collect(3600) == 0  # nothing is an hour old
    assert (pickle.loads(stored) == 4).all()
assert sharing.collect(3600) == 0
x = pickle.loads(message)
assert (x == 3).all()
assert sharing.status()["resident_bytes"] > 8 << 20
del x
gc.collect()
other.stdin.write(b"\\n"); other.stdin.flush()
assert other.wait(30) == 0
mine = st.ones(1 << 21, shared=True)
del mine
gc.collect()
until(lambda: sharing.status()["resident_bytes"] < 4 << 20)
"""


@pytest.mark.check
@needs_time_namespaces
@pytest.mark.parametrize("member", ["ahead", "behind"])
def test_a_message_of_another_clock_is_as_old_as_it_is(member: str) -> None:
    run(_MEMBER, member)


_IDLE = f"""
kept = st.ones(16, shared=True)
inside = '''
import sys
import shmtensor as st
tensors = [st.ones(1 << 21, shared=True), st.ones(1000, shared=True)]
del tensors
print("free", flush=True)
sys.stdin.readline()
'''
command = ["unshare", "--time", "--monotonic={_DAY_S}", "--fork", sys.executable, "-c", inside]
pipe = subprocess.PIPE
other = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
assert other.stdout.readline() == "free\\n"
until(lambda: sharing.status()["resident_bytes"] < 1 << 20)
other.stdin.write("\\n"); other.stdin.flush()
assert other.wait(30) == 0
"""


@needs_time_namespaces
def test_idle_memory_of_a_member_whose_clock_is_ahead_is_returned() -> None:
    run(_IDLE)
