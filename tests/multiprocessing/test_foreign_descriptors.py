"""The program closes the library's descriptors, or has its own files and sockets in their places.

Nothing of the program's may be touched, and sharing goes on. Not covered: too few descriptors
(test_descriptor_shortage), a group's descriptor (tests/distributed).
"""

from __future__ import annotations

from typing import Any

import pytest

_PREPARE = """
import os, signal, socket, sys, tempfile, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing

context = mp.get_context("fork")

def numbers():
    with os.scandir("/proc/self/fd") as entries:
        return {int(entry.name) for entry in entries} - {0, 1, 2}

def is_open(number):
    try:
        os.fstat(number)
    except OSError:
        return False
    return True

def is_one_client():
    "Soon: a member without its descriptors joins under another number."
    for _ in range(400):
        if sharing.status()["n_clients"] == 1:
            return True
        time.sleep(0.05)
    return False

def make_file():
    file = tempfile.TemporaryFile()
    file.write(b"the program's")
    file.flush()
    return (file,)

def make_socket():
    listener = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(listener.getsockname())
    theirs, _ = listener.accept()
    listener.close()
    theirs.setblocking(False)
    ours.sendall(b"to the other end")
    theirs.sendall(b"the program's")
    return ours, theirs

class Foreign:
    "The program's own file or connection in the place of each of some descriptors."

    def __init__(self, kind, at):
        self.kind, self.at, self.kept = kind, sorted(at), []
        at = [n for n in self.at if is_open(n)]
        if kind == "closed":
            for n in at:  # a pool may have closed it meanwhile, after it missed the first
                os.closerange(n, n + 1)
            return
        # All are made first: none may get the number of one that a pool closes meanwhile.
        make = make_file if kind == "file" else make_socket
        self.kept += [(n, *make()) for n in at]
        for n, ours, *_ in self.kept:
            os.dup2(ours.fileno(), n)

    def numbers(self):
        "All numbers that are the program's now."
        return set(self.at) | {file.fileno() for _, *files in self.kept for file in files}

    def check(self):
        for n, ours, *theirs in self.kept:
            assert os.fstat(n).st_ino == os.fstat(ours.fileno()).st_ino, n
            if self.kind == "file":
                assert os.pread(n, 10_000_000, 0) == b"the program's"
                assert os.lseek(n, 0, os.SEEK_CUR) == 13
            else:
                assert os.read(n, 1000) == b"the program's"
                assert theirs[0].recv(1000) == b"to the other end"
                try:
                    raise AssertionError(theirs[0].recv(1000))
                except BlockingIOError:
                    pass

SIZES = (7, 3_000, 50_000, 1_000_000)

def share(value):
    tensors = [st.full((n,), float(value)).share_memory_() for n in SIZES]
    for tensor in tensors:
        assert tensor.is_shared() and (tensor == value).all(), (value, tensor)
    return tensors

def echo(there, back):
    while (message := there.get()) is not None:
        back.put([tensor + 1 for tensor in message])

def send_around(tensors, value):
    there, back = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=echo, args=(there, back))
    process.start()
    there.put(tensors)
    there.put(share(value))
    for _ in range(2):
        for tensor, n in zip(back.get(), SIZES):
            assert tensor.shape == (n,) and (tensor == value + 1).all()
    there.put(None)
    process.join()
    assert process.exitcode == 0

before = numbers()
kept = share(1)
manager = sharing.status()["manager_pid"]
ours = numbers() - before
"""

_IN_PLACE = """
mp.set_sharing_strategy(sys.argv[2])
kept += share(1)
queue = context.SimpleQueue()
queue.put(kept[1])
queue.put(st.full((20,), 1.0))
ours = numbers() - before
assert len(ours) >= 3
foreign = Foreign(sys.argv[1], ours)
shared = share(1)
assert queue.get()[0] == 1 and queue.get()[0] == 1
send_around(shared, 1)
foreign_again = Foreign(sys.argv[1], numbers() - before - foreign.numbers())
send_around(kept[:4], 1)
assert sharing.status()["manager_pid"] == manager and is_one_client()
del shared, kept, queue
sharing.collect()
assert sharing.status()["n_held"] == 0
foreign.check()
foreign_again.check()
"""


@pytest.mark.check
@pytest.mark.parametrize("strategy", ["file_system", "file_descriptor"])
@pytest.mark.parametrize("kind", ["closed", "file", "socket"])
def test_sharing_goes_on_beside_the_programs_files(scripts: Any, kind: str, strategy: str) -> None:
    scripts(_PREPARE + _IN_PLACE, kind, strategy).finish()


