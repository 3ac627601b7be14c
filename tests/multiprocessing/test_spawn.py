"""`spawn`, `start_processes` and what their contexts say of processes that fail."""

from __future__ import annotations

import inspect
import math
import os
import pickle
import signal
from pathlib import Path
from typing import Any

import alarms
import mp_spawn_targets as targets
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp

METHODS = ("fork", "spawn", "forkserver")
WAIT_S = 60  # against hangs; nothing here takes long


def _joined(context: Any, grace_period: float | None = None) -> None:
    while not context.join(timeout=WAIT_S, grace_period=grace_period):
        pass


@pytest.mark.check
def test_each_process_gets_its_index_and_the_arguments() -> None:
    shared = st.zeros(3).share_memory_()
    assert mp.spawn(targets.write_index, args=(shared, 10.0), nprocs=3) is None
    assert shared.tolist() == [10.0, 11.0, 12.0]


@pytest.mark.parametrize("method", METHODS)
def test_start_processes_takes_every_start_method(method: str) -> None:
    shared = st.zeros(2).share_memory_()
    context = mp.start_processes(
        targets.write_index, (shared, 1.0), nprocs=2, join=False, start_method=method
    )
    assert context is not None
    assert context.pids() == [p.pid for p in context.processes]
    assert len(context.sentinels) == len(context.error_files) == 2
    _joined(context)
    assert context.join()
    assert shared.tolist() == [1.0, 2.0]


def test_parallel_start_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mp.ENV_VAR_PARALLEL_START, "1")
    shared = st.zeros(3).share_memory_()
    mp.start_processes(targets.write_index, (shared, 0.0), nprocs=3, start_method="forkserver")
    assert shared.tolist() == [0.0, 1.0, 2.0]


def test_no_processes_are_joined_at_once() -> None:
    assert mp.spawn(targets.write_index, nprocs=0) is None


def test_module_is_the_function_too() -> None:
    assert callable(mp.spawn)
    assert list(inspect.signature(mp.spawn).parameters) == list(
        inspect.signature(mp.spawn.spawn).parameters
    )


def test_spawn_with_another_method_warns_and_spawns() -> None:
    with pytest.warns(FutureWarning, match=r"only supports start_method=spawn \(got: fork\)"):
        mp.spawn(targets.check_is_spawned, nprocs=1, start_method="fork")


def test_former_name_of_the_context_warns() -> None:
    with pytest.warns(UserWarning, match="SpawnContext is renamed to ProcessContext"):
        assert mp.SpawnContext([], []).join()


# --- failures ---------------------------------------------------------------------------------


def _failure(target: Any, *args: Any, method: str = "fork", n: int = 1) -> Any:
    context = mp.start_processes(target, args, nprocs=n, join=False, start_method=method)
    with pytest.raises(mp.ProcessException) as caught:
        _joined(context)
    assert not any(p.is_alive() for p in context.processes)
    assert not any(Path(f).exists() for f in context.error_files)
    assert caught.value.error_pid == context.pids()[caught.value.error_index]
    return caught.value


@pytest.mark.parametrize("method", METHODS)
def test_exception_comes_with_the_childs_traceback(method: str) -> None:
    error = _failure(targets.raise_if, 1, method=method, n=2)
    assert type(error) is mp.ProcessRaisedException
    assert error.error_index == 1
    assert str(error).startswith("\n\n-- Process 1 terminated with the following error:\nTraceback")
    assert "ValueError: legitimate exception from process 1" in str(error)


@pytest.mark.parametrize("method", METHODS)
def test_signal_is_named(method: str) -> None:
    error = _failure(targets.kill_self, signal.SIGKILL, method=method)
    assert type(error) is mp.ProcessExitedException
    assert str(error) == "process 0 terminated with signal SIGKILL"
    assert (error.exit_code, error.signal_name) == (-signal.SIGKILL, "SIGKILL")


def test_exit_code_is_named() -> None:
    error = _failure(targets.exit_with, 12)
    assert str(error) == "process 0 terminated with exit code 12"
    assert (error.exit_code, error.signal_name) == (12, None)


def test_exit_with_success_is_no_failure() -> None:
    mp.start_processes(targets.exit_with, (0,), nprocs=2, start_method="fork")


