"""Processes that never read their arguments keep no memory: killed early, not started, refused.

Not covered: messages (test_abandoned_messages), processes that read them (test_package).
"""

from __future__ import annotations

from typing import Any

import pytest

_PREPARE = """
import gc, multiprocessing, os, signal, sys, time
import mp_children
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import inspect
from waiting import let_the_manager_look, until

anchor = st.ones(16, shared=True)  # the session lives on by it
context = mp.get_context(sys.argv[1])

def snapshot():
    gc.collect()
    (session,) = inspect.open_sessions(os.environ["SHMTENSOR_MANAGER"])
    with session:
        return session.snapshot()

def all_gone():
    until(lambda: (snapshot().n_used, snapshot().n_leases) == (1, 0), snapshot)

def arguments():
    return context.Queue(), [st.ones(100_000, shared=True)], st.ones(100_000)
"""

METHODS = ["spawn", "forkserver"]


def _run(scripts: Any, method: str, text: str) -> None:
    scripts(_PREPARE + text, method).finish()


@pytest.mark.parametrize("method", METHODS)
def test_killed_before_it_reads_them(scripts: Any, method: str) -> None:
    _run(
        scripts,
        method,
        """
for _ in range(6):
    child = context.Process(target=mp_children.echo, args=arguments())
    child.start()
    os.kill(child.pid, signal.SIGKILL)
    child.join()
del child
all_gone()
""",
    )


@pytest.mark.parametrize("method", METHODS)
def test_stopped_before_it_reads_them_and_killed_later(scripts: Any, method: str) -> None:
    _run(
        scripts,
        method,
        """
child = context.Process(target=mp_children.echo, args=arguments())
child.start()
os.kill(child.pid, signal.SIGSTOP)
let_the_manager_look(4)
assert snapshot().n_used >= 4, snapshot()  # it may go on and read them
child.kill()
child.join()
all_gone()
""",
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["local function", "unreadable object"])
def test_refused_by_the_pickler(scripts: Any, method: str, kind: str) -> None:
    behind = "lambda: 0" if kind == "local function" else "open('/dev/null')"
    _run(
        scripts,
        method,
        f"""
child = context.Process(target=mp_children.echo, args=(*arguments(), {behind}))
try:
    child.start()
except Exception as error:
    assert "pickle" in str(error), error
else:
    raise AssertionError("it was started")
del child
all_gone()
""",
    )


@pytest.mark.check
def test_the_program_of_the_interpreter_is_missing(scripts: Any) -> None:
    _run(
        scripts,
        "spawn",
        """
mp.set_executable("/nonexistent/python")
child = context.Process(target=mp_children.echo, args=arguments())
try:
    child.start()
except OSError:
    pass  # it ended before it was given anything
else:
    child.join()
    assert child.exitcode != 0
del child
all_gone()
""",
    )


@pytest.mark.parametrize("method", METHODS)
def test_processes_that_read_them_use_them(scripts: Any, method: str) -> None:
    _run(
        scripts,
        method,
        """
for _ in range(2):
    tensor = st.zeros(1000, shared=True)
    child = context.Process(target=mp_children.add_to_argument, args=(tensor,))
    child.start()
    child.join()
    assert tensor.sum().item() == 1000
del child, tensor
all_gone()
""",
    )
