"""A name goes with its last owner, however that ended, and never with another's file.

Not covered: a manager that is killed while it removes a name (tests/shm/test_crash_posix_names.py).
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import service_programs as programs
import waiting

import shmtensor as torch
from shmtensor import posix
from shmtensor.service import Service

Run = type[programs.Program]

_CREATE = """
import sys
from shmtensor import posix
t = posix.create(sys.argv[1], 4, "int32", as_="numpy")
t[:] = 7
print("made", flush=True)
input()
"""
_OPEN = """
import sys
from shmtensor import posix
t = posix.open(sys.argv[1], dtype="int32", as_="numpy", mode="rw", owner=sys.argv[2] == "owner")
print(t.sum(), flush=True)
input()
"""


@pytest.fixture
def alone() -> dict[str, str]:
    """An environment whose programs use a default service of their own."""
    return {"SHMTENSOR_SERVICE": programs.unused_name()}


def _goes(name: str) -> None:
    waiting.until(lambda: not posix.exists(name), lambda: f"{name} stays")


def _stays(name: str) -> None:
    time.sleep(1.2)  # more than two ticks of the manager
    assert posix.exists(name)


@pytest.mark.check
def test_killed_creator_leaves_no_name(name: str, run: Run, alone: dict[str, str]) -> None:
    creator = run(_CREATE, name, env=alone)
    assert creator.line() == "made"
    _stays(name)
    creator.kill()
    _goes(name)


@pytest.mark.check
def test_name_stays_until_the_last_of_two_unrelated_owners_is_killed(
    name: str, run: Run, alone: dict[str, str]
) -> None:
    creator = run(_CREATE, name, env=alone)
    assert creator.line() == "made"
    other = run(_OPEN, name, "owner", env=alone)
    assert other.line() == "28"
    creator.kill()
    _stays(name)
    other.kill()
    _goes(name)


def test_program_that_only_opens_is_no_owner(name: str, run: Run, alone: dict[str, str]) -> None:
    creator = run(_CREATE, name, env=alone)
    assert creator.line() == "made"
    reader = run(_OPEN, name, "reader", env=alone)
    assert reader.line() == "28"
    reader.kill()
    _stays(name)
    reader = run(_OPEN, name, "reader", env=alone)
    assert reader.line() == "28"
    creator.say()
    creator.finish()
    _goes(name)
    reader.say()
    reader.finish()  # it has the memory


def test_name_of_another_program_gets_an_owner(
    name: str, stranger: Any, run: Run, alone: dict[str, str]
) -> None:
    maker = stranger("make", name, 2)
    assert maker.line() == "ready"
    owner = run(_OPEN, name, "owner", env=alone)
    owner.line()
    maker.process.kill()
    _stays(name)
    owner.kill()
    _goes(name)


def test_name_goes_with_the_last_tensor(name: str, service: Service) -> None:
    t = posix.create(name, 4, service=service)
    part = t[1:].numpy()
    del t
    _stays(name)
    del part
    _goes(name)


def test_names_made_to_linger_stay(name: str, run: Run) -> None:
    run(f"from shmtensor import posix; posix.create({name!r}, 1, linger=True)").finish()
    _stays(name)


@pytest.mark.check
def test_name_that_another_program_has_made_anew_stays(
    name: str, service: Service, stranger: Any
) -> None:
    t = posix.create(name, 4, service=service)
    posix.unlink(name)
    maker = stranger("make", name, 3)
    assert maker.line() == "ready"
    del t
    _stays(name)
    assert posix.open(name, dtype=torch.float64).tolist() == [0, 1, 2]


def test_replaced_name_has_its_own_owners(name: str, service: Service) -> None:
    old = posix.create(name, 4, service=service)
    new = posix.create(name, 5, service=service, if_exists="replace")
    del old
    _stays(name)
    del new
    _goes(name)


def test_creator_that_finds_the_name_taken_removes_nothing(name: str, service: Service) -> None:
    posix.create(name, 4, linger=True)
    with pytest.raises(FileExistsError):
        posix.create(name, 4, service=service)
    _stays(name)


def test_removed_name_cannot_get_an_owner(
    name: str, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from shmtensor.posix import _names

    posix.create(name, 4, linger=True)
    own = _names.own

    def late(*arguments: Any, **more: Any) -> None:
        posix.unlink(name)
        own(*arguments, **more)

    monkeypatch.setattr(_names, "own", late)
    with pytest.raises(FileNotFoundError, match="was removed or replaced while it was opened"):
        posix.open(name, mode="rw", owner=True, service=service)


@pytest.mark.parametrize("step", ["unnamed_file", "map_shared", "own", "link"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_creator_killed_at_any_step_leaves_no_name(
    step: str, when: str, name: str, run: Run, alone: dict[str, str]
) -> None:
    killed = run(
        f"""
