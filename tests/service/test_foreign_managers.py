"""Managers that answer what none of ours does, as that of another user may.

Whatever the numbers are, a process that joins raises, or does without: none is used as an index
before it is checked. Not covered: what members write (test_scribbles.py), packets to the manager
(tests/stress/test_hostile.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest
import service_programs as programs

# csrc/spec/wire.yaml: types of messages, and where fields lie in a packet.
_HELLO, _FORK, _STATUS = 1, 2, 11
_FAILED, _CLIENT = 12, 16

# Stands before the manager at *path*, and writes *value* into a field of the replies of a type, but
# for the first *skipped* ones. A line of its input ends the connections;
# then it says so.
_PROXY = """
import os, socket, struct, sys, threading
path = sys.argv[1]
kind, skipped, field, value = map(int, sys.argv[2:])
os.rename(path, path + ".real")
listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
listener.bind(path)
listener.listen()
connections = []

def change(packet):
    global skipped
    if struct.unpack_from("H", packet, 6)[0] != kind | 0x80:
        return packet
    skipped -= 1
    return packet if skipped >= 0 else packet[:field] + struct.pack("I", value) + packet[field + 4:]

def forward(source, target, changed):
    try:
        while True:
            packet, files, _, _ = socket.recv_fds(source, 4096, 8)
            if not packet:
                break
            socket.send_fds(target, [changed(packet)], files)
            for fd in files:
                os.close(fd)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

def serve():
    while True:
        client = listener.accept()[0]
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        manager.connect(path + ".real")
        connections.append(client)
        for ends in ((client, manager, bytes), (manager, client, change)):
            threading.Thread(target=forward, args=ends, daemon=True).start()

threading.Thread(target=serve, daemon=True).start()
print("ready", flush=True)
for _ in sys.stdin:
    for client in connections:
        try:
            client.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
    print("closed", flush=True)
"""

_MEMBER = """
import sys
from shmtensor.service import Service
from shmtensor.errors import ManagerError
service = Service(socket=sys.argv[1])

def ask():
    try:
        service.status()
    except ManagerError as error:
        return "refused"
    return "answered"

print(ask(), flush=True)
"""


@pytest.mark.check
@pytest.mark.parametrize("number", [0, 4608, 2**31, 2**32 - 1])
@pytest.mark.parametrize("rejoins", [False, True])
def test_process_takes_no_client_number_that_is_none(
    run: type[programs.Program], tmp_path: Path, number: int, rejoins: bool
) -> None:
    path = str(tmp_path / "own" / "socket")
    with programs.serving("--socket", path):
        proxy = run(_PROXY, path, *map(str, (_HELLO, int(rejoins), _CLIENT, number)))
        assert proxy.line() == "ready"
        member = run(_MEMBER + "sys.stdin.readline(); print(ask())", path)
        assert member.line() == ("answered" if rejoins else "refused")
        if rejoins:
            proxy.say()
            assert proxy.line() == "closed"
        assert member.finish("\n") == "refused\n"


@pytest.mark.parametrize("number", [0, 4608, 2**31, 2**32 - 1])
def test_forked_child_finds_a_number_itself_where_the_manager_gives_none(
    run: type[programs.Program], tmp_path: Path, number: int
) -> None:
    path = str(tmp_path / "own" / "socket")
    with programs.serving("--socket", path):
        proxy = run(_PROXY, path, *map(str, (_FORK, 0, _CLIENT, number)))
        assert proxy.line() == "ready"
        member = run(
            _MEMBER + "import os\n"
            "service.publish('value', 7)\n"
            "kept = service.empty(1000).fill_(5)\n"
            "if os.fork() == 0:\n"
            "    print(service.attach('value'), kept.sum().item(), flush=True)\n"
            "    os._exit(0)\n"
            "print(os.waitstatus_to_exitcode(os.wait()[1]))",
            path,
        )
        assert member.finish() == "answered\n7 5000.0\n0\n"


@pytest.mark.parametrize("status", [14, 99, 2**31 + 1])  # PYTHON, and none
def test_failure_that_only_the_process_itself_can_have_is_the_managers(
    run: type[programs.Program], tmp_path: Path, status: int
) -> None:
    path = str(tmp_path / "own" / "socket")
    with programs.serving("--socket", path):
        proxy = run(_PROXY, path, *map(str, (_STATUS, 0, _FAILED, status)))
        assert proxy.line() == "ready"
        assert run(_MEMBER, path).finish() == "refused\n"
