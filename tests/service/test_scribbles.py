"""Members that write over the service's tables, and other users: whom nobody trusts.

Scribbles over blocks and slabs: tests/fuzz/control.c. Damaged descriptions: test_descriptions.py.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from pathlib import Path

import pytest
import service_programs as programs
import waiting

import shmtensor as T
from shmtensor.errors import HandleError
from shmtensor.service import Service

# Offsets in csrc/shm/control_file.h and csrc/shm/names.h.
_SCRIBBLER = """
import mmap, os, struct, sys
from shmtensor.service import Service
service = Service(sys.argv[1])
service.list()
paths = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
paths = [path for path in paths if os.path.islink(path)]
path = next(path for path in paths if "shmtensor-control" in os.readlink(path))
with open(path, "r+b") as file:
    memory = mmap.mmap(file.fileno(), 0)

FLAGS, GID, ENDED = 96, 100, 132

def entry(name):
    at = memory.find(name.encode() + bytes(128 - len(name)))
    assert at > 0, name
    return at - 128

def version_at(name):
    sequence = struct.unpack_from("I", memory, entry(name) + 4)[0]
    return entry(name) + 16 + sequence % 2 * 56

def write(name, version=None, block=None, uid=None):
    at = version_at(name)
    for offset, code, value in ((0, "Q", version), (32, "I", block), (40, "I", uid)):
        if value is not None:
            struct.pack_into(code, memory, at + offset, value)