def test_real_time_signal_has_a_name_too() -> None:
    error = _failure(targets.kill_self, signal.SIGRTMIN + 3)
    assert str(error).startswith("process 0 terminated with signal ")


def test_others_are_terminated(caplog: pytest.LogCaptureFixture) -> None:
    error = _failure(targets.raise_or_sleep, 0, n=3)
    assert error.error_index == 0
    assert caplog.text.count("via signal SIGTERM") == 2


@pytest.mark.parametrize("grace_period", [1e10, float("inf")])
def test_grace_period_may_be_endless(grace_period: float, caplog: pytest.LogCaptureFixture) -> None:
    context: Any = mp.start_processes(
        targets.raise_or_end_later, (0,), nprocs=2, join=False, start_method="fork"
    )
    with pytest.raises(mp.ProcessRaisedException, match="from process 0"):
        _joined(context, grace_period)
    assert [process.exitcode for process in context.processes] == [1, 0]
    assert not caplog.text


@pytest.mark.check
def test_interrupted_join_keeps_the_failure() -> None:
    context: Any = mp.start_processes(
        targets.raise_or_sleep, (1,), nprocs=2, join=False, start_method="fork"
    )
    with alarms.comes(0.5, RuntimeError("of the program")), pytest.raises(RuntimeError):
        _joined(context, WAIT_S)
    with pytest.raises(mp.ProcessRaisedException, match="from process 1"):
        _joined(context)


def test_negative_number_of_processes() -> None:
    with pytest.raises(ValueError, match="nprocs must not be negative, got -1"):
        mp.spawn(targets.write_index, nprocs=-1)


def test_grace_period_lets_others_end_by_themselves(caplog: pytest.LogCaptureFixture) -> None:
    flag = st.zeros(1).share_memory_()
    context = mp.start_processes(
        targets.raise_or_finish_slowly, (flag,), nprocs=2, join=False, start_method="fork"
    )
    assert context is not None
    with pytest.raises(mp.ProcessRaisedException):
        _joined(context, grace_period=WAIT_S)
    assert flag.item() == 1
    assert "SIGTERM" not in caplog.text


@pytest.mark.check
def test_child_that_ignores_sigterm_is_killed(caplog: pytest.LogCaptureFixture) -> None:
    ready = st.zeros(1).share_memory_()
    context = mp.start_processes(
        targets.raise_or_ignore, (ready,), nprocs=2, join=False, start_method="fork"
    )
    assert context is not None
    with pytest.raises(mp.ProcessRaisedException):
        _joined(context, grace_period=0.2)
    assert context.processes[1].exitcode == -signal.SIGKILL
    assert "forcefully exiting via SIGKILL" in caplog.text


def test_join_with_timeout_says_that_some_are_running() -> None:
    context = mp.start_processes(
        targets.raise_or_sleep, (-1,), nprocs=1, join=False, start_method="fork"
    )
    assert context is not None
    try:
        assert context.join(timeout=0.01) is False
    finally:
        context.processes[0].kill()
        with pytest.raises(mp.ProcessExitedException):
            _joined(context)


@pytest.mark.parametrize("method", METHODS)
def test_an_interrupt_of_a_child_alone_is_a_failure(method: str) -> None:
    error = _failure(targets.interrupt_self, method=method)
    assert type(error) is mp.ProcessExitedException
    assert str(error) == "process 0 terminated with signal SIGINT"
    assert (error.exit_code, error.signal_name) == (-signal.SIGINT, "SIGINT")


def test_an_interrupt_that_the_function_handles_is_no_failure() -> None:
    mp.start_processes(targets.handle_interrupt, nprocs=1, start_method="fork")


def test_an_interrupted_child_runs_its_exit_handlers(tmp_path: Path) -> None:
    path = tmp_path / "left"
    _failure(targets.interrupt_self_after_registering, str(path))
    assert path.read_text() == "done"


def test_no_file_is_made_for_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    context = mp.start_processes(targets.raise_if, (0,), nprocs=1, join=False, start_method="fork")
    assert context is not None
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(mp.ProcessRaisedException):
        _joined(context)
    assert list(tmp_path.iterdir()) == []


