"""Messages that nobody can open any more give their memory back while the session goes on.

Covered: pipes, sockets, queues of the standard library, killed readers and writers; ends that are
on their way, inherited, or with stopped processes keep messages. Not covered: `shmtensor gc`
(tests/inspect).

Each program has a session of its own. Several run at once, as they spend their time waiting for the
looks of their managers.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from mp_scripts import Script, starting_scripts

_PREPARE = """
import gc, multiprocessing, os, pickle, signal, socket, sys, time
from multiprocessing import connection
from multiprocessing.reduction import ForkingPickler
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import inspect
from waiting import let_the_manager_look, until

MB = 1 << 20
anchor = st.ones(16, shared=True)  # the session lives on by it

def snapshot():
    (session,) = inspect.open_sessions(os.environ["SHMTENSOR_MANAGER"])
    with session:
        return session.snapshot()

def kept():
    '''Bytes that only messages keep, and leases.'''
    seen = snapshot()
    return seen.stranded_bytes, seen.n_leases

def block(mb=1):
    return st.ones(mb * MB // 4, shared=True)

def all_gone():
    until(lambda: kept() == (0, 0), kept)

def stays(n_leases):
    '''The messages stay: a later one that nobody can read ends before them.'''
    assert snapshot().n_leases == n_leases, snapshot()
    reader, writer = multiprocessing.Pipe(False)
    writer.send(st.ones(16))
    reader.close()
    until(lambda: snapshot().n_leases <= n_leases, snapshot)
    writer.close()
    let_the_manager_look()
    assert snapshot().n_leases == n_leases, snapshot()

def fork(f):
    pid = os.fork()
    if pid == 0:
        try:
            f()
            os._exit(0)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
    return pid
"""

_KILLED_WRITER = """
write = os.write

def die_before(fd, data):
    os.kill(os.getpid(), signal.SIGKILL)

def die_in_the_middle(fd, data):
    write(fd, b"\\0")
    os.kill(os.getpid(), signal.SIGKILL)

def die_after(fd, data):
    write(fd, data)
    os.kill(os.getpid(), signal.SIGKILL)

def send_and_die(connection, how):
    def send():
        os.write = how
        connection.send([block(), block()])
        os._exit(1)
    pid = fork(send)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL

def wait_for_the_grace_time():
    '''A later message, which was never written to a pipe that goes on, ends after that time.'''
    later_reader, later_writer = multiprocessing.Pipe()
    n_leases = snapshot().n_leases
    send_and_die(later_writer, die_before)
    assert snapshot().n_leases == n_leases + 2, snapshot()
    until(lambda: snapshot().n_leases <= n_leases, snapshot)

reader, writer = multiprocessing.Pipe(bool(sys.argv[2]))
"""

# What each program does, with a folder of its own and one of the words below.
_PROGRAMS = {
    "both_ends_closed": """
reader, writer = multiprocessing.Pipe(bool(sys.argv[2]))
for _ in range(20):
    writer.send({"x": [block()]})
stays(20)
reader.close()
writer.close()
all_gone()
""",
    "reader_killed": """
def read_for_ever():
    writer.close()
    reader.recv()
    print("got", flush=True)
    time.sleep(1000)
for _ in range(20):
    reader, writer = multiprocessing.Pipe(bool(sys.argv[2]))
    pid = fork(read_for_ever)
    reader.close()
    for _ in range(3):
        writer.send(block())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
all_gone()  # while this process has the last writer open
""",
    "sender_killed_behind_a_reader_that_went": """
def send():
    reader.close()
    for _ in range(5):
        writer.send(block())
    os.kill(os.getpid(), signal.SIGKILL)
reader, writer = multiprocessing.Pipe(False)
pid = fork(send)
writer.close()
os.waitpid(pid, 0)
stays(5)
reader.close()
all_gone()
""",
    "many_tensors_in_a_queue_that_nobody_reads": """
# The ring names a list of them.
queue = mp.SimpleQueue()
queue.put([st.ones(16, shared=True) for _ in range(5000)])
queue.put(block())
n_used = snapshot().n_used - snapshot().n_queued
assert snapshot().n_queued >= 5001, snapshot()
let_the_manager_look()
assert len(queue.get()) == 5000  # an audit has left them alone
queue.put([st.ones(16, shared=True) for _ in range(5000)])
assert snapshot().n_leases == 0, snapshot()  # they end with the queue
del queue
gc.collect()
until(lambda: snapshot().n_queued == 0 and snapshot().n_used <= n_used, snapshot)
""",
    "killed_reader_of_many_tensors": """
queue = mp.SimpleQueue()
def read():
    kept = queue.get()
    assert len(kept) == 5000
    os.kill(os.getpid(), signal.SIGKILL)
queue.put([st.ones(16, shared=True) for _ in range(5000)])
queue.put([st.full((16,), 3.0, shared=True) for _ in range(3000)])
os.waitpid(fork(read), 0)
# Of the message that stays: its tensors, its data, the list.
until(lambda: snapshot().n_queued == 3002, snapshot)
assert all(t.sum().item() == 48 for t in queue.get())
until(lambda: snapshot().n_queued == 0 and snapshot().n_used <= 10, snapshot)
""",
    "standard_queues": """
queue = getattr(multiprocessing, sys.argv[2])()
for _ in range(10):
    queue.put([block(), "text"])
until(lambda: snapshot().n_leases == 10)
stays(10)
assert queue.get()[0].sum() == MB // 4
del queue
gc.collect()
all_gone()  # the feeder's thread ends first
""",
    "many_killed_peers": """
for _ in range(200):
    reader, writer = multiprocessing.Pipe(False)
    pid = fork(lambda: time.sleep(1000))
    for _ in range(2):
        writer.send(block())
    reader.close(), writer.close()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
all_gone()
""",
    "message_opened_in_time_after_its_pipe": """
reader, writer = multiprocessing.Pipe()
writer.send(block())
let_the_manager_look()  # the message is not young any more
text = reader.recv_bytes()
with inspect.open_sessions(os.environ["SHMTENSOR_MANAGER"])[0] as session:
    manager = session.manager_pid()
os.kill(manager, signal.SIGSTOP)  # or a slow machine would not be in time
reader.close(), writer.close()
assert pickle.loads(text).sum() == MB // 4
os.kill(manager, signal.SIGCONT)
""",
    "message_opened_too_late_is_a_clear_error": """
reader, writer = multiprocessing.Pipe()
writer.send(block())
text = reader.recv_bytes()
reader.close(), writer.close()
all_gone()
churned = [block() for _ in range(4)]
try:
    pickle.loads(text)
except st.errors.HandleError as e:
    assert "gone" in str(e), e
else:
    raise AssertionError
""",
    "reader_stopped_or_inherited": """
def wait_then_read():
    writer.close()
    os.kill(os.getpid(), signal.SIGSTOP)
    for i in range(3):
        assert reader.recv()[0] == i
reader, writer = multiprocessing.Pipe(bool(sys.argv[2]))
pid = fork(wait_then_read)
os.waitpid(pid, os.WUNTRACED)
for i in range(3):
    writer.send(st.full((1000,), float(i)))
reader.close(), writer.close()
stays(3)
os.kill(pid, signal.SIGCONT)
assert os.waitpid(pid, 0)[1] == 0
all_gone()
""",
    "end_on_its_way_in_a_message": """
reader, writer = multiprocessing.Pipe(bool(sys.argv[2]))
a, b = socket.socketpair()
writer.send(st.full((1000,), 7.0))
socket.send_fds(a, [b"x"], [reader.fileno()])
reader.close(), writer.close()
stays(1)
_, (fd,), _, _ = socket.recv_fds(b, 1, 1)
reader = connection.Connection(fd)
assert reader.recv().sum() == 7000
""",
    "reader_that_has_not_joined_is_seen": """
import subprocess
reader, writer = multiprocessing.Pipe(False)
other = subprocess.Popen(["sleep", "1000"], pass_fds=[reader.fileno()])
writer.send(block())
reader.close(), writer.close()
stays(1)
other.kill()
other.wait()
all_gone()
""",
    "one_message_through_two_pipes_stays": """
r1, w1 = multiprocessing.Pipe(False)
r2, w2 = multiprocessing.Pipe(False)
text = bytes(ForkingPickler.dumps(block()))
w1.send_bytes(text)
w2.send_bytes(text)
r1.close(), w1.close()
stays(1)
assert r2.recv().sum() == MB // 4
""",
    "files_and_fifos_stay": """
os.mkfifo(sys.argv[1] + "/fifo")
fd = os.open(sys.argv[1] + "/fifo", os.O_RDWR)
conn = connection.Connection(fd)
conn.send(block())
with open(sys.argv[1] + "/file", "wb") as file:
    file.write(ForkingPickler.dumps(block()))
stays(2)
assert conn.recv().sum() == MB // 4
with open(sys.argv[1] + "/file", "rb") as file:
    assert pickle.load(file).sum() == MB // 4
""",
    "a_long_message_with_a_tensor_at_its_end": """
import threading
for n in (0, 1, 63, 64, 65, 1000, 10 * MB):
    reader, writer = multiprocessing.Pipe()
    thread = threading.Thread(target=lambda: writer.send(("S" * n, b"STH1" * 5, block())))
    thread.start()
    text = reader.recv_bytes()
    thread.join()
    reader.close(), writer.close()
all_gone()
""",
    "a_new_manager_goes_on": """
reader, writer = multiprocessing.Pipe()
writer.send(block())
(session,) = inspect.open_sessions(os.environ["SHMTENSOR_MANAGER"])
with session:
    os.kill(session.manager_pid(), signal.SIGKILL)
other = [st.ones(MB, shared=True) for _ in range(8)]  # it is missed: another one starts
reader.close(), writer.close()
all_gone()
""",
    "a_message_that_cannot_be_pickled": """
class Outer:
    def __reduce__(self):
        self.inner = ForkingPickler.dumps([block(), object])
        return list, ()
reader, writer = multiprocessing.Pipe()
outer = Outer()
for _ in range(100):
    try:
        writer.send([block(), outer, {"tensor": block(), "function": lambda: 0}])
    except (AttributeError, pickle.PicklingError):
        pass
    else:
        raise AssertionError
assert snapshot().n_leases == 100, snapshot()  # of the inner messages, which were complete
assert pickle.loads(outer.inner)[0].sum() == MB // 4
""",
    "message_whose_writer_was_killed_before_it_wrote_ends_while_the_pipe_goes_on": _KILLED_WRITER
    + """
for _ in range(3):
    send_and_die(writer, die_before)
all_gone()
writer.send(block())
send_and_die(writer, die_before)
assert (reader.recv() == 1).all()
all_gone()
""",
    "message_whose_writer_was_killed_after_it_wrote_arrives": _KILLED_WRITER
    + """
send_and_die(writer, die_after)
wait_for_the_grace_time()
assert all((t == 1).all() for t in reader.recv())
all_gone()
send_and_die(writer, die_in_the_middle)
wait_for_the_grace_time()
stays(2)  # something waits to be read
""",
    "message_of_a_writer_that_has_ended_is_opened_late": _KILLED_WRITER
    + """
def send():
    writer.send([block(), block()])
assert os.waitpid(fork(send), 0)[1] == 0
message = reader.recv_bytes()
wait_for_the_grace_time()
assert all((t == 1).all() for t in pickle.loads(message))
all_gone()
""",
}

_PIPES = ("duplex", "")
_WORDS = {
    "both_ends_closed": _PIPES,
    "reader_killed": _PIPES,
    "standard_queues": ("Queue", "SimpleQueue", "JoinableQueue"),
    "reader_stopped_or_inherited": _PIPES,
    "end_on_its_way_in_a_message": _PIPES,
    "message_whose_writer_was_killed_before_it_wrote_ends_while_the_pipe_goes_on": _PIPES,
    "message_whose_writer_was_killed_after_it_wrote_arrives": _PIPES,
}
_CASES = [(name, word) for name in _PROGRAMS for word in _WORDS.get(name, ("",))]
_CHECKED = ("both_ends_closed", "reader_that_has_not_joined_is_seen")

Case = tuple[str, str]


@pytest.fixture(autouse=True)
def _no_descriptor_is_left() -> None:
    """Pipes of other programs come and go meanwhile: tests/conftest.py looks after the module."""


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Case, Future[str]]]:
    """The runs of all programs that are asked for."""
    items = [item for item in request.session.items if item.path == request.path]
    cases = [item.callspec.params["case"] for item in items]
    with starting_scripts() as start, ThreadPoolExecutor(6) as pool:

        def run(case: Case, folder: Path) -> str:
            script: Script = start(_PREPARE + _PROGRAMS[case[0]], str(folder), case[1])
            return script.finish()

        yield {case: pool.submit(run, case, tmp_path_factory.mktemp("files")) for case in cases}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, marks=[pytest.mark.check] if case[0] in _CHECKED else [], id=" ".join(case)
        )
        for case in _CASES
    ],
)
def test_nobodys_messages_end_and_others_stay(case: Case, runs: dict[Case, Future[str]]) -> None:
    runs[case].result()
