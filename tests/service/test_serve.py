"""``shmtensor serve``: names, sockets, supervisors, bounds, other users."""

from __future__ import annotations

import os
import select
import socket
import stat
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import service_programs as programs

import shmtensor as T
from shmtensor import inspect
from shmtensor.errors import ManagerError
from shmtensor.service import Service


@pytest.mark.check
def test_readiness_is_told_and_sigterm_ends_in_order() -> None:
    with programs.serving() as (_, server):
        assert server.state == b"READY=1"
        assert server.terminate() == 0


def test_ready_line_and_the_name_in_the_tools() -> None:
    with programs.serving(stdout=subprocess.PIPE) as (name, server):
        assert server.process.stdout is not None
        line = server.process.stdout.readline()
        assert line == f'shmtensor: service "{name}" is ready, process {server.pid}\n'
        for wanted in (name, str(server.pid)):
            (session,) = inspect.open_sessions(wanted)
            with session:
                assert (session.service, session.manager_pid()) == (name, server.pid)


_RENAMES = """
import mmap, os, sys; import shmtensor as T; from shmtensor.service import Service
Service(sys.argv[1]).publish("x", T.ones(2))
for fd in os.listdir("/proc/self/fd"):
    path = f"/proc/self/fd/{fd}"
    if os.path.islink(path) and "shmtensor-control-" in os.readlink(path):
        file = mmap.mmap(int(fd), 4096)
        at = file.find(sys.argv[1].encode())
        file[at : at + 5] = b"other"
        break
print("done", at > 0, flush=True)
sys.stdin.readline()
"""


def test_name_that_a_member_wrote_over_is_not_believed(run: type[programs.Program]) -> None:
    with programs.serving() as (name, server):
        member = run(_RENAMES, name)
        assert member.line() == "done True"
        assert inspect.open_sessions("other" + name[5:]) == []
        (session,) = inspect.open_sessions(str(server.pid))
        with session:
            assert session.service == ""
        member.say()
        member.finish()


def test_socket_at_a_path_in_the_tools(tmp_path: Path) -> None:
    path = str(tmp_path / "own" / "socket")
    with programs.serving("--socket", path) as (_, server):
        (session,) = inspect.open_sessions(path)
        with session:
            assert (session.service, session.manager_pid()) == (path, server.pid)
            assert session.trim() >= 0


def test_name_that_is_taken(service: Service) -> None:
    again = programs.command("serve", "--name", service._name)
    assert again.returncode == 1
    assert again.stderr == f'shmtensor: serve: service "{service._name}" runs already\n'


_MEMBER = """
import sys; import shmtensor as T; from shmtensor.service import Service
path = None if sys.argv[2] == "-" else sys.argv[2]
service = Service(sys.argv[1], socket=path)
service.publish("x", T.ones(2))
mine = service.attach("x")
print("ready", flush=True)
for line in sys.stdin:
    if line == "publish\\n": service.publish("x", T.ones(3))
    version = service.latest("x").version
    print(service.status().manager_pid, mine.sum().item(), version, flush=True)
"""


@pytest.mark.parametrize("is_path", [False, True])
def test_supervisor_takes_over_from_a_manager_that_a_client_started(
    tmp_path: Path, run: type[programs.Program], is_path: bool
) -> None:
    path = str(tmp_path / "own" / "socket")
    name = path if is_path else programs.unused_name()
    options = ["--socket", path] if is_path else ["--name", name]
    server = programs.Server(*options)
    try:
        member = run(_MEMBER, name, path if is_path else "-")
        assert member.line() == "ready"
        server.kill()
        member.say("publish")
        between = int(member.line().split()[0])
        assert between != server.pid
        server = programs.Server(*options)
        member.say()
        assert member.line() == f"{server.pid} 2.0 2"
        newcomer = run(_MEMBER, name, path if is_path else "-")
        assert newcomer.line() == "ready"
        newcomer.say()
        assert newcomer.line() == f"{server.pid} 2.0 3"
        assert server.terminate() == 0
        state = Path(f"/proc/{between}/stat")
        assert not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    finally:
        server.kill()