"""

_GROUP = str(os.getegid())


@pytest.mark.check
def test_pickles_of_a_group_are_not_read_whatever_its_members_write(
    run: type[programs.Program],
) -> None:
    with programs.serving("--group", _GROUP) as (name, server):
        publisher = run(
            "import sys; from shmtensor.service import Service\n"
            "import shmtensor.nn as nn\n"
            "service = Service(sys.argv[1])\n"
            "service.publish_module('model', nn.Linear(2, 2), persist=True)\n"
            "print(service.status().is_group, flush=True)\n"
            "sys.stdin.readline()\n"
            "for _ in range(20):\n"  # the scribbler spins
            "    try: service.attach_module('model')\n"
            "    except RuntimeError as error: print(error, flush=True)\n"
            "sys.stdin.readline()",
            name,
        )
        assert publisher.line() == "True"
        scribbler = run(
            _SCRIBBLER + "while True:\n"
            "    struct.pack_into('I', memory, FLAGS, 1)\n"
            f"    write('model', uid={os.geteuid()})\n"
            "    print('written', flush=True) if 'said' not in globals() else None\n"
            "    said = True\n",
            name,
        )
        assert scribbler.line() == "written"
        publisher.say()
        for _ in range(20):
            assert "in a service of a group, and pickles" in publisher.line()
        newcomer = run(
            "import sys; from shmtensor.service import Service\n"
            "service = Service(sys.argv[1])\n"
            "print(service.status().is_group)\n"
            "try: service.attach_module('model')\n"
            "except RuntimeError as error: print('of a group' in str(error))",
            name,
        )
        assert newcomer.finish() == "True\nTrue\n"
        # A manager that continues has nobody to ask, and does not ask the memory either.
        server.kill()
        newcomer = run(
            "import sys; from shmtensor.service import Service\n"
            "service = Service(sys.argv[1])\n"
            "print(service.status().is_group, 'model' in service.list())\n"
            "try: service.attach_module('model')\n"
            "except RuntimeError as error: print('of a group' in str(error))\n"
            "service.unpublish('model')",
            name,
        )
        assert newcomer.finish() == "True True\nTrue\n"


# The interpreter may lie where another user cannot start it.
_AS_OTHER = (
    "import mmap, os, struct, sys, shmtensor.nn, shmtensor.service\n"
    "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_pickles_of_another_users_service_are_not_read(run: type[programs.Program]) -> None:
    name = programs.unused_name()
    server = run(
        _AS_OTHER + "import sys; from shmtensor.service import Service\n"
        "Service(sys.argv[1])._handle.serve(0, 0, 65534)",
        name,
    )
    assert "is ready" in server.line()
    evil = run(
        _AS_OTHER + _SCRIBBLER + "import shmtensor.nn as nn\n"
        "service.publish_module('model', nn.Linear(2, 2), persist=True)\n"
        "struct.pack_into('I', memory, FLAGS, 1)\n"
        "write('model', uid=0)\n"
        "print('written', flush=True)\n"
        "sys.stdin.readline()",
        name,
    )
    assert evil.line() == "written"
    victim = run(
        "import os, sys; from shmtensor.service import Service\n"
        "import shmtensor.nn as nn\n"
        "os.setgroups([65534])\n"
        "service = Service(sys.argv[1], owner=65534)\n"
        "try: service.attach_module('model')\n"
        "except RuntimeError as error: print(error)\n"
        "print(service.attach_module('model', nn.Linear(2, 2)).value.weight.shape[0])\n"
        "print(Service(sys.argv[1], start=True).list())",  # the same name, another owner
        name,
    )
    text, shape, own = victim.finish().splitlines()
    assert "own service only; make the module and pass it" in text
    assert (shape, own) == ("2", "{}")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_user_who_may_not_join_is_told_what_would_help(run: type[programs.Program]) -> None:
    with programs.serving() as (name, _):
        stranger = run(
            _AS_OTHER + "import sys; from shmtensor.service import Service\n"
            "try: Service(sys.argv[1], owner=0).list()\n"
            "except RuntimeError as error: print(error)",
            name,
        )
        text = stranger.finish()
        assert "user 65534 may not join user 0's session" in text
        assert "serve it with --group" in text


@pytest.mark.check
@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_user_is_that_of_the_moment_of_use_not_of_the_import(run: type[programs.Program]) -> None:
    def env() -> dict[str, str]:
        return {"SHMTENSOR_SERVICE": programs.unused_name()}

    text = (
        "import os, sys\n"
        "import shmtensor.service as service\n"
        "if sys.argv[1] == 'joined': service.publish('x', 1)\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(service.publish('x', 2), service.info('x').uid, service.status().owner)"
    )
    assert run(text, "new", env=env()).finish() == "1 65534 65534\n"
    assert run(text, "joined", env=env()).finish() == "1 65534 65534\n"
    late = (
        "import os\n"
        "from shmtensor import service\n"
        f"os.environ['SHMTENSOR_SERVICE'] = '{programs.unused_name()}'\n"
        "print(service.list())\n"
        "print(repr(service.publish.__self__)[9:-1] == repr(os.environ['SHMTENSOR_SERVICE']))"
    )
    assert run(late).finish() == "{}\nTrue\n"


def test_entry_with_a_block_that_is_none_is_an_error(
    service: Service, run: type[programs.Program]
) -> None:
    service.publish("value", T.ones(3))
    scribbler = run(
        _SCRIBBLER + "write('value', version=50, block=4_000_000_000)\n"
        "print('written', flush=True); sys.stdin.readline()",
        service._name,
    )
    # The manager rewrites its tables at each tick: see the error before that.
    reader = run(
        _SCRIBBLER + "from shmtensor.errors import HandleError\n"
        "write('value', version=50, block=4_000_000_000)\n"
        "try: service.wait_newer('value', 10, timeout=60)\n"
        "except HandleError as error: print(\"'value': block\" in str(error))\n"
        "except TimeoutError: print('timeout')",
        service._name,
    )
    assert scribbler.line() == "written"
    assert reader.finish() == "True\n"


def test_wait_keeps_its_deadline_while_an_entry_changes_all_the_time(
    service: Service, run: type[programs.Program]
) -> None:
    service.publish("value", T.ones(3))
    scribbler = run(
        _SCRIBBLER + "print('writing', flush=True)\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    write('value', version=1000 + n, block=0xFFFFFFFF if n % 2 else 4_000_000_000)\n",
        service._name,
    )
    assert scribbler.line() == "writing"
    for _ in range(5):
        # Half of what is written may look like a version. Whatever it is, the call ends.
        with contextlib.suppress(TimeoutError, HandleError):
            service.wait_newer("value", 1, timeout=0.1)


# A member makes a slab of one block with any file that it names, and says that it is process *pid*.
_FORGER = (
    _SCRIBBLER
    + """
pid, state, device, inode = map(int, sys.argv[2:6])
BLOCK_USED, GENERATION, CLIENTS = 3, 7, 4096
n_slabs, n_blocks = struct.unpack_from("II", memory, 88)
slab, block = (struct.unpack_from("I", memory, at)[0] for at in (104, 112))  # behind the last
client = next(i for i in range(1, 100)
              if struct.unpack_from("Ii", memory, CLIENTS + 64 * i) == (2, os.getpid()))