_SIGCHLD_IGNORED = """
import signal, sys
import mp_spawn_targets as targets
import shmtensor.multiprocessing as mp

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
method, kind = sys.argv[1:]
target, args = {
    "done": (targets.exit_with, (0,)),
    "raises": (targets.raise_if, (0,)),
    "killed": (targets.kill_self, (9,)),
    "exits": (targets.exit_with, (3,)),
}[kind]
try:
    mp.start_processes(target, args, nprocs=1, start_method=method)
    print("well")
except mp.ProcessException as error:
    print(type(error).__name__, getattr(error, "exit_code", ""), str(error).splitlines()[-1])
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("done", "well"),
        ("raises", "ProcessRaisedException"),
        ("killed", "ProcessExitedException None process 0 ended with an unknown status"),
        ("exits", "ProcessExitedException None process 0 ended with an unknown status"),
    ],
)
def test_a_status_that_nobody_knows(scripts: Any, method: str, kind: str, found: str) -> None:
    assert scripts(_SIGCHLD_IGNORED, method, kind).finish().startswith(found)


@pytest.mark.parametrize("timeout", [1e10, math.inf])
def test_join_with_a_long_timeout(timeout: float) -> None:
    context = mp.start_processes(
        targets.raise_or_sleep, (0,), nprocs=1, join=False, start_method="fork"
    )
    assert context is not None
    with pytest.raises(mp.ProcessRaisedException):
        context.join(timeout=timeout)


def test_start_that_fails_ends_those_that_have_started(monkeypatch: pytest.MonkeyPatch) -> None:
    context = mp.get_context("fork")
    started: list[Any] = []
    start = context.Process.start

    def start_twice(self: Any) -> None:
        if len(started) == 2:
            raise OSError("no more processes")
        start(self)
        started.append(self)

    monkeypatch.setattr(context.Process, "start", start_twice)
    with pytest.raises(OSError, match="no more processes"):
        mp.start_processes(targets.raise_or_sleep, (-1,), nprocs=3, start_method="fork")
    assert [p.exitcode for p in started] == [-signal.SIGTERM] * 2


@pytest.mark.parametrize(
    "error",
    [
        mp.ProcessException("text", 1, 2),
        mp.ProcessRaisedException("text", 1, 2),
        mp.ProcessExitedException("text", 1, 2, -9, "SIGKILL"),
    ],
)
def test_exceptions_can_be_pickled(error: Any) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == "text"
    for name in ("msg", "error_index", "error_pid", "exit_code", "signal_name"):
        assert getattr(again, name, None) == getattr(error, name, None)


_PARENT = """
import sys
import mp_spawn_targets as targets
import shmtensor.multiprocessing as mp
if __name__ == "__main__":
    context = mp.spawn(targets.announce_and_sleep, nprocs=1, join=False)
    context.join()
"""


def test_children_do_not_outlive_a_killed_parent(scripts: Any) -> None:
    script = scripts(_PARENT)
    pidfd = os.pidfd_open(int(script.line()))
    try:
        script.process.kill()
        script.process.wait()
        assert mp.connection.wait([pidfd], timeout=WAIT_S) == [pidfd]
    finally:
        os.close(pidfd)


def test_interrupt_of_the_terminal_ends_all(scripts: Any) -> None:
    script = scripts(_PARENT)
    child = int(script.line())
    pidfd = os.pidfd_open(child)
    try:
        for pid in (script.process.pid, child):
            os.kill(pid, signal.SIGINT)
        assert script.process.wait(WAIT_S) != 0
        assert mp.connection.wait([pidfd], timeout=WAIT_S) == [pidfd]
    finally:
        os.close(pidfd)


_ENDS_WITH_ITS_PARENT = """
import sys
import mp_spawn_targets as targets
import shmtensor.multiprocessing as mp
if __name__ == "__main__":
    mp.get_context(sys.argv[1]).Process(target=targets.end_with_parent_and_sleep).start()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_process_that_ends_with_its_parent(scripts: Any, method: str) -> None:
    script = scripts(_ENDS_WITH_ITS_PARENT, method)
    pidfd = os.pidfd_open(int(script.line()))
    try:
        script.process.kill()
        script.process.wait()
        assert mp.connection.wait([pidfd], timeout=WAIT_S) == [pidfd]
    finally:
        os.close(pidfd)