import os, signal
from shmtensor import posix
from shmtensor.posix import _names
step = _names.{step}
def last(*arguments, **more):
    if {when == "after"}:
        made = step(*arguments, **more)
        made = made.__enter__() if hasattr(made, "__enter__") else made
    os.kill(os.getpid(), signal.SIGKILL)
_names.{step} = last
posix.create({name!r}, 4)
""",
        env=alone,
    )
    killed.process.wait(60)
    assert killed.process.returncode == -signal.SIGKILL, killed.process.communicate()
    _goes(name)
    assert not [e for e in os.listdir("/dev/shm") if name[1:] in e]


def test_child_of_a_killed_owner_is_an_owner(name: str, run: Run, alone: dict[str, str]) -> None:
    parent = run(
        f"""
import os, signal, sys
from shmtensor import posix
t = posix.create({name!r}, 4)
if os.fork() == 0:
    input()  # the child; its end of the pipe is closed when the test ends it
    print(t.sum().item(), flush=True)
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
""",
        env=alone,
    )
    parent.process.wait(60)
    _stays(name)
    parent.say()
    assert parent.line() == "0.0"
    _goes(name)


def test_program_that_became_another_owns_nothing(
    name: str, run: Run, alone: dict[str, str]
) -> None:
    program = run(
        f"""
import os, sys
from shmtensor import posix
t = posix.create({name!r}, 4)
os.execv(sys.executable, [sys.executable, "-c", "print('other', flush=True); input()"])
""",
        env=alone,
    )
    assert program.line() == "other"
    _goes(name)
    assert program.process.poll() is None


def test_receiver_of_a_message_is_an_owner(name: str, run: Run, alone: dict[str, str]) -> None:
    sender = run(
        f"""
import os, signal
import shmtensor as torch
from shmtensor import posix
context = torch.multiprocessing.get_context("fork")
queue, ready = context.SimpleQueue(), context.Event()
def receive():
    ready.wait()
    t = queue.get()
    os.kill(os.getppid(), signal.SIGKILL)
    t += 1
    print(t.untyped_storage().filename, t.sum().item(), flush=True)
    os.read(0, 1)  # multiprocessing closes sys.stdin
    os._exit(0)
child = context.Process(target=receive)
child.start()
t = posix.create({name!r}, 4)
queue.put(t)
del t
ready.set()
child.join()
""",
        env={**alone, "PYTHONUNBUFFERED": "1"},
    )
    assert sender.process.wait(60) == -signal.SIGKILL
    assert sender.line() == f"/dev/shm{name} 4.0"
    _stays(name)
    sender.say()
    _goes(name)


def test_semaphore_goes_with_its_last_owner(name: str, run: Run, alone: dict[str, str]) -> None:
    program = """
import sys
from shmtensor import posix
s = posix.Semaphore(sys.argv[1], 1)
print(s.value, flush=True)
input()
"""
    path = Path("/dev/shm/sem." + name[1:])
    first = run(program, name, env=alone)
    assert first.line() == "1"
    second = run(program, name, env=alone)
    assert second.line() == "1"
    first.kill()
    time.sleep(1.2)
    assert path.exists()
    second.kill()
    waiting.until(lambda: not path.exists())


# --- managers -----------------------------------------------------------------------------------


def test_next_manager_knows_the_names(name: str, run: Run) -> None:
    with programs.serving() as (service_name, server):
        env = {"SHMTENSOR_SERVICE": service_name}
        owner = run(_CREATE, name, env=env)
        assert owner.line() == "made"
        # A member that is no owner: it starts the next manager.
        member = run(
            "from shmtensor import service; service.publish('x', service.empty(1));"
            "print('joined', flush=True); input()\n"
            "print(service.empty(1).shape, flush=True); input()",
            env=env,
        )
        assert member.line() == "joined"
        server.kill()
        owner.kill()
        _stays(name)  # nobody has asked for a manager yet
        member.say()
        member.line()
        _goes(name)


def test_names_go_with_a_service_that_ends_in_order(name: str, run: Run) -> None:
    with programs.serving() as (service_name, server):
        owner = run(_CREATE, name, env={"SHMTENSOR_SERVICE": service_name})
        assert owner.line() == "made"
        assert server.terminate() == 0
        assert not posix.exists(name)


def test_service_of_a_group_removes_no_names(name: str, run: Run) -> None:
    with programs.serving("--group", str(os.getegid())) as (service_name, _):
        said = run(
            f"""