def test_service_that_does_not_run() -> None:
    name = programs.unused_name()
    with pytest.raises(ManagerError, match=f'no service "{name}" runs .start it: shmtensor serve'):
        Service(name).list()


_SUM = """
import sys
import shmtensor as T
from shmtensor.service import Service
service = Service("any", socket=sys.argv[1])
service.publish("x", T.ones(10))
print(service.attach("x").sum().item())
"""


def test_socket_at_a_path(tmp_path: Path, run: type[programs.Program]) -> None:
    path = tmp_path / "own" / "socket"
    with programs.serving("--socket", str(path)) as (_, server):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert run(_SUM, str(path)).finish() == "10.0\n"
        again = programs.command("serve", "--socket", str(path))
        assert again.returncode == 1
        assert "runs already" in again.stderr
        # A killed one leaves the path, which the next one takes over.
        server.kill()
        assert path.exists()
        with programs.serving("--socket", str(path)):
            assert run(_SUM, str(path)).finish() == "10.0\n"


def test_member_revives_a_service_at_a_path(tmp_path: Path, run: type[programs.Program]) -> None:
    path = tmp_path / "own" / "socket"
    with programs.serving("--socket", str(path)) as (_, server):
        member = run(
            "import sys; import shmtensor as T; from shmtensor.service import Service\n"
            "service = Service(socket=sys.argv[1]); service.publish('y', T.ones(2))\n"
            "print('ready', flush=True); sys.stdin.readline()\n"
            "service.publish('y', T.ones(3)); print('again', flush=True); sys.stdin.readline()",
            str(path),
        )
        assert member.line() == "ready"
        server.kill()
        member.say()
        assert member.line() == "again"
        assert run(_SUM, str(path)).finish() == "10.0\n"
        member.say()
        member.finish()


def test_paths_that_cannot_be(tmp_path: Path) -> None:
    long = programs.command("serve", "--socket", "/tmp/" + "x" * 110)
    assert long.returncode == 1
    assert "at most 107 bytes, this has 115" in long.stderr
    tmp_path.chmod(0o755)
    open_to_all = programs.command("serve", "--socket", str(tmp_path / "socket"))
    assert open_to_all.returncode == 1
    assert "has mode 755" in open_to_all.stderr
    assert not (tmp_path / "socket").exists()
    file = tmp_path / "file"
    file.touch()
    for path, text in (
        (file, f"serve: {file} exists and is not a socket"),
        (tmp_path / "no" / "own" / "socket", f"no directory for {tmp_path / 'no' / 'own'}"),
    ):
        done = programs.command("serve", "--socket", str(path))
        assert (done.returncode, done.stdout) == (1, "")
        assert text in done.stderr


@pytest.mark.check
@pytest.mark.parametrize("text", ["-1", "x", "1.5G", "1Z", "99999999999999999999"])
def test_sizes_that_are_none(text: str) -> None:
    assert programs.command("serve", f"--limit-bytes={text}").returncode == 2


def test_socket_passed_by_a_supervisor(tmp_path: Path, run: type[programs.Program]) -> None:
    path = tmp_path / "activated"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(path))
    listener.listen()
    pid = programs.activated(listener, "--socket", str(path))
    try:
        listener.close()
        assert run(_SUM, str(path)).finish() == "10.0\n"
    finally:
        os.kill(pid, 15)
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


# --- bounds -------------------------------------------------------------------------------------

_LIMITED = """
import sys, threading, time
import shmtensor as T
from shmtensor.service import Service
service = Service(sys.argv[1])
first = service.empty(3 << 20, dtype=T.uint8)
try:
    service.publish("second", T.zeros(3 << 20, dtype=T.uint8))
    raise SystemExit("no bound")
except MemoryError as error:
    print(error, flush=True)
begin = time.monotonic()
try:
    service.publish("second", T.zeros(3 << 20, dtype=T.uint8), timeout=0.3)
    raise SystemExit("no bound")
except MemoryError:
    assert time.monotonic() - begin >= 0.3
def make_room():
    global first
    first = None
threading.Timer(0.2, make_room).start()
print(service.publish("second", T.zeros(3 << 20, dtype=T.uint8), timeout=60), flush=True)
threading.Timer(0.2, service.unpublish, ["second"]).start()
print(service.publish("third", T.zeros(3 << 20, dtype=T.uint8), timeout=None), flush=True)
"""