slabs = CLIENTS + 64 * 4608
print("ready", flush=True)
assert sys.stdin.readline()  # the manager is stopped: it repairs nothing
struct.pack_into("=IIIIQQQQQII", memory, slabs + 64 * slab, state, client, block, 1, 0, 4096, 4096,
                 device, inode, 0, 0)
at = slabs + 64 * n_slabs + 128 * block
struct.pack_into("=QQIIQQQ", memory, at, GENERATION << 20 | BLOCK_USED, 0, 0, slab, 0, 4096, 4096)
struct.pack_into("Q", memory, at + 64 + client // 64 * 8, 1 << client % 64)
struct.pack_into("i", memory, CLIENTS + 64 * client + 4, pid)
struct.pack_into("I", memory, 104, slab + 1)
struct.pack_into("I", memory, 112, block + 1)
print(block, GENERATION, flush=True)
sys.stdin.readline()
"""
)

# Somebody brings up the next manager, and asks it for the file behind a block.
_ASKER = """
import contextlib, os, socket, struct, sys
from shmtensor.service import Service
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from codegen.emit.protocol import load_wire
block, generation = map(int, sys.argv[3:])
service = Service(sys.argv[1], start=True)
with contextlib.suppress(RuntimeError):  # the session is damaged, and another begins
    service.list()
service.list()
links = [os.readlink(f"/proc/self/fd/{n}") for n in os.listdir("/proc/self/fd")
         if os.path.islink(f"/proc/self/fd/{n}")]
session = int(next(l for l in links if "shmtensor-control-" in l).split("-")[2].split()[0], 16)
root = Path(sys.argv[2])
wire = load_wire(root / "spec" / "wire.yaml", root.parent)
codes = {"uint64_t": "Q", "uint32_t": "I", "int32_t": "i", "uint16_t": "H", "char": "176s"}
packet = struct.Struct("<" + "".join(codes[f.ctype] for f in wire.fields))
manager = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
manager.settimeout(60)
manager.connect(f"\\0shmtensor-{os.geteuid()}-{session:016x}")

def ask(kind, **fields):
    code = next(m.code for m in wire.messages if m.name == kind)
    fields |= {"magic": wire.magic, "version": wire.version, "type": code, "session": session}
    manager.send(packet.pack(*(
        fields.get(f.name, b"" if f.ctype == "char" else 0) for f in wire.fields)))
    data, files, _, _ = socket.recv_fds(manager, 1000, 8)
    return dict(zip((f.name for f in wire.fields), packet.unpack(data))), files

ask("HELLO")
reply, files = ask("GET_FILE", block=block, generation=generation)
print(reply["status"] == 0, len(files))
"""

_CSRC = Path(__file__).resolve().parents[2] / "csrc"
_FILE, _PROGRAM_FILE = 2, 3  # shmt__slab_state


def _sealed_memory() -> int:
    fd = os.memfd_create("sealed", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
    os.fchmod(fd, 0o600)
    os.ftruncate(fd, 4096)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return fd


def _regular_file(path: Path) -> int:
    path.write_bytes(bytes(4096))
    return os.open(path, os.O_RDWR)


@pytest.mark.check
@pytest.mark.parametrize(
    ("is_group", "state", "is_memory", "given"),
    [
        (False, _FILE, True, True),  # what a member could have registered
        (False, _FILE, False, False),
        (True, _FILE, True, False),  # it may be the arena of another session of the user
        (True, _FILE, False, False),
        (True, _PROGRAM_FILE, False, False),
    ],
)
def test_manager_that_continues_hands_out_no_file_because_a_member_wrote_that_it_is_one(
    run: type[programs.Program],
    tmp_path: Path,
    is_group: bool,
    state: int,
    is_memory: bool,
    given: bool,
) -> None:
    fd = _sealed_memory() if is_memory else _regular_file(tmp_path / "private")
    status = os.fstat(fd)
    with programs.serving(*(("--group", _GROUP) if is_group else ())) as (name, server):
        identity = (status.st_dev, status.st_ino)
        forger = run(_FORGER, name, *map(str, (os.getpid(), state, *identity)))
        assert forger.line() == "ready"
        os.kill(server.pid, signal.SIGSTOP)
        waiting.until(lambda: waiting.process_state(server.pid) == "T")
        forger.say()
        block, generation = forger.line().split()
        server.kill()
        asker = run(_ASKER, name, str(_CSRC), block, generation)
        assert asker.finish() == f"{given} {int(given)}\n"
    os.close(fd)
