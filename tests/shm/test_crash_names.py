"""The manager is killed at each step of publishing: names and values are whole, nothing stays held.

One run for each failpoint of the scenario "service". Not covered: killed programs (tests/service).
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
import ctypes, sys, time
from pathlib import Path
sys.path.insert(0, {native!r})
import native
import waiting

token = Path(sys.argv[3])
n = native.Native(Path(sys.argv[1]))
lib, check = n.lib, n.check
service = ctypes.c_void_p()
check(lib.shmt_service_create(sys.argv[2].encode(), None, {uid}, 1, ctypes.byref(service)))

def publish(value):
    storage = ctypes.c_void_p()
    check(lib.shmt_service_new_storage(service, ctypes.c_uint64(100_000), ctypes.byref(storage)))
    block = native.Block(n, storage.value).fill(value)
    version = ctypes.c_uint64()
    storages = (ctypes.c_void_p * 1)(storage.value)
    check(lib.shmt_service_publish(service, b"name", storages, ctypes.c_uint64(1), b"text",
                                   ctypes.c_uint64(4), 0, ctypes.byref(version)))
    return version.value

def read():
    snapshot = ctypes.c_void_p()
    check(lib.shmt_snapshot_open(service, b"name", 0, ctypes.byref(snapshot)))
    lib.shmt_snapshot_storage.restype = ctypes.c_void_p
    block = native.Block(n, lib.shmt_snapshot_storage(snapshot, ctypes.c_uint64(0)))
    lib.shmt_snapshot_free(snapshot)
    return block

versions = [publish(1)]
old = read()
token.touch()
versions.append(publish(2))
assert not token.exists(), "was not reached"
assert versions[1] == versions[0] + 1, versions
assert read().value() == 2 and old.value() == 1
del old
versions.append(publish(3))
assert versions[2] == versions[1] + 1, versions
assert read().value() == 3
check(lib.shmt_service_unpublish(service, b"name"))

class Counters(ctypes.Structure):
    names = "pid clients names granted resident limit client_limit group"
    _fields_ = [(name, ctypes.c_uint64) for name in names.split()]

def resident():
    counters = Counters()
    check(lib.shmt_service_status(service, ctypes.byref(counters)))
    return counters.resident

waiting.until(lambda: resident() == 0, resident)
"""


@pytest.mark.check
@pytest.mark.parametrize("point", native.failpoints("service"))
def test_manager_killed_while_it_publishes(
    point: str, native_directory: Path, tmp_path: Path
) -> None:
    program = _PROGRAM.format(native=str(Path(__file__).parent), uid=os.geteuid())
    token = tmp_path / "token"
    done = subprocess.run(
        [sys.executable, "-c", program, str(native_directory), f"test-{token}", str(token)],
        env=dict(os.environ, SHMTENSOR_FAILPOINT=f"{point}:{token}"),
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
