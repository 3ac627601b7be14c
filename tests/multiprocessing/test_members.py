"""Who is a member of a session, and for how long: other pid namespaces, many processes, forks.

Not covered: kills at each step (tests/shm/test_crash), stopped managers (tests/shm/test_members).
"""

from __future__ import annotations

import pytest
from member_programs import can_unshare
from member_programs import run as _run

needs_pid_namespaces = pytest.mark.skipif(
    not can_unshare("--pid", "--fork", "--mount-proc"), reason="pid namespaces cannot be made here"
)

_NAMESPACES = """
kept = [st.full((n,), 7.0, shared=True) for n in (16, 1000, 100_000)]
manager = sharing.status()["manager_pid"]
inside = '''
import os, sys, time
import shmtensor as st
from shmtensor._boundary import sharing
first = st.ones(1000, shared=True)
print("joined", flush=True)
sys.stdin.readline()
more = [st.full((n,), -1.0, shared=True) for n in (16, 1000, 100_000) for _ in range(100)]
assert sharing.status()["n_clients"] == 2, sharing.status()
print("filled", flush=True)
sys.stdin.readline()
assert (first == 1).all()
'''
command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", inside]
other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert other.stdout.readline() == "joined\\n"
os.kill(manager, signal.SIGKILL)
other.stdin.write("\\n"); other.stdin.flush()
assert other.stdout.readline() == "filled\\n"  # it has started the next manager
let_the_manager_look()
more = churn()
assert all((t == 7).all() for t in kept)
other.stdin.write("\\n"); other.stdin.flush()
assert other.wait(30) == 0
until(lambda: sharing.status()["n_clients"] == 1)
assert all((t == 7).all() for t in kept)
"""


@pytest.mark.check
@needs_pid_namespaces
def test_manager_of_another_pid_namespace_leaves_the_memory_of_others_alone() -> None:
    _run(_NAMESPACES)


_CLOSED_DESCRIPTORS = """
kept = [st.full((n,), 7.0, shared=True) for n in (16, 1000, 100_000)]
inside = '''
import sys, time
import shmtensor as st
from shmtensor._boundary import sharing
from waiting import let_the_manager_look, until
first = st.ones(1000, shared=True)
print("joined", flush=True)
sys.stdin.readline()
more = [st.full((n,), -1.0, shared=True) for n in (16, 1000, 100_000) for _ in range(100)]
print("started a manager", flush=True)
sys.stdin.readline()
until(lambda: sharing.status()["n_clients"] == int(sys.argv[1]), sharing.status)
let_the_manager_look()
for _ in range(3):
    more = [st.full((n,), -1.0, shared=True) for n in (16, 1000, 100_000) for _ in range(100)]
    sharing.trim()
print("looked", flush=True)
sys.stdin.readline()
'''
command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", inside, "3"]
other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def tell(answer):
    other.stdin.write("\\n"); other.stdin.flush()
    assert other.stdout.readline() == answer + "\\n"
assert other.stdout.readline() == "joined\\n"
os.kill(sharing.status()["manager_pid"], signal.SIGKILL)
tell("started a manager")
last = st.full((300_000,), 7.0, shared=True)  # it has joined that manager
pid = os.fork()  # so has the child
for name in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        continue
    if target.startswith(("/memfd:", "socket:")):
        os.close(int(name))
if pid == 0:
    while os.getppid() != 1 and other.poll() is None:
        time.sleep(0.05)
        if not all((t == 7).all() for t in kept):
            os._exit(1)
    os._exit(0)
tell("looked")
assert all((t == 7).all() for t in [*kept, last])
other.stdin.close()
assert other.wait(30) == 0
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
"""


@needs_pid_namespaces
def test_member_outside_the_namespace_of_the_manager_that_closed_its_descriptors_lives() -> None:
    _run(_CLOSED_DESCRIPTORS)


_OPENED_TWICE = """
tensor = st.full((1000,), 5.0).share_memory_()
first = bytes(ForkingPickler.dumps(tensor))
assert (pickle.loads(first) == 5).all()
second = bytes(ForkingPickler.dumps(tensor))
assert (pickle.loads(first) == 5).all()  # somebody still holds it
del tensor
gc.collect()
more = churn()
assert (pickle.loads(second) == 5).all()  # its own lease kept it
gc.collect()
sharing.trim()  # until then the block may wait for its owner, unharmed
for stale in (first, second):
    try:
        pickle.loads(stale)
    except Exception as error:
        assert "block" in str(error), error
    else:
        raise AssertionError("a message was opened whose memory is gone")
"""


