"""The package in place of the standard one: names, submodules, start methods, settings of children.

Not covered: what CPython's own tests look at (``make cpython-suite``).
"""

from __future__ import annotations

import importlib
import multiprocessing as standard
import os
import pickle
import pkgutil
import sys
import unittest.mock
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mp_children
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing import _atfork, spawn

METHODS = ("fork", "spawn", "forkserver")
SAME = (
    "connection dummy.connection forkserver heap managers popen_fork popen_forkserver "
    "popen_spawn_posix process reduction resource_sharer resource_tracker shared_memory "
    "sharedctypes synchronize util"
).split()
OVERLAYS = ("context", "dummy", "pool", "spawn")


@pytest.fixture
def _start_method_restored() -> Iterator[None]:
    before = mp.get_start_method(allow_none=True)
    yield
    mp.set_start_method(before, force=True)


# --- names ------------------------------------------------------------------------------------


@pytest.mark.check
def test_all_is_the_standard_one_and_the_strategies() -> None:
    strategies = {"get_sharing_strategy", "set_sharing_strategy", "get_all_sharing_strategies"}
    assert set(mp.__all__) == {*standard.__all__, *strategies}
    assert all(hasattr(mp, name) for name in mp.__all__)


def test_every_module_says_what_an_import_of_all_takes() -> None:
    names = {name for _, name, _ in pkgutil.iter_modules(mp.__path__)}
    for name in {*names, *SAME}:
        module = importlib.import_module(f"shmtensor.multiprocessing.{name}")
        assert [a for a in module.__all__ if not hasattr(module, a)] == [], name


@pytest.mark.parametrize(
    "name", ["Process", "Pipe", "current_process", "active_children", "ProcessError", "reducer"]
)
def test_what_needs_no_change_behaves_as_the_standard_object(name: str) -> None:
    ours, theirs = getattr(mp, name), getattr(standard, name)
    assert getattr(ours, "__func__", ours) is getattr(theirs, "__func__", theirs)


def test_names_of_torch_exist() -> None:
    for name in (
        "ENV_VAR_PARALLEL_START ProcessContext ProcessException ProcessExitedException "
        "ProcessRaisedException SpawnContext spawn start_processes SUBDEBUG SUBWARNING "
        "_get_thread_name _prctl_pr_set_pdeathsig _set_thread_name"
    ).split():
        assert hasattr(mp, name), name
    assert not hasattr(mp, "no_such_name")


@pytest.mark.parametrize("name", SAME)
def test_submodule_is_the_standard_module(name: str) -> None:
    ours = importlib.import_module(f"shmtensor.multiprocessing.{name}")
    assert ours is importlib.import_module(f"multiprocessing.{name}")
    assert ours.__name__ == f"multiprocessing.{name}"


@pytest.mark.parametrize("name", OVERLAYS)
def test_overlay_has_all_names_of_the_standard_module(name: str) -> None:
    ours = importlib.import_module(f"shmtensor.multiprocessing.{name}")
    theirs = importlib.import_module(f"multiprocessing.{name}")
    # Names such as __warningregistry__ come and go.
    public = [n for n in dir(theirs) if not n.startswith("__")]
    assert [n for n in public if not hasattr(ours, n)] == []
    assert hasattr(ours, "__all__")


def test_every_standard_submodule_is_here_with_a_file_or_a_stub() -> None:
    here, there = (Path(m.__file__).parent for m in (mp, standard))
    names = {p.relative_to(there).with_suffix("") for p in there.rglob("*.py")}
    own, stubs = (
        {p.relative_to(here).with_suffix("") for p in here.rglob(pattern)}
        for pattern in ("*.py", "*.pyi")
    )
    assert names <= own | stubs
    assert stubs == names - own
    assert {str(p).replace("/", ".") for p in stubs} == {*SAME, "popen_spawn_win32"}


