"""A member writes over the tables of its session: the others live, and a session can be had.

Not covered: each field with each value, by sanitized code (``make fuzz-control``).
"""

from __future__ import annotations

import pytest
from member_programs import run

_PREPARE = """
import gc, mmap, multiprocessing, os, random, signal, struct, sys, time
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import errors
from shmtensor._boundary import sharing
from waiting import let_the_manager_look, until

HEADER, CLIENTS, SLABS = 0, 4096, 4096 + 64 * 4608
BLOCKS = SLABS + 64 * 65536

def control():
    '''The control file of the session, to be written.'''
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if os.path.islink(path) and "shmtensor-control" in os.readlink(path):
            fd = os.open(path, os.O_RDWR)
            return mmap.mmap(fd, os.fstat(fd).st_size)
"""


def _run(program: str, *arguments: str) -> str:
    return run(program, *arguments, prepare=_PREPARE)


_DAMAGED = """
def overlap(file):  # the second slab lies where the first does
    file[SLABS + 64 : SLABS + 128] = file[SLABS : SLABS + 64]

def outside(file):  # a slab behind the end of the arena
    file[SLABS + 16 : SLABS + 24] = struct.pack("<Q", 1 << 60)

def forgotten(file):  # the slabs in use are none
    for at in range(SLABS, SLABS + 64 * 16, 64):
        file[at : at + 4] = bytes(4)

def uncounted(file):  # there are slabs behind the last
    file[104 : 108] = bytes(4)

def header(file):
    file[HEADER : HEADER + 16] = bytes(16)

tensor = st.full((1000,), 5.0, shared=True)
other = st.full((200_000,), 6.0, shared=True)
manager = sharing.status()["manager_pid"]
old = sharing.status()["incarnation"]
os.kill(manager, signal.SIGSTOP)  # it would repair what it finds
locals()[sys.argv[1]](control())
os.kill(manager, signal.SIGKILL)
maps = f"/proc/{manager}/maps"
until(lambda: not os.path.exists(maps) or not open(maps).read())
try:
    st.empty((5_000_000,), shared=True)
    raise AssertionError("a damaged session went on")
except errors.ManagerError as error:
    assert "begun anew" in str(error), error
new = st.full((5_000_000,), 7.0, shared=True)
assert sharing.status()["incarnation"] != old
assert (tensor == 5).all() and (other == 6).all() and (new == 7).all()

def work(queue):
    queue.put((new.sum().item(), st.ones(10).share_memory_()))

queue = mp.get_context("fork").Queue()
process = mp.get_context("fork").Process(target=work, args=(queue,))
process.start()
total, one = queue.get(timeout=60)
assert total == 35_000_000 and (one == 1).all()
process.join(60)
assert process.exitcode == 0
"""


@pytest.mark.check
@pytest.mark.parametrize("what", ["overlap", "outside", "forgotten", "uncounted", "header"])
def test_successor_begins_a_damaged_session_anew_and_says_so_once(what: str) -> None:
    warnings = _run(_DAMAGED, what)
    assert warnings.count("was damaged: a process had written over its tables") == 1


_MENDED = """
tensor = st.full((1000,), 5.0, shared=True)
other = st.full((200_000,), 6.0, shared=True)
file = control()
n = struct.unpack("<I", file[104:108])[0]  # slabs
tables = [(0, 108), (112, 116), (CLIENTS + 64, CLIENTS + 88)]  # constants, ends, the first client
tables += [(SLABS + 64 * i, SLABS + 64 * i + 56) for i in range(n)]
right = [file[begin:end] for begin, end in tables]
for begin, end in tables:
    file[begin:end] = os.urandom(end - begin)
until(lambda: [file[begin:end] for begin, end in tables] == right)

def work():
    ones = st.ones(100_000).share_memory_()
    assert (ones == 1).all() and (tensor == 5).all() and (other == 6).all()

for _ in range(3):
    process = mp.get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode == 0
"""


def test_living_manager_writes_its_tables_anew() -> None:
    _run(_MENDED)


