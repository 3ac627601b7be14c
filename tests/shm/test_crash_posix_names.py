"""The manager is killed while it removes a POSIX name: the next one ends the work, and no other
file that has got the name meanwhile is touched.

One run for each failpoint of the scenario "posix". Not covered: killed owners (tests/posix).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import native
import pytest

_WAIT_S = 120

_PROGRAM = """
import ctypes, os, sys, time
from pathlib import Path
sys.path.insert(0, {native!r})
import native
import waiting

SHARED, WRITABLE, IS_OPEN = 1, 2, 16
token = Path(sys.argv[3])
name = "/" + sys.argv[2]
path = Path("/dev/shm" + name)
n = native.Native(Path(sys.argv[1]))
lib, check = n.lib, n.check
service = ctypes.c_void_p()
check(lib.shmt_service_create(sys.argv[2].encode(), None, {uid}, 1, ctypes.byref(service)))

def create():
    fd = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR, 0o600)
    os.truncate(fd, 100_000)
    storage = ctypes.c_void_p()
    check(lib.shmt_storage_map_file(str(path).encode(), ctypes.c_uint64(100_000),
                                    SHARED | WRITABLE | IS_OPEN, fd, ctypes.byref(storage)))
    check(lib.shmt_service_own_posix_name(service, storage, fd, name.encode(), 1))
    folder = os.open("/dev/shm", os.O_RDONLY)
    os.link(f"/proc/self/fd/{{fd}}", name[1:], dst_dir_fd=folder, follow_symlinks=True)
    os.close(folder)
    os.close(fd)
    return native.Block(n, storage.value).fill(1)

class Counters(ctypes.Structure):
    names = "pid clients names granted resident limit client_limit group"
    _fields_ = [(field, ctypes.c_uint64) for field in names.split()]

def manager():
    counters = Counters()
    check(lib.shmt_service_status(service, ctypes.byref(counters)))
    return counters.pid

try:
    kept = create()
    first = manager()
    token.touch()
    del kept
    waiting.until(lambda: not token.exists(), lambda: "was not reached")
    path.write_text("of another program")  # before there is another manager
    waiting.until(lambda: manager() != first)
    waiting.let_the_manager_look()
    assert path.read_text() == "of another program"
    path.unlink()
    kept = create()
    del kept
    waiting.until(lambda: not path.exists())
finally:
    path.unlink(missing_ok=True)
"""


@pytest.mark.check
@pytest.mark.parametrize("point", native.failpoints("posix"))
def test_manager_killed_while_it_removes_a_name(
    point: str, native_directory: Path, tmp_path: Path
) -> None:
    program = _PROGRAM.format(native=str(Path(__file__).parent), uid=os.geteuid())
    token = tmp_path / "token"
    name = f"test-{os.getpid()}-{point}"
    done = subprocess.run(
        [sys.executable, "-c", program, str(native_directory), name, str(token)],
        env=dict(os.environ, SHMTENSOR_FAILPOINT=f"{point}:{token}"),
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