def test_total_bound_names_who_has_most_and_waits_for_room(run: type[programs.Program]) -> None:
    with programs.serving("--limit-bytes", "5M") as (name, _):
        program = run(_LIMITED, name)
        assert program.line() == (
            "unable to allocate shared memory: tried 3145728 bytes, 3145728 of the session's "
            f"5242880 are in use; process {program.process.pid} has most, 3145728"
        )
        assert program.line() == "1"
        assert program.line() == "1"  # None waits for ever
        program.finish()


def test_bound_of_one_client_leaves_room_for_others(run: type[programs.Program]) -> None:
    with programs.serving("--client-limit-bytes", "5M") as (name, _):
        first, second = (run(_LIMITED, name) for _ in range(2))
        for program in (first, second):
            assert program.line() == (
                "unable to allocate shared memory: tried 3145728 bytes, process "
                f"{program.process.pid} has 3145728 of the 5242880 that one may have"
            )
        for program in (first, second):
            program.finish()


# --- other users --------------------------------------------------------------------------------

_AS_OTHER = """
import os, sys, importlib.util, shmtensor.nn
from shmtensor.service import Service
os.setgroups([int(g) for g in sys.argv[4:]]); os.setgid(65534); os.setuid(65534)
path = None if sys.argv[2] == "-" else sys.argv[2]
try:
    service = Service(sys.argv[1], socket=path, owner=int(sys.argv[3]))
    value = service.attach("x", "ro")
    print("attached", value.sum().item(), value.is_shared())
    print(service.publish("y", value + 1), service.attach("y").sum().item())
    service.attach("x", "rw")[0] = 5
    try: service.unpublish("x")
    except RuntimeError as error: print(error)
    try: service.attach_module("m")
    except RuntimeError as error: print("pickle" in str(error))
except Exception as error:
    print(type(error).__name__, error)
"""

_needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@_needs_root
def test_other_user_is_refused(service: Service, run: type[programs.Program]) -> None:
    service.publish("x", T.ones(4))
    other = run(_AS_OTHER, service._name, "-", str(os.geteuid()))
    assert other.finish().startswith("ManagerError")
    assert set(service.list()) == {"x"}


@_needs_root
def test_other_user_cannot_open_the_memory(service: Service, run: type[programs.Program]) -> None:
    service.publish("x", T.ones(4))
    manager = service.status().manager_pid
    other = run(
        "import os, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for pid in sys.argv[1:]:\n"
        "    try: os.listdir(f'/proc/{pid}/fd'); print('listed')\n"
        "    except PermissionError: pass\n"
        "    for n in range(3, 30):\n"
        "        try: os.open(f'/proc/{pid}/fd/{n}', os.O_RDONLY); print('opened', n)\n"
        "        except (PermissionError, FileNotFoundError): pass\n"
        "    try: open(f'/proc/{pid}/mem', 'rb'); print('opened')\n"
        "    except PermissionError: pass",
        str(manager),
        str(os.getpid()),
    )
    assert other.finish() == ""


