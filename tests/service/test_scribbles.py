"""Members that write over the service's tables, and other users: whom nobody trusts.

Scribbles over blocks and slabs: tests/fuzz/control.c. Damaged descriptions: test_descriptions.py.
"""

from __future__ import annotations

import contextlib
import os

import pytest
import service_programs as programs

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
