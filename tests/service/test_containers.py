"""What docs/containers.md says, tried with the namespaces that containers are made of."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import service_programs
from documents import ROOT, programs

from shmtensor.service import Service

# What the processes of two containers do not share; a child gets SIGTERM when unshare is killed.
_CONTAINER = ("unshare", "-p", "-f", "--mount-proc", "-n", "-i", "-m", "--kill-child=SIGTERM")


def _can(command: tuple[str, ...]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0


# Without the right to make namespaces, processes are just processes.
CONTAINER = _CONTAINER if _can(_CONTAINER) else ()
# SIGTERM ends no program that is the first process of its container, unless the program wants it.
_MORTAL = (*CONTAINER[:-1], "--kill-child=SIGKILL") if CONTAINER else ()
needs_containers = pytest.mark.skipif(not CONTAINER, reason="no right to make namespaces")


def _environment(**more: str) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")} | more


def _in_container(*arguments: str) -> str:
    command = [*CONTAINER, sys.executable, *arguments]
    result = subprocess.run(
        command, env=_environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture
def served() -> Iterator[str]:
    """The path of a service's socket; its manager is in a container of its own."""
    with tempfile.TemporaryDirectory() as folder:  # 0700, and a short path
        path = str(Path(folder) / "socket")
        command = [*CONTAINER, sys.executable, "-m", "shmtensor", "serve", "--socket", path]
        server = subprocess.Popen(command, env=_environment(), stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        with server.stdout as output:
            assert "ready" in output.readline()
            yield path
            # unshare is killed, and its child gets SIGTERM.
            server.send_signal(signal.SIGKILL if CONTAINER else signal.SIGTERM)
            server.wait(60)
            output.read()  # until the service has ended too


@pytest.mark.check
def test_programs_of_the_page_share_a_service(served: str) -> None:
    first, second = programs(ROOT / "docs/containers.md")
    path = "/run/tensors/socket"
    assert path in first
    assert path in second
    _in_container("-c", first.replace(path, served))
    assert _in_container("-c", second.replace(path, served)) == "2000.0\n"
    assert _in_container("-c", second.replace(path, served)) == "3000.0\n"


@needs_containers
def test_tools_find_a_service_of_other_containers_at_its_path(served: str) -> None:
    assert served in _in_container("-m", "shmtensor", "ls", "-s", served)


_MEMBER = """
import sys
from shmtensor.service import Service
service = Service(socket=sys.argv[1])
service.publish("tiny", service.empty(1))
print("joined", flush=True)
sys.stdin.readline()
"""


@needs_containers
def test_a_process_of_another_container_is_not_taken_for_one_of_this(served: str) -> None:
    member = service_programs.Program(_MEMBER, served, prefix=_MORTAL)
    try:
        assert member.line() == "joined"
        shown = subprocess.run(
            [sys.executable, "-m", "shmtensor", "ls", "-s", served],
            env=_environment(),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        (process,) = [line for line in shown.splitlines() if "another pid namespace" in line]
        assert re.match(r" +#\d+ ", process)
        assert re.search(r"^  tiny .* #\d+$", shown, re.M)
    finally:
        member.kill()


_READER = """
import sys
from shmtensor.service import Service
service = Service(socket=sys.argv[1])
found = service.latest("weights")
print(found.version, flush=True)
while True:
    found = service.wait_newer("weights", found.version, timeout=120)
    print(found.version, found.value.sum().item(), flush=True)
"""
_PUBLISHER = """
import sys
import shmtensor as st
from shmtensor.service import Service
service = Service(socket=sys.argv[1])
print(service.publish("weights", st.full((1000,), float(sys.argv[2])), persist=True))
"""


def _child(pid: int) -> int:
    """The process that ``unshare`` runs."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())


def _stop(pid: int) -> None:
    """Stop a process, and wait until each of its threads stands still."""
    os.kill(pid, signal.SIGSTOP)
    states = [""]
    while set(states) != {"T"}:
        stats = Path(f"/proc/{pid}/task").glob("*/stat")
        states = [stat.read_text().rpartition(")")[2].split()[0] for stat in stats]


class _Serve:
    """``shmtensor serve`` in a container of its own."""

    def __init__(self, path: str) -> None:
        command = [*CONTAINER, sys.executable, "-m", "shmtensor", "serve", "--socket", path]
        self.process = subprocess.Popen(
            command, env=_environment(), stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "ready" not in line:
            self.end()
            raise AssertionError(line)

    def kill_manager(self) -> None:
        """As ``kill -9`` of the manager does, which is the first process of its container."""
        pid = self.process.pid
        os.kill(_child(pid) if CONTAINER else pid, signal.SIGKILL)
        self.process.wait(60)
        self._close()

    def end(self) -> None:
        """End it in whatever manner."""
        self.process.kill()  # if it runs: the manager gets SIGTERM then
        self.process.wait(60)
        self._close()

    def _close(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()


def test_names_live_on_with_a_reader_in_another_container() -> None:
    with contextlib.ExitStack() as stack:
        path = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "socket")

        def publish(value: float) -> str:
            return _in_container("-c", _PUBLISHER, path, str(value)).rstrip("\n")

        first = _Serve(path)
        stack.callback(first.end)
        assert [publish(1.0), publish(2.0)] == ["1", "2"]
        reader = service_programs.Program(_READER, path, prefix=_MORTAL)
        stack.callback(reader.kill)
        assert reader.line() == "2"
        first.kill_manager()
        second = _Serve(path)
        stack.callback(second.end)
        assert publish(3.0) == "3"
        assert reader.line() == "3 3000.0"
        second.kill_manager()
        assert publish(4.0) == "4"  # without another `serve`: the reader has started a manager
        assert reader.line() == "4 4000.0"
        third = _Serve(path)
        stack.callback(third.end)
        assert publish(5.0) == "5"
        assert reader.line() == "5 5000.0"


_IDLE = """
import sys
from shmtensor.service import Service
service = Service(socket=sys.argv[1])
kept = service.attach("weights")
print("idle", flush=True)
sys.stdin.readline()
print(service.wait_newer("weights", 2, timeout=120).version, flush=True)
"""


@pytest.mark.check
def test_names_live_on_with_an_idle_process_in_another_container() -> None:
    with contextlib.ExitStack() as stack:
        path = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "socket")

        def publish(value: float) -> str:
            return _in_container("-c", _PUBLISHER, path, str(value)).rstrip("\n")

        first = _Serve(path)
        stack.callback(first.end)
        assert [publish(1.0), publish(2.0)] == ["1", "2"]
        idle = [service_programs.Program(_IDLE, path, prefix=_MORTAL) for _ in range(3)]
        for reader in idle:
            stack.callback(reader.kill)
            assert reader.line() == "idle"
        first.kill_manager()
        second = _Serve(path)
        stack.callback(second.end)
        assert publish(3.0) == "3"
        second.kill_manager()
        assert publish(4.0) == "4"
        for reader in idle:
            reader.say()
            assert reader.line() == "4"


_IDLE_READER = """
import sys
from shmtensor.errors import ManagerError
from shmtensor.service import Service
service = Service(socket=sys.argv[1])
kept = service.attach("weights")
print(service.version("weights"), flush=True)
sys.stdin.readline()
try:
    service.wait_newer("weights", 1)
except ManagerError as error:
    print("begun anew" in str(error) and sys.argv[1] in str(error), flush=True)
print(service.version("weights"), kept.sum().item(), flush=True)
sys.stdin.readline()
"""


@needs_containers
def test_reader_of_a_service_that_was_begun_anew_is_told_so_once() -> None:
    with contextlib.ExitStack() as stack:
        path = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "socket")
        first = _Serve(path)
        stack.callback(first.end)
        _in_container("-c", _PUBLISHER, path, "1")
        reader = service_programs.Program(_IDLE_READER, path, prefix=_MORTAL)
        stack.callback(reader.kill)
        assert reader.line() == "1"
        # A member that is stopped while it starts the next manager would keep the service's name.
        _stop(_child(reader.process.pid))
        first.kill_manager()
        second = _Serve(path)
        stack.callback(second.end)
        assert _in_container("-c", _PUBLISHER, path, "2") == "1\n"
        os.kill(_child(reader.process.pid), signal.SIGCONT)
        reader.say()
        assert reader.line() == "True"
        assert reader.line() == "1 1000.0"


def test_texts_name_the_socket() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "socket")
        with pytest.raises(RuntimeError, match=f'at "{path}" runs .*serve --socket {path}'):
            Service(socket=path).list()


@needs_containers
def test_shared_tensors_need_no_room_in_dev_shm() -> None:
    program = "import shmtensor as st; print(int(st.ones(4 << 20, shared=True).sum()))"
    mount = 'mount -t tmpfs -o size=1M tmpfs /dev/shm && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", mount, "sh", sys.executable, "-c", program]
    result = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=True)
    assert result.stdout.strip() == str(4 << 20)


_DENY = """
import ctypes, errno, struct
libc = ctypes.CDLL(None, use_errno=True)
# Load the number; memfd_create (319) fails with EPERM, everything else is allowed.
refuse, allow = 0x50000 | errno.EPERM, 0x7fff0000
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 319), (0x06, 0, 0, refuse), (0x06, 0, 0, allow)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
program = Program(len(steps), ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(program)) == 0

import shmtensor as st
import shmtensor.multiprocessing as mp

def child(queue):
    queue.put(st.full((1000,), 3.0))

queue = mp.Queue()
process = mp.get_context("fork").Process(target=child, args=(queue,))
process.start()
print(queue.get(timeout=60).sum().item())
process.join()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has numbers of x86-64")
def test_sharing_works_where_memfd_create_is_forbidden() -> None:
    command = [sys.executable, "-c", _DENY]
    result = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "3000.0"


_SUBSCRIBER = """
import sys
from shmtensor.service import Service
service = Service(socket=sys.argv[1])
frames = service.Topic("frames").subscribe()
print("open", flush=True)
for frame in frames:
    print(frame.sum().item(), flush=True)
"""
_SERVER = """
import os, sys
from shmtensor.service import Service
server = Service(socket=sys.argv[1]).Server("double")
print("open", flush=True)
for request in server:
    with request:
        if isinstance(request.value, str):
            os._exit(9)  # the first process of a container cannot kill itself
        request.reply(request.value * 2)
"""
_CALLER = """
import sys
import shmtensor as st
from shmtensor.errors import ServerLostError
from shmtensor.service import Service
service = Service(socket=sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
service.Topic("frames").publish(st.ones(50_000))
jobs = service.Queue("jobs")
jobs.put([st.ones(7), "x"])
client = service.Client("double")
print(client.call(st.ones(3)).sum().item(), flush=True)
try:
    client.call("die")
except ServerLostError:
    print("lost", flush=True)
sys.stdin.readline()
service.Event("stop").set()
sys.stdin.readline()
"""
_WAITER = """
import sys
from shmtensor.service import Service
service = Service(socket=sys.argv[1])
stop, jobs = service.Event("stop"), service.Queue("jobs")
print("open", flush=True)
tensor, text = jobs.get()
print(tensor.sum().item(), text, flush=True)
stop.wait()
print("stopped", flush=True)
"""


@needs_containers
@pytest.mark.parametrize("more", [(), ("-U", "-r")], ids=["pid, mount", "also user"])
def test_programs_of_several_containers_talk(served: str, more: tuple[str, ...]) -> None:
    prefix = (_MORTAL[0], *more, *_MORTAL[1:])
    if more and not _can((*prefix[:-1],)):
        pytest.skip("no right to make user namespaces")
    texts = (_SUBSCRIBER, _SERVER, _CALLER, _WAITER)
    made = [service_programs.Program(text, served, prefix=prefix) for text in texts]
    subscriber, _, caller, waiter = made
    try:
        for program in made:
            assert program.line() == "open"
        caller.say()
        assert subscriber.line() == "50000.0"
        assert waiter.line() == "7.0 x"
        assert caller.line() == "6.0"
        assert caller.line() == "lost"
        caller.say()
        assert waiter.line() == "stopped"
        subscriber.kill()
        late = service_programs.Program(_SUBSCRIBER, served, prefix=prefix)
        made.append(late)
        assert late.line() == "open"
    finally:
        for program in made:
            program.kill()