_DAEMON = """
kind, path = sys.argv[1:]
mp.set_sharing_strategy("file_descriptor")
kept += share(1)
mp.set_sharing_strategy("file_system")

def work(limit):
    os.closerange(0, limit)
    foreign = Foreign(kind, set())
    if kind == "file":  # they take the numbers from 0 on
        files = [open(path + str(i), "w+b") for i in range(12)]
    share(1)
    send_around(kept[:4], 1)
    send_around(kept[4:], 1)
    if kind == "file":
        assert all(os.fstat(file.fileno()).st_size == 0 for file in files)

def daemon(limit):
    if os.fork() > 0:
        return
    try:
        os.setsid()
        if kind == "twice":
            work(limit)
        if os.fork() > 0:
            os._exit(0)
        work(limit)
        said = "good"
    except BaseException as error:
        import traceback
        said = traceback.format_exc()
    with open(path, "w") as file:
        file.write(said)
    os._exit(0)

for limit in (1024, os.sysconf("SC_OPEN_MAX")):
    os.mkfifo(path)
    daemon(limit)
    with open(path) as file:
        assert (said := file.read()) == "good", said
    os.unlink(path)
    send_around(kept[:4], 1)
assert sharing.status()["manager_pid"] == manager
"""


@pytest.mark.parametrize("kind", ["closed", "file", "twice"])
def test_daemon_that_closes_everything(scripts: Any, kind: str, tmp_path: Any) -> None:
    scripts(_PREPARE + _DAEMON, kind, str(tmp_path / "said")).finish()


_CHILD = """
foreign = Foreign(sys.argv[1], ours)
pid = os.fork()
if pid == 0:
    try:
        foreign.check()
        assert all((tensor == 1).all() for tensor in kept)
        share(1)
        again = Foreign(sys.argv[1], numbers() - before - foreign.numbers())
        send_around(kept, 1)
        again.check()
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
if sys.argv[1] != "socket":
    foreign.check()
send_around(kept, 1)
assert is_one_client()
"""


@pytest.mark.parametrize("kind", ["closed", "file", "socket"])
def test_child_of_a_process_without_its_descriptors(scripts: Any, kind: str) -> None:
    scripts(_PREPARE + _CHILD, kind).finish()


_MANAGER_KILLED = """
others, ready = context.SimpleQueue(), context.SimpleQueue()

def member():
    mine = share(2)
    ready.put("joined")
    others.get()

if sys.argv[2] == "others":
    process = context.Process(target=member)
    process.start()
    assert ready.get() == "joined"
foreign = Foreign(sys.argv[1], numbers() - before)
os.kill(manager, signal.SIGKILL)
if sys.argv[2] == "others":
    send_around(kept, 1)
    assert sharing.status()["manager_pid"] != manager
    others.put("end")
    process.join()
else:
    # Nobody has the files of the session any more.
    try:
        sharing.status()
        raise AssertionError
    except RuntimeError as error:
        assert "begun anew" in str(error), error
assert all((tensor == 1).all() for tensor in kept)
send_around(share(1), 1)
foreign.check()
"""


@pytest.mark.parametrize("kind", ["closed", "file", "socket"])
@pytest.mark.parametrize("members", ["others", "alone"])
def test_manager_killed_as_well(scripts: Any, kind: str, members: str) -> None:
    scripts(_PREPARE + _MANAGER_KILLED, kind, members).finish()


_FILENO = """
import select

def is_readable(number):
    return bool(select.select([number], [], [], 0)[0])

queue = context.SimpleQueue()
number = queue.fileno()
foreign = Foreign(sys.argv[1], {number})
queue.put(1)
foreign.check()
again = queue.fileno()
assert again != number or sys.argv[1] == "closed"
assert is_readable(again) and queue.get() == 1 and not is_readable(again)
for i in range(3):
    queue.put(i)
    assert is_readable(again) and queue.get() == i and not is_readable(again)
foreign = Foreign(sys.argv[1], {again})
number = queue.fileno()
del queue
if sys.argv[1] != "closed":
    assert is_open(again)
assert not is_open(number)
foreign.check()
"""


@pytest.mark.parametrize("kind", ["closed", "file", "socket"])
def test_descriptor_of_a_queue(scripts: Any, kind: str) -> None:
    scripts(_PREPARE + _FILENO, kind).finish()