def test_submodule_that_the_standard_package_has_not_is_named_as_it_was_asked_for() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"'shmtensor\.multiprocessing\.no_such'"):
        importlib.import_module("shmtensor.multiprocessing.no_such")


_AS_IMPORTED = """
import shmtensor.multiprocessing.dummy.connection as dummy
import shmtensor.multiprocessing.connection, shmtensor.multiprocessing as mp
from shmtensor.multiprocessing import synchronize
from shmtensor.multiprocessing.managers import BaseManager
import importlib.util, multiprocessing, pickle
assert dummy is multiprocessing.dummy.connection
assert mp.connection is multiprocessing.connection
assert mp.heap.__spec__.name == "multiprocessing.heap"
assert importlib.reload(mp.heap) is multiprocessing.heap
assert importlib.util.find_spec("shmtensor.multiprocessing.sharedctypes") is not None
print(BaseManager.__module__, pickle.loads(pickle.dumps(synchronize.Lock)).__module__)
"""


def test_submodules_are_imported_in_every_way(scripts: Any) -> None:
    output = scripts(_AS_IMPORTED).finish()
    assert output == "multiprocessing.managers multiprocessing.synchronize\n"


def test_setting_a_name_of_an_overlay_sets_the_standard_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spawn, "WINEXE", "patched")
    assert standard.spawn.WINEXE == "patched"  # type: ignore[attr-defined]
    monkeypatch.undo()
    assert not standard.spawn.WINEXE  # type: ignore[attr-defined]
    with unittest.mock.patch("shmtensor.multiprocessing.spawn.WINEXE", "mocked"):
        assert standard.spawn.WINEXE == "mocked"  # type: ignore[attr-defined]
    assert not standard.spawn.WINEXE  # type: ignore[attr-defined]
    before = spawn.get_executable()
    try:
        spawn.set_executable("/no/such/python")
        assert os.fsdecode(standard.spawn.get_executable()) == "/no/such/python"
    finally:
        spawn.set_executable(before)


# --- contexts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_context_is_a_standard_one_with_our_pool(method: str) -> None:
    context = mp.get_context(method)
    assert isinstance(context, type(standard.get_context(method)))
    assert context.get_context() is context
    assert context.get_start_method() == method
    assert context.Process is standard.get_context(method).Process
    assert context.Pool.__func__ is mp.context.BaseContext.Pool
    assert type(pickle.loads(pickle.dumps(context))) is type(context)
    with pytest.raises(ValueError, match="cannot find context for 'thread'"):
        context.get_context("thread")


@pytest.mark.usefixtures("_start_method_restored")
@pytest.mark.parametrize("method", METHODS)
def test_start_method_is_one_for_both_packages(method: str) -> None:
    mp.set_start_method(method, force=True)
    assert standard.get_start_method() == mp.get_start_method() == method
    assert mp.get_context() is mp.get_context(method)
    standard.set_start_method("fork", force=True)
    assert mp.get_start_method() == "fork"
    with pytest.raises(RuntimeError, match="context has already been set"):
        mp.set_start_method("spawn")


# --- children ---------------------------------------------------------------------------------


@pytest.fixture
def _settings_restored() -> Iterator[None]:
    strategy = mp.get_sharing_strategy()
    yield
    mp.set_sharing_strategy(strategy)
    mp.share_numpy(False)


@pytest.mark.usefixtures("_settings_restored")
@pytest.mark.parametrize("package", [mp, standard], ids=["ours", "standard"])
@pytest.mark.parametrize("method", METHODS)
def test_children_inherit_settings_at_their_start(method: str, package: Any) -> None:
    context = package.get_context(method)
    queue = context.SimpleQueue()
    reports = []
    # Twice, so that the fork server is one that was running before the change.
    for strategy, shares in (("file_system", False), ("file_descriptor", True)):
        mp.set_sharing_strategy(strategy)
        mp.share_numpy(shares)
        child = context.Process(target=mp_children.report_settings, args=(queue,))
        child.start()
        reports.append(queue.get())
        child.join()
    queue.close()
    session = os.environ["SHMTENSOR_MANAGER"]
    assert reports == [("file_system", False, session), ("file_descriptor", True, session)]


