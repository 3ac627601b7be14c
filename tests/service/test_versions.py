"""Programs of different versions at one service: they refuse each other, with both numbers.

What an extension needs of the library has the version too: tests/packaging/test_build_ffi.py. The
layout of shared memory has a number of its own: tests/c/shm.c.
"""

from __future__ import annotations

import os
import re
import socket
import struct
import threading
from pathlib import Path

import pytest
import service_programs as programs

from shmtensor.errors import ManagerError
from shmtensor.service import Service

SPEC = (Path(__file__).parents[2] / "csrc/spec/wire.yaml").read_text()
WIRE = int(re.findall(r"^version: (\d+)", SPEC, re.M)[0])
MAGIC = 0x57544853
HEAD = struct.Struct("=IHHIi")  # magic, version, type, serial, status
PACKET_BYTES = 264


def packet(version: int, kind: int, serial: int, nbytes: int) -> bytes:
    return HEAD.pack(MAGIC, version, kind, serial, 0).ljust(nbytes, b"\0")


@pytest.mark.check
@pytest.mark.parametrize("nbytes", [HEAD.size, PACKET_BYTES, 4 * PACKET_BYTES])
def test_manager_tells_a_program_of_another_version(tmp_path: Path, nbytes: int) -> None:
    path = str(tmp_path / "service")
    server = programs.Server("--socket", path)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
            client.settimeout(programs.WAIT_S)
            client.connect(path)
            client.send(packet(WIRE + 5, 1, 77, nbytes))
            reply = client.recv(1 << 16)
            assert client.recv(1 << 16) == b""  # it hangs up
        _, version, kind, serial, status = HEAD.unpack_from(reply)
        assert (version, kind, serial) == (WIRE, 0x81, 77)
        assert status != 0
        assert (
            f"speaks version {WIRE} of the protocol, the program version {WIRE + 5}".encode()
            in reply
        )
        # Nobody else has noticed.
        text = (
            "import sys; from shmtensor.service import Service as S; S(socket=sys.argv[1]).list()"
        )
        programs.Program(text, path).finish()
    finally:
        server.kill()


@pytest.mark.check
@pytest.mark.parametrize("nbytes", [HEAD.size, PACKET_BYTES, 4 * PACKET_BYTES])
def test_program_tells_of_a_manager_of_another_version(tmp_path: Path, nbytes: int) -> None:
    path = str(tmp_path / "service")

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            _, _, kind, serial, _ = HEAD.unpack_from(connection.recv(1 << 16))
            connection.send(packet(WIRE + 5, kind | 0x80, serial, nbytes))

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(
            ManagerError,
            match=f"manager speaks version {WIRE + 5} of the protocol, this program version {WIRE}",
        ):
            Service(socket=path).list()
        thread.join()