def test_message_opened_twice_does_not_end_the_lease_of_another() -> None:
    _run(_OPENED_TWICE)


_MANY_MESSAGES = """
tensor = st.full((16,), 5.0).share_memory_()
messages = [bytes(ForkingPickler.dumps(tensor)) for _ in range(1000)]
assert sharing.status()["n_leases"] == 1000
del tensor
gc.collect()
more = churn()
for message in messages[:-1]:
    assert (pickle.loads(message) == 5).all()
assert sharing.status()["n_leases"] == 1
assert (pickle.loads(messages[-1]) == 5).all()
assert sharing.status()["n_leases"] == 0
"""


def test_each_of_many_messages_with_one_tensor_has_a_lease_of_its_own() -> None:
    _run(_MANY_MESSAGES)


_FAR_NUMBERS = """
context = mp.get_context("fork")
tensor = st.full((1000,), 5.0).share_memory_()
occupy(range(2, 1500))
there, back = context.SimpleQueue(), context.SimpleQueue()

def work():
    while (item := there.get()) is not None:
        item += 1
        back.put((item, st.full((10,), 3.0, shared=True)))

children = [context.Process(target=work) for _ in range(3)]
for child in children:
    child.start()
for _ in range(30):
    there.put(tensor)
kept = [back.get()[1] for _ in range(30)]
assert (tensor == 35).all()
children[0].kill()
children[0].join()
for _ in children[1:]:
    there.put(None)
for child in children[1:]:
    child.join()
until(lambda: sharing.status()["n_clients"] == 1)
more = churn()
assert all((t == 3).all() for t in kept)
"""


@pytest.mark.check
def test_members_with_high_numbers_hold_and_let_go_like_others() -> None:
    _run(_FAR_NUMBERS)


_FAR_LEFTOVERS = """
import mmap
anchor = st.ones(1, shared=True)
fd = occupy(range(2, 1100))
member = "import shmtensor as st; st.ones(1, shared=True)"
subprocess.run([sys.executable, "-c", member], check=True)
with mmap.mmap(fd, 0) as control:  # number 1000 was killed in the middle of holding
    (n_blocks,) = struct.unpack_from("I", control, 92)
    holds = len(control) - n_blocks * 8 * 64
    for block in range(1, 5000):
        struct.pack_into("Q", control, holds + 64 * block + (1000 - 512) // 64 * 8, 1 << 1000 % 64)
for _ in range(2):
    tensors = [st.ones(100_000, shared=True) for _ in range(50)]
    assert sharing.status()["resident_bytes"] > 20_000_000
    del tensors
    gc.collect()
    until(lambda: sharing.trim() < 1_000_000)
"""


def test_a_hold_that_a_high_number_left_on_an_unused_record_keeps_nothing() -> None:
    _run(_FAR_LEFTOVERS)


_WITHOUT_NUMBER = """
tensors = [st.full((n,), 5.0, shared=True) for n in (16, 1000, 100_000)]
fd = occupy(range(2, N_PARAMS + 1))
go, done = os.pipe(), os.pipe()
pid = os.fork()
if pid == 0:
    os.read(go[0], 1)
    good = all((t == 5).all() for t in tensors)
    os.write(done[1], b"y" if good else b"n")
    os.read(go[0], 1)
    os._exit(0)
del tensors
gc.collect()
more = churn()
os.write(go[1], b"x")
assert os.read(done[0], 1) == b"y"
assert sharing.status()["n_leases"] == 3
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
until(lambda: sharing.status()["n_leases"] == 0)

program = "import shmtensor as st; st.ones(3, shared=True)"
result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
assert "all 4607 places for processes in this session are taken" in result.stderr, result.stderr
os.close(fd)
subprocess.run([sys.executable, "-c", program], check=True)
"""


def test_forked_child_for_which_no_number_is_left_keeps_what_it_inherited() -> None:
    _run(_WITHOUT_NUMBER)


_CLOSED_DESCRIPTORS = """
tensor = st.full((1000,), 5.0, shared=True)
manager = sharing.status()["manager_pid"]
go = os.pipe()
pid = os.fork()
if pid == 0:
    os.dup2(go[0], 0)
    os.closerange(3, 1000)  # as programs do that become daemons
    os.read(0, 1)
    os._exit(0 if (tensor == 5).all() else 1)
del tensor
gc.collect()
let_the_manager_look()
more = churn()
os.write(go[1], b"x")
assert os.waitpid(pid, 0)[1] == 0
"""


def test_process_that_closed_all_its_descriptors_keeps_its_memory() -> None:
    _run(_CLOSED_DESCRIPTORS)
