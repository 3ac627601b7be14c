"""Wait for what is to happen, in tests and in the programs that they start: no machine is too slow.

The limit is against hangs only. A test that nothing happens waits for what comes after it: the
manager's next looks, or a later message that the manager ends.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

__all__ = [
    "HANG_S",
    "SLOWER",
    "comes_true",
    "is_readable",
    "let_the_manager_look",
    "nothing_new_in_dev_shm",
    "process_state",
    "python_path",
    "runs",
    "sleep_until_a_signal",
    "sleeps",
    "until",
]

HANG_S = 100.0
#: How many times longer a program gets for its work under a sanitizer.
SLOWER = 4 if "SHMTENSOR_SANITIZER" in os.environ else 1

# Of `activity` in shmt__control (csrc/shm/control_file.h): the manager's sweep sets it to 0.
_ACTIVITY = slice(120, 124)


def until(condition: Callable[[], object], seen: Callable[[], object] = lambda: "") -> None:
    """Return when *condition* holds.

    Raises:
        AssertionError: It has not held for `HANG_S` seconds; the text has what *seen* gives.
    """
    deadline = time.monotonic() + HANG_S
    while not condition():
        assert time.monotonic() < deadline, seen()
        time.sleep(0.01)


def python_path(*folders: Path | str) -> str:
    """PYTHONPATH for programs that import this module, and what is in *folders*."""
    own = str(Path(__file__).resolve().parent)
    return os.pathsep.join([*map(str, folders), own, os.environ.get("PYTHONPATH", "")])


def comes_true(condition: Callable[[], object]) -> bool:
    """Whether *condition* holds within `HANG_S` seconds."""
    with contextlib.suppress(AssertionError):
        until(condition)
        return True
    return False


def nothing_new_in_dev_shm(before: Collection[str]) -> bool:
    """Whether the names in /dev/shm that are not among *before* go within `HANG_S` seconds.

    Tests that run at the same time make names, too, which nothing tells from ours; theirs go.
    """
    new = set(os.listdir("/dev/shm")).difference(before)
    return comes_true(lambda: new.isdisjoint(os.listdir("/dev/shm")))


def process_state(pid: int) -> str:
    """The kernel's letter: R, S, T (stopped), Z (ended, not waited for); empty: no such process."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return ""


def sleeps(thread: threading.Thread) -> None:
    """Return when the thread sleeps in a wait."""
    until(lambda: process_state(thread.native_id or 0) == "S")
    time.sleep(0.1)  # it may have slept for the interpreter's lock


def sleep_until_a_signal() -> None:
    """Sleep until a signal's handler raises.

    In short pieces: of a signal that comes after Python last looked for one, and before the call
    that blocks, a handler hears only when that call ends by itself.
    """
    while True:
        time.sleep(0.1)


def runs(pid: int) -> bool:
    """Whether a process has not ended yet."""
    return process_state(pid) not in ("", "Z", "X")


def is_readable(fd: int) -> bool:
    """Whether a descriptor is readable now."""
    return bool(select.select([fd], [], [], 0)[0])


def let_the_manager_look(n: int = 3) -> None:
    """Return when the manager of this process's only session has looked at everything *n* times."""
    control = _open_control_file()
    try:
        for _ in range(n + 1):  # it may be in the middle of a look now
            os.pwrite(control, b"\1\0\0\0", _ACTIVITY.start)
            until(lambda: os.pread(control, 4, _ACTIVITY.start) == bytes(4))
    finally:
        os.close(control)


def _open_control_file() -> int:
    found = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one this listing used
            path = f"/proc/self/fd/{number}"
            found[os.readlink(path)] = path
    paths = [path for target, path in found.items() if "shmtensor-control" in target]
    assert len(paths) == 1, found
    return os.open(paths[0], os.O_RDWR)