_NUMBERS = """
mp.set_sharing_strategy("file_descriptor")
kept += share(1)
queue = context.SimpleQueue()
queue.put(kept)
limit = os.sysconf("SC_OPEN_MAX")
ours = numbers() - before
assert len(ours) >= 3 + len(SIZES)
assert min(ours) >= min(limit // 2, 1024), ours
assert 2 < queue.fileno() < min(limit // 2, 1024)
"""


@pytest.mark.check
@pytest.mark.parametrize("limit", [64, 1024])
def test_numbers_are_high(scripts: Any, limit: int) -> None:
    lower = f"import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))\n"
    scripts(lower + _PREPARE + _NUMBERS).finish()


_STREAMS = """
import shmtensor.multiprocessing
shared = share(1)
libc = __import__("ctypes").CDLL(None)
for i in range(3):
    assert not is_open(i) or "shmtensor" not in os.readlink(f"/proc/self/fd/{i}"), i
    libc.dprintf(i, b"a message for the user")
send_around(shared, 1)
mp.set_sharing_strategy("file_descriptor")
send_around(share(1), 1)
queue = context.SimpleQueue()
assert queue.fileno() > 2
links = {n: os.readlink(f"/proc/{manager}/fd/{n}") for n in (0, 1, 2)}
assert set(links.values()) == {"/dev/null"}, links
os.kill(manager, signal.SIGKILL)
send_around(share(1), 1)
assert all((tensor == 1).all() for tensor in shared)
os._exit(17)
"""

_WITHOUT_STREAMS = """
import os, sys
sys.stdin.close(); sys.stdout.close()
err = os.dup(2)
os.set_inheritable(err, True)
os.closerange(0, 3)
begin = f"import os, sys; sys.stderr = os.fdopen({err}, 'w')"
os.execv(sys.executable, [sys.executable, "-c", begin + chr(10) + sys.argv[1]])
"""


def test_program_without_standard_streams(scripts: Any) -> None:
    script = scripts(_WITHOUT_STREAMS, _PREPARE + _STREAMS)
    _, err = script.process.communicate(timeout=100)
    assert script.process.returncode == 17, err


_POOL = """
with mp.Pool(2) as pool:
    assert pool.map(abs, [-1, -2, -3]) == [1, 2, 3]
    # The low numbers are those of the standard library's processes.
    foreign = Foreign(sys.argv[1], {n for n in numbers() - before if n >= min(ours)})
    assert len(foreign.at) > len(ours)
    try:
        pool.map(abs, [-1, -2, -3])
        raise AssertionError
    except RuntimeError as error:
        assert "closed the descriptors of the pool" in str(error)
foreign.check()
send_around(kept, 1)
foreign.check()
"""


@pytest.mark.parametrize("kind", ["closed", "file"])
def test_pool_breaks_and_touches_nothing(scripts: Any, kind: str) -> None:
    scripts(_PREPARE + _POOL, kind).finish()


_AWAITED = """
import asyncio
queue = context.Queue()

async def run():
    before = numbers()
    task = asyncio.ensure_future(queue.aget())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    foreign = Foreign("file", numbers() - before)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    foreign.check()
    queue.put(5)
    assert await queue.aget() == 5
    foreign.check()

asyncio.run(run())
"""


def test_awaited_queue(scripts: Any) -> None:
    scripts(_PREPARE + _AWAITED).finish()


_ONE = """
def number_of(what):
    return {n for n in ours if what in os.readlink(f"/proc/self/fd/{n}")}

foreign = Foreign("file", number_of(sys.argv[1]))
assert len(foreign.at) == 1
share(1)
send_around(kept, 1)
number, size = kept[2].untyped_storage()._share_fd_cpu_()
assert size == 4 * SIZES[2] and "shmtensor-" in os.readlink(f"/proc/self/fd/{number}")
assert is_one_client()
if sys.argv[2] == "killed":
    os.kill(manager, signal.SIGKILL)
    send_around(kept, 1)
    assert sharing.status()["manager_pid"] != manager
foreign.check()
"""


@pytest.mark.parametrize("what", ["socket:", "shmtensor-control", "shmtensor-arena"])
@pytest.mark.parametrize("manager", ["killed", "runs"])
def test_one_descriptor_is_replaced(scripts: Any, what: str, manager: str) -> None:
    scripts(_PREPARE + _ONE, what, manager).finish()