from shmtensor import posix
try:
    posix.create({name!r}, 1)
except ValueError as error:
    print(error)
""",
            env={"SHMTENSOR_SERVICE": service_name},
        ).finish()
        assert "open to a group" in said
        assert not posix.exists(name)


def test_service_that_does_not_run(name: str) -> None:
    from shmtensor.errors import ManagerError

    with pytest.raises(ManagerError):
        posix.create(name, 1, service=Service(programs.unused_name()))
    assert not posix.exists(name)


# --- containers ---------------------------------------------------------------------------------

_CONTAINER = ("unshare", "-p", "-f", "--mount-proc", "-n", "-i", "-m", "--kill-child=SIGKILL")


def _can_make_containers() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_CONTAINER, "true"], capture_output=True, check=False).returncode == 0


needs_containers = pytest.mark.skipif(
    not _can_make_containers(), reason="no right to make namespaces"
)


@pytest.fixture
def socket() -> Iterator[str]:
    """The path of a service's socket."""
    with tempfile.TemporaryDirectory() as folder:  # 0700, and a short path
        path = str(Path(folder) / "socket")
        server = programs.Server("--socket", path)
        yield path
        server.kill()


@needs_containers
def test_owner_in_another_pid_namespace(name: str, run: Run, socket: str) -> None:
    program = f"""
from shmtensor import posix
from shmtensor.service import Service
t = posix.create({name!r}, 4, service=Service(socket={socket!r}))
print("made", flush=True)
input()
"""
    owner = run(program, prefix=_CONTAINER)
    assert owner.line() == "made"
    _stays(name)
    owner.kill()
    _goes(name)


@needs_containers
def test_owner_with_another_folder_of_names_is_refused(name: str, run: Run, socket: str) -> None:
    program = f"""
import subprocess
subprocess.run(["mount", "-t", "tmpfs", "none", "/dev/shm"], check=True)
from shmtensor import posix
from shmtensor.service import Service
try:
    posix.create({name!r}, 4, service=Service(socket={socket!r}))
except ValueError as error:
    print(error)
posix.create({name!r}, 4, linger=True)
print(posix.exists({name!r}))
"""
    said = run(program, prefix=_CONTAINER).finish().splitlines()
    assert "the manager sees another /dev/shm" in said[0]
    assert said[1] == "True"
    assert not posix.exists(name)


@pytest.mark.slow
def test_many_creators_killed_at_random(run: Run, alone: dict[str, str]) -> None:
    """Each of them makes, replaces and opens the same names until it is killed."""
    start = f"/shmtensor-test-{os.getpid()}-many"
    program = """
import random, sys
from shmtensor import posix
kept = []
print("ready", flush=True)
while True:
    name = sys.argv[1] + str(random.randrange(3))
    kept[:] = kept[-3:]
    how = random.choice(["open", "replace"])
    kept.append(posix.create(name, 4, if_exists=how))
"""
    remover = run(
        "from shmtensor import service; service.publish('x', service.empty(1));"
        "print('ready', flush=True); input()",
        env=alone,
    )
    assert remover.line() == "ready"
    for round_ in range(6):
        both = [run(program, start, env=alone) for _ in range(2)]
        for one in both:
            assert one.line() == "ready"
        time.sleep(0.2 + 0.05 * round_)
        for one in both:
            assert one.process.poll() is None, one.process.communicate()
            one.kill()
    waiting.until(
        lambda: not [e for e in os.listdir("/dev/shm") if start[1:] in e],
        lambda: str([e for e in os.listdir("/dev/shm") if start[1:] in e]),
    )