_SERVER_STARTED_BEFORE = """
import multiprocessing, sys
import mp_children_plain
if __name__ == "__main__":
    context = multiprocessing.get_context("forkserver")
    first = context.Process(target=mp_children_plain.nothing)
    first.start()
    first.join()
    assert "shmtensor" not in sys.modules
    import shmtensor as st
    tensor = st.zeros(4)
    child = context.Process(target=mp_children_plain.add_one, args=(tensor,))
    child.start()
    child.join()
    print(child.exitcode, tensor.tolist())
"""


def test_fork_server_that_ran_before_the_import_serves_tensors(scripts: Any) -> None:
    assert scripts(_SERVER_STARTED_BEFORE).finish() == "0 [1.0, 1.0, 1.0, 1.0]\n"


@pytest.mark.check
def test_many_tensors_in_arguments_of_a_fork_server_child() -> None:
    tensors = [st.full((2,), float(i)) for i in range(300)]
    total = st.zeros(1).share_memory_()
    child = mp.get_context("forkserver").Process(target=mp_children.add_all, args=(tensors, total))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert total.item() == 300 * 299


@pytest.mark.parametrize("kind", ["Queue", "JoinableQueue", "SimpleQueue"])
def test_queue_of_the_fork_context_is_not_for_spawned_processes(kind: str) -> None:
    queue = getattr(mp.get_context("fork"), kind)()
    child = mp.get_context("spawn").Process(target=mp_children.report_strategy, args=(queue,))
    with pytest.raises(RuntimeError, match="A SemLock created in a fork context"):
        child.start()
    queue.close()


def test_queue_of_the_spawn_context_is_for_all_processes() -> None:
    queue = mp.get_context("spawn").Queue()
    for method in METHODS:
        child = mp.get_context(method).Process(target=mp_children.report_strategy, args=(queue,))
        child.start()
        assert queue.get(timeout=60) == mp.get_sharing_strategy()
        child.join()
    queue.close()


# --- small things of torch --------------------------------------------------------------------


def test_thread_name_is_cut_to_what_the_kernel_keeps() -> None:
    before = mp._get_thread_name()
    try:
        mp._set_thread_name("a name of twenty-two b")
        assert mp._get_thread_name() == "a name of twent"
        mp._set_thread_name("é" * 8)  # 16 bytes, of which 15 are kept
        assert mp._get_thread_name() == "é" * 7
        with pytest.raises(ValueError, match="zero byte"):
            mp._set_thread_name("a\0b")
    finally:
        mp._set_thread_name(before)


def test_parent_death_signal_that_does_not_exist_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match="prctl: Invalid argument"):
        mp._prctl_pr_set_pdeathsig(9999)


_AFTER_FORK = """
import os
from shmtensor.multiprocessing._atfork import register_after_fork
read, write = os.pipe()
register_after_fork(lambda: os.write(write, b"child"))
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
print(os.read(read, 100))
"""


def test_registered_function_runs_in_forked_children_only(scripts: Any) -> None:
    assert _atfork.__all__ == ["register_after_fork"]
    assert scripts(_AFTER_FORK).finish() == "b'child'\n"


def test_connection_wrapper_sends_tensors_and_passes_names_on() -> None:
    from shmtensor.multiprocessing.queue import ConnectionWrapper

    left, right = mp.Pipe()
    with left, right:
        tensor = st.ones(3)
        ConnectionWrapper(left).send([tensor])
        (received,) = ConnectionWrapper(right).recv()
        assert received.data_ptr() == tensor.data_ptr()
        assert ConnectionWrapper(left).fileno() == left.fileno()
        with pytest.raises(AttributeError):
            _ = ConnectionWrapper(left).no_such_name
    assert sys.modules["shmtensor.multiprocessing.queue"]
