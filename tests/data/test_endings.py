"""Programs that end in the midst of a pass: no process, no memory stays, and no noise.

Not covered: the steps of the shared memory's own protocol (tests/shm/test_crash).
"""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
import waiting
from mp_scripts import users_of

# Each way to end a program is tried with all of them, but not in all its variants.
METHODS = ["fork", "spawn", "forkserver"]

#: Prints its session, its own process id and its workers'; then goes on for ever.
_PROGRAM = """
import os, sys, time
import loader_datasets as sets
import waiting
from shmtensor.utils.data import DataLoader
from shmtensor.utils.data._utils.worker_loop import ENDS_WITH_PARENT

method, function, *more = sys.argv[1:]
dataset = sets.Calls(getattr(sets, function), 10**9)
loader = DataLoader(
    dataset,
    batch_size=4,
    num_workers=2,
    multiprocessing_context=method,
    in_order=False,
    persistent_workers="persistent" in more,
)
iterator = iter(loader)
# Both have begun, and one may hang.
while (iterator._group._control[1:] < ENDS_WITH_PARENT).any():
    time.sleep(0.01)
next(iterator)
pids = [worker.pid for worker in iterator._workers]
print(os.environ["SHMTENSOR_MANAGER"], os.getpid(), *pids, flush=True)
if "leave" in more:
    sys.exit(0)
if "raise" in more:
    raise LookupError("the program failed")
if "sleep" in more:
    waiting.sleep_until_a_signal()
for batch in iterator:
    pass
"""


def _start(scripts: Any, *arguments: str) -> tuple[Any, str, int, list[int]]:
    script = scripts(_PROGRAM, *arguments)
    session, parent, *workers = script.line().split()
    return script, session, int(parent), [int(pid) for pid in workers]


def _all_gone(session: str, pids: list[int]) -> None:
    waiting.until(lambda: not any(waiting.runs(pid) for pid in pids))
    waiting.until(lambda: not users_of(session))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("function", ["image", "hang_in_the_first_batch"])
def test_a_killed_program_leaves_no_worker(scripts: Any, method: str, function: str) -> None:
    _, session, parent, workers = _start(scripts, method, function)
    os.kill(parent, signal.SIGKILL)
    _all_gone(session, [parent, *workers])


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_program_leaves_no_worker_that_is_stopped(scripts: Any, method: str) -> None:
    _, session, parent, workers = _start(scripts, method, "image")
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    os.kill(parent, signal.SIGKILL)
    _all_gone(session, [parent, *workers])


@pytest.mark.check
def test_a_killed_program_leaves_no_worker_that_waits_for_work(scripts: Any) -> None:
    _, session, parent, workers = _start(scripts, "fork", "image", "sleep")
    os.kill(parent, signal.SIGKILL)
    _all_gone(session, [parent, *workers])


def test_all_killed_at_once(scripts: Any) -> None:
    script, session, parent, workers = _start(scripts, "spawn", "image")
    os.killpg(script.process.pid, signal.SIGKILL)
    _all_gone(session, [parent, *workers])


@pytest.mark.parametrize(
    ("method", "doing"), [*((method, "iterate") for method in METHODS), ("fork", "sleep")]
)
@pytest.mark.parametrize("function", ["image", "hang_in_the_first_batch"])
def test_an_interrupt_ends_everything(scripts: Any, method: str, function: str, doing: str) -> None:
    script, session, parent, workers = _start(scripts, method, function, doing)
    os.killpg(script.process.pid, signal.SIGINT)  # as a terminal does
    _, errors = script.process.communicate(timeout=100)
    assert script.process.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1, errors
    assert errors.rstrip().endswith("KeyboardInterrupt")
    _all_gone(session, [parent, *workers])


def test_an_interrupt_of_the_parent_alone_ends_everything(scripts: Any) -> None:
    script, session, parent, workers = _start(scripts, "fork", "image")
    os.kill(parent, signal.SIGINT)
    _, errors = script.process.communicate(timeout=100)
    assert errors.count("Traceback") == 1, errors
    _all_gone(session, [parent, *workers])


def test_sigterm_ends_everything(scripts: Any) -> None:
    _, session, parent, workers = _start(scripts, "fork", "hang_in_the_first_batch")
    os.kill(parent, signal.SIGTERM)
    _all_gone(session, [parent, *workers])


@pytest.mark.parametrize(
    ("method", "more"), [*((method, ()) for method in METHODS), ("fork", ("persistent",))]
)
def test_a_program_may_end_in_the_midst(scripts: Any, method: str, more: Any) -> None:
    script, session, parent, workers = _start(scripts, method, "image", "leave", *more)
    _, errors = script.process.communicate(timeout=100)
    assert (script.process.returncode, errors) == (0, "")
    _all_gone(session, [parent, *workers])


@pytest.mark.check
def test_a_program_that_fails_in_the_midst_shows_its_own_error(scripts: Any) -> None:
    script, session, parent, workers = _start(scripts, "fork", "image", "raise")
    _, errors = script.process.communicate(timeout=100)
    assert script.process.returncode == 1
    assert errors.rstrip().endswith("LookupError: the program failed")
    assert errors.count("Traceback") == 1, errors
    _all_gone(session, [parent, *workers])


def test_a_program_with_stopped_workers_ends(scripts: Any) -> None:
    script = scripts(
        """
import os, signal, sys
import loader_datasets as sets
from shmtensor.utils.data import DataLoader

iterator = iter(DataLoader(sets.Calls(sets.image, 10**9), num_workers=2))
next(iterator)
for worker in iterator._workers:
    os.kill(worker.pid, signal.SIGSTOP)
print(os.environ["SHMTENSOR_MANAGER"], flush=True)
"""
    )
    session = script.line()
    _, errors = script.process.communicate(timeout=100)
    assert (script.process.returncode, errors) == (0, "")
    _all_gone(session, [])


def test_the_manager_may_be_killed(scripts: Any) -> None:
    script = scripts(
        """
import os, signal, sys
import loader_datasets as sets
from shmtensor._boundary import sharing
from shmtensor.utils.data import DataLoader

loader = DataLoader(sets.Calls(sets.image, 200), batch_size=4, num_workers=2)
numbers = []
for i, batch in enumerate(loader):
    if i % 10 == 3:
        os.kill(sharing.status()["manager_pid"], signal.SIGKILL)
    numbers += batch[:, 0, 0, 0].int().tolist()
assert numbers == list(range(200)), numbers
print(os.environ["SHMTENSOR_MANAGER"], flush=True)
"""
    )
    session = script.line()
    script.finish()
    _all_gone(session, [])
