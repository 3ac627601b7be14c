"""Readers of messages whom the manager cannot see: it keeps what they may yet open.

Not covered: readers that it sees (test_abandoned_messages).
"""

from __future__ import annotations

import os

import pytest
from member_programs import can_unshare, run

# In both programs the manager looks more often than it takes to end a message that nobody can read.
_OUTSIDE = """
from multiprocessing.connection import Connection
reader, writer = os.pipe()
inside = '''
import os, sys
from multiprocessing.connection import Connection
import shmtensor as st
import shmtensor.multiprocessing
from waiting import let_the_manager_look
with Connection(int(sys.argv[1]), readable=False) as connection:
    connection.send(st.full((1000,), 3.0))
let_the_manager_look(8)
print("sent", flush=True)
sys.stdin.readline()
'''
del os.environ["SHMTENSOR_MANAGER"]
command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", inside, str(writer)]
pipe = subprocess.PIPE
other = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, pass_fds=[writer])
os.close(writer)
assert other.stdout.readline() == "sent\\n"
assert (Connection(reader, writable=False).recv() == 3).all()
other.stdin.close()
assert other.wait(30) == 0
"""


@pytest.mark.check
@pytest.mark.skipif(
    not can_unshare("--pid", "--fork", "--mount-proc"), reason="pid namespaces cannot be made here"
)
def test_reader_outside_of_the_pid_namespace_of_the_manager() -> None:
    run(_OUTSIDE)


_TWO_USERS = """
from multiprocessing.connection import Connection
REAL, EFFECTIVE = {users}
reader, writer = mp.Pipe(duplex=False)
go, there = os.pipe(), os.pipe()

def child(f):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            f()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid

def read():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(REAL, EFFECTIVE, EFFECTIVE)
    writer.close()
    os.close(go[1])
    os.close(there[0])
    os.write(there[1], b"x")
    os.read(go[0], 1)
    if EFFECTIVE != 65534:
        os.setresuid(-1, REAL, -1)
    assert (reader.recv() == 3).all()

def write():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    os.close(there[1])
    os.close(go[0])
    os.read(there[0], 1)
    writer.send(st.full((1000,), 3.0))
    writer.close()
    reader.close()
    let_the_manager_look(8)
    os.write(go[1], b"x")
    os.close(go[1])
    assert os.read(there[0], 1) == b""  # the reader has ended

pids = [child(read), child(write)]
reader.close()
writer.close()
for fd in (*go, *there):
    os.close(fd)
assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0]
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become other users")
@pytest.mark.parametrize("users", [(1000, 65534), (65534, 1000)], ids=["effective", "real"])
def test_reader_with_two_user_ids(users: tuple[int, int]) -> None:
    run(_TWO_USERS.replace("{users}", repr(users)))