_RING = """
def find_ring():
    '''Where the last ring in the arena begins, and a descriptor of the arena.'''
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if os.path.islink(path) and "shmtensor-arena" in os.readlink(path):
            fd, at = os.open(path, os.O_RDWR), 0
            break
    while True:
        at = os.lseek(fd, at, os.SEEK_DATA) // 4096 * 4096
        if os.pread(fd, 8, at) == b"SMTRING1":
            return fd, at
        at += 4096

queue = mp.get_context("fork").SimpleQueue()
queue.put("first")
fd, at = find_ring()
nobody, somebody_else = 0x4000 | 0x1234, 0x4000 | 0x3FFF
for word in (nobody, somebody_else):
    for lock in (128, 192):
        os.pwrite(fd, struct.pack("<I", word), at + lock)
    queue.put("second")
    assert queue.get() == "first"
    assert queue.get() == "second"
    queue.put("first")

def take_all():
    while not queue.empty():
        try:
            queue.get()
        except errors.HandleError as error:
            assert "the queue is damaged" in str(error)

take_all()
TAIL, HEAD = at + 136, at + 200
count = os.pread(fd, 8, TAIL)[4:]
nowhere = struct.pack("<I", 0xFFFF_FFF5)
for place, word in ((TAIL, nowhere + bytes(4)), (TAIL, nowhere + count), (HEAD, nowhere + bytes(4)),
                    (HEAD, nowhere + count)):
    os.pwrite(fd, word, place)
    if place == HEAD:
        take_all()
    for _ in range(3):
        try:
            queue.put(st.ones(3))
        except errors.HandleError as error:
            assert "the queue is damaged" in str(error)
    take_all()
    count = os.pread(fd, 8, TAIL)[4:]
queue.put("last")
assert queue.get() == "last"
"""


@pytest.mark.check
def test_queue_with_locks_of_nobody_or_ends_nowhere_works_on() -> None:
    _run(_RING)


_VICTIMS = """
N_ROUNDS = 200

def victim(seed, queues, stop):
    '''Do all there is to do; errors are fine.'''
    generator = random.Random(seed)
    kept = []
    while not stop.wait(0):
        progress[seed] += 1
        try:
            act = generator.randrange(6)
            if act < 2:
                kept.append(st.full((generator.choice([1, 1000, 100_000]),), 1.0, shared=True))
            elif act == 2 and kept:
                generator.choice(queues).put([kept[-1], "text"], timeout=0.2)
            elif act == 3:
                message = generator.choice(queues).get(timeout=0.05)
                kept.append(message[0])
            elif act == 4 and generator.random() < 0.1:
                pid = os.fork()
                if pid == 0:
                    os._exit(0)
                assert os.waitpid(pid, 0)[1] == 0
            else:
                kept = kept[generator.randrange(5) :]
        except Exception:
            time.sleep(0.001)
    os._exit(0)  # what is left in a damaged queue waits for nobody

def scribble(seed, file, n):
    generator = random.Random(seed)
    for _ in range(n):
        kind = generator.randrange(6)
        begin, records, size = [(HEADER, 1, 144), (CLIENTS, 12, 64), (SLABS, 20, 64),
                                (BLOCKS, 60, 128), (BLOCKS, 3000, 128), (SLABS, 20, 64)][kind]
        at = begin + size * generator.randrange(records) + 4 * generator.randrange(size // 4)
        old = struct.unpack("<I", file[at : at + 4])[0]
        odd = generator.getrandbits(32)
        value = generator.choice([0, 1, 2**32 - 1, old + 1, old - 1, odd, 1 << 31])
        file[at : at + 4] = struct.pack("<I", value % 2**32)

context = mp.get_context("fork")
first = st.ones(10).share_memory_()
queues = [context.Queue(), context.Queue(5)]
stop = multiprocessing.get_context("fork").Event()
progress = multiprocessing.get_context("fork").RawArray("q", 3)
victims = [multiprocessing.get_context("fork").Process(target=victim, args=(i, queues, stop))
           for i in range(3)]
for process in victims:
    process.start()
file = control()
manager = sharing.status()["manager_pid"]
first_seed = int(sys.argv[1])
until(lambda: all(progress))
for seed in range(first_seed, first_seed + N_ROUNDS):
    scribble(seed, file, 20)
    before = sum(progress)
    until(lambda: sum(progress) > before + 3 or any(p.exitcode is not None for p in victims))
    dead = [p.exitcode for p in victims if p.exitcode is not None]
    assert not dead, (dead, seed)
state = open(f"/proc/{manager}/stat").read().split()[2]
assert state not in "ZX", "the manager is dead"
stop.set()
for process in victims:
    process.join(40)
    assert process.exitcode == 0, (process.exitcode, seed)
os._exit(0)
"""


@pytest.mark.parametrize("seed", [1000, 2000])
def test_others_and_the_manager_live_while_a_member_scribbles(seed: int) -> None:
    _run(_VICTIMS, str(seed))
