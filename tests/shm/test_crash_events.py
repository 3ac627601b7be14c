"""A process is killed at each step of setting and pulsing an event: it works on for all others.

One run for each failpoint of the scenario "event". Not covered: events in Python (tests/service).
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
import ctypes, os, sys
from pathlib import Path
sys.path.insert(0, {native!r})
import native
import waiting

token = Path(sys.argv[3])
n = native.Native(Path(sys.argv[1]))
lib, check = n.lib, n.check
DONE, NBYTES, EVENT = 0, 1344, 6
NEVER = ctypes.c_uint64(2**64 - 1)
service, storage, event = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
check(lib.shmt_service_create(sys.argv[2].encode(), None, {uid}, 1, ctypes.byref(service)))
check(lib.shmt_service_new_storage(service, ctypes.c_uint64(NBYTES), ctypes.byref(storage)))
check(lib.shmt__event_create_in(storage, ctypes.byref(event)))
class Mark(ctypes.Structure):
    _fields_ = [("n_pulses", ctypes.c_uint64), ("n_sets", ctypes.c_uint32)]

lib.shmt__event_mark_now.restype, lib.shmt__event_has_come.restype = Mark, ctypes.c_bool
lib.shmt__event_has_come.argtypes = [ctypes.c_void_p, Mark]
lib.shmt__event_is_set.restype = lib.shmt__event_pulse_since.restype = ctypes.c_bool

def pulse(id_):
    return lib.shmt__event_pulse(event, ctypes.c_uint64(id_), ctypes.c_uint64(0)) == DONE

def newest(since):
    id_ = ctypes.c_uint64()
    known = lib.shmt__event_pulse_since(event, ctypes.c_uint64(since), ctypes.byref(id_))
    return id_.value if known else None

assert pulse(11) and newest(0) == 11 and newest(1) is None
token.touch()
waits_since = lib.shmt__event_mark_now(event)
pid = os.fork()
if pid == 0:
    check(lib.shmt__event_set(event))
    pulse(12)
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
assert not token.exists(), "was not reached"
assert lib.shmt__event_is_set(event)
pulsed = newest(1)
assert pulsed == (12 if "counted" in str(token) else None), pulsed
check(lib.shmt__event_set(event))  # it is set; who waits learns of this call too
check(lib.shmt__event_clear(event))
assert not lib.shmt__event_is_set(event) and lib.shmt__event_has_come(event, waits_since)
waiting.until(lambda: pulse(13))  # once the manager has seen the death
assert newest(2 if pulsed else 1) == 13
check(lib.shmt__event_set(event))
assert lib.shmt__event_is_set(event)
"""


@pytest.mark.check
@pytest.mark.parametrize("point", native.failpoints("event"))
def test_killed_at_a_step(point: str, native_directory: Path, tmp_path: Path) -> None:
    token = tmp_path / point
    program = _PROGRAM.format(native=str(Path(__file__).parent), uid=os.getuid())
    done = subprocess.run(
        [sys.executable, "-c", program, str(native_directory), f"events-{os.getpid()}", str(token)],
        env={**os.environ, "SHMTENSOR_FAILPOINT": f"{point}:{token}"},
        capture_output=True,
        text=True,
        timeout=_WAIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
