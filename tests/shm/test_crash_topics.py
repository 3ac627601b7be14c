"""A publisher is killed while it makes room: what is lost is counted, and the history is there.

Not covered: kills at the other steps of publishing (test_crash.py).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import ctypes, os, sys
from pathlib import Path
sys.path.insert(0, {here!r})
import native
import native_topic
from native_ring import DONE

N_LOST_AT = 280  # of shmt__ring_header
token = Path(sys.argv[3])
HISTORY = int(sys.argv[4])
topic = native_topic.Topic(native.Native(Path(sys.argv[1]), int(sys.argv[2])), HISTORY)
ring = topic.subscribe()
for i in range(native_topic.DEPTH):
    topic.publish(bytes([i]))
token.touch()
pid = os.fork()
if pid == 0:
    topic.publish(b"x")
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9
assert not token.exists(), "was not reached"
if HISTORY:
    late = topic.subscribe()
    assert late.get(wait=False)[:2] in ((DONE, b"x"), (DONE, bytes([native_topic.DEPTH - 1])))
header = ctypes.cast(ring.pointer, ctypes.POINTER(ctypes.c_void_p))[2]
n_lost = ctypes.c_uint64.from_address(header + N_LOST_AT).value
there = []
while (got := ring.get(wait=False))[0] == DONE:
    there.append(got[1][0])
n_missed = native_topic.DEPTH - len(there)
assert there == list(range(n_missed, native_topic.DEPTH)), there
assert n_missed <= n_lost <= n_missed + 1, (n_missed, n_lost)
topic.publish(b"y")
assert ring.get(wait=False)[:2] == (DONE, b"y")
"""


@pytest.mark.check
@pytest.mark.parametrize(
    ("point", "history"), [("topic_counted", 0), ("ring_dropped", 0), ("ring_dropped", 1)]
)
def test_publisher_that_is_killed_making_room(
    point: str, history: int, native_directory: Path, tmp_path: Path
) -> None:
    token = tmp_path / point
    number = str((os.getpid() << 42) | 2 << 40 | len(point) << 1 | history)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            _PROGRAM.format(here=str(Path(__file__).parent)),
            str(native_directory),
            number,
            str(token),
            str(history),
        ],
        env={**os.environ, "SHMTENSOR_FAILPOINT": f"{point}:{token}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