@_needs_root
@pytest.mark.parametrize("is_path", [False, True])
def test_members_of_the_group_may_join(
    tmp_path: Path, run: type[programs.Program], is_path: bool
) -> None:
    directory = Path("/tmp") / programs.unused_name()
    path = str(directory / "socket") if is_path else "-"
    options = ["--group", "54321", *(["--socket", path] if is_path else [])]
    try:
        with programs.serving(*options) as (name, _):
            owner = run(
                "import sys; import shmtensor as T; from shmtensor.service import Service\n"
                "path = None if sys.argv[2] == '-' else sys.argv[2]\n"
                "service = Service(sys.argv[1], socket=path)\n"
                "service.publish('x', T.ones(4)); service.publish('m', T.nn.Linear(2, 2))\n"
                "print('ready', flush=True); sys.stdin.readline()\n"
                "print(service.attach('x').tolist(), service.info('y').uid, flush=True)",
                name,
                path,
            )
            assert owner.line() == "ready"
            uid = str(os.geteuid())
            stranger = run(_AS_OTHER, name, path, uid).finish()
            assert stranger.startswith("ManagerError"), stranger
            member = run(_AS_OTHER, name, path, uid, "54321")
            lines = member.finish().splitlines()
            assert lines[0] == "attached 4.0 True", lines
            assert lines[1] == "1 8.0"
            assert lines[2] == 'the name "x" was published by user 0, not 65534'
            assert lines[3] == "True"
            owner.kill()  # or it starts the next manager, in the directory that is removed below
    finally:
        for name in directory.iterdir() if directory.exists() else ():
            name.unlink()
        if directory.exists():
            directory.rmdir()


_OWNER = """
import sys; import shmtensor as T; from shmtensor.service import Service
service = Service(sys.argv[1], socket=sys.argv[2])
service.publish("x", T.ones(4)); service.publish("m", T.nn.Linear(2, 2))
print("ready", flush=True); sys.stdin.readline()
service.publish("z", T.ones(1))
print(service.status().manager_pid, flush=True); sys.stdin.readline()
"""


@_needs_root
def test_service_at_a_path_stays_open_to_its_group_after_a_kill(
    run: type[programs.Program],
) -> None:
    """Whoever starts the next manager need not know the group, nor who takes its place."""
    directory = Path("/tmp") / programs.unused_name()
    path = str(directory / "socket")
    options = ["--group", "54321", "--socket", path]
    uid = str(os.geteuid())
    try:
        with programs.serving(*options) as (name, server):
            owner = run(_OWNER, name, path)
            assert owner.line() == "ready"
            server.kill()
            owner.say()
            assert int(owner.line()) not in (server.pid, 0)
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
            for groups, outcome in (((), "ManagerError"), (("54321",), "attached")):
                member = run(_AS_OTHER, name, path, uid, *groups)
                assert member.finish().startswith(outcome)
            with programs.serving(*options):
                assert stat.S_IMODE(os.stat(path).st_mode) == 0o660
                member = run(_AS_OTHER, name, path, uid, "54321")
                assert member.finish().startswith("attached")
                owner.kill()  # or it starts the next manager, in a directory that goes away
    finally:
        for file in directory.iterdir() if directory.exists() else ():
            file.unlink()
        if directory.exists():
            directory.rmdir()


def test_many_readers_of_one_name(service: Service) -> None:
    service.publish("x", T.arange(100.0))
    sums: list[float] = []

    def read() -> None:
        for _ in range(50):
            sums.append(service.attach("x", "ro").sum().item())

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(programs.WAIT_S)
    assert sums == [4950.0] * 200


_STARTER = """
import os, sys; import shmtensor as T; from shmtensor.service import Service
service = Service(sys.argv[1], start=True)
service.publish("x", T.ones(2))
print(service.status().manager_pid, flush=True)
sys.stdin.readline()
"""


def test_program_starts_a_service_of_a_name_of_its_own(run: type[programs.Program]) -> None:
    name = f"own-{os.getpid()}"
    first = run(_STARTER, name)
    manager = os.pidfd_open(int(first.line()))
    try:
        member = run(_MEMBER, name, "-")
        assert member.line() == "ready"
        member.kill()
        first.say()
        first.finish()
        assert select.select([manager], [], [], programs.WAIT_S)[0]  # it ends with its last process
    finally:
        os.close(manager)


@pytest.mark.parametrize("other", [{"socket": "/nowhere/socket"}, {"owner": os.geteuid() + 1}])
def test_only_ones_own_service_can_be_started(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="start=True"):
        Service("any", start=True, **other)
