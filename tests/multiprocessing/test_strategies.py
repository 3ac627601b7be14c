"""Sharing strategies, and storages by name and by descriptor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import mp_children
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.errors import HandleError


@pytest.fixture
def _restored() -> Iterator[None]:
    before = mp.get_sharing_strategy()
    yield
    mp.set_sharing_strategy(before)


@pytest.fixture(params=["file_system", "file_descriptor"])
def _strategy(request: pytest.FixtureRequest, _restored: None) -> None:
    mp.set_sharing_strategy(request.param)


@pytest.mark.check
def test_names_of_strategies() -> None:
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    assert mp.get_sharing_strategy() == "file_system"


def test_unknown_strategy_is_an_assertion_error() -> None:
    with pytest.raises(AssertionError, match="invalid sharing strategy 'x', expected one of"):
        mp.set_sharing_strategy("x")


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_have_the_parents_strategy(method: str) -> None:
    mp.set_sharing_strategy("file_descriptor")
    context = mp.get_context(method)
    queue = context.SimpleQueue()
    child = context.Process(target=mp_children.report_strategy, args=(queue,))
    child.start()
    assert queue.get() == "file_descriptor"
    child.join()
    queue.close()


@pytest.mark.usefixtures("_strategy")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_both_strategies_share_memory(method: str) -> None:
    context = mp.get_context(method)
    there, back = context.SimpleQueue(), context.SimpleQueue()
    child = context.Process(target=mp_children.add_one, args=(there, back))
    child.start()
    tensor = st.zeros(5000)
    there.put(tensor)
    assert back.get() == "done"
    assert tensor.sum() == 5000
    child.join()
    there.close()
    back.close()


@pytest.mark.usefixtures("_restored")
def test_storage_keeps_its_identity_when_the_strategy_changes() -> None:
    tensor = st.ones(10).share_memory_()
    address = tensor.data_ptr()
    mp.set_sharing_strategy("file_descriptor")
    tensor.share_memory_()
    assert tensor.data_ptr() == address
    fd, size = tensor.untyped_storage()._share_fd_()
    again = st.UntypedStorage._new_shared_fd(fd, size)
    os.close(fd)
    assert again is tensor.untyped_storage()


@pytest.mark.usefixtures("_strategy")
def test_name_opens_the_same_storage() -> None:
    tensor = st.arange(100).share_memory_()
    name = tensor.untyped_storage()._share_filename_()
    manager, handle, size = name
    assert manager.startswith(b"@shmtensor-")
    assert handle.startswith(b"/shmtensor_%d_" % os.getpid())
    assert size == 800
    assert st.UntypedStorage._new_shared_filename(*name) is tensor.untyped_storage()


_ATTACH = """
import ast, sys
import shmtensor as st
manager, handle, size = ast.literal_eval(sys.argv[1])
storage = st.UntypedStorage._new_shared_filename(manager, handle, size)
tensor = st.empty(0).set_(storage)
print(tensor.tolist())
tensor[1] = 99
"""


@pytest.mark.usefixtures("_strategy")
def test_unrelated_process_attaches_by_name(scripts: Any) -> None:
    tensor = st.tensor([1.0, 2.0, 3.0]).share_memory_()
    name = tensor.untyped_storage()._share_filename_()
    assert scripts(_ATTACH, repr(name)).finish() == "[1.0, 2.0, 3.0]\n"
    assert tensor.tolist() == [1.0, 99.0, 3.0]


def test_descriptor_opens_the_same_storage_elsewhere() -> None:
    storage = st.zeros(1000).untyped_storage()
    fd, size = storage._share_fd_()
    assert size == 4000
    assert storage.is_shared()
    assert st.UntypedStorage._new_shared_fd(fd, size) is storage
    with pytest.raises(PermissionError):
        os.ftruncate(fd, 0)
    os.close(fd)


def test_foreign_descriptor_is_refused() -> None:
    with open("/proc/self/status") as file, pytest.raises(HandleError, match="sealed memory file"):
        st.UntypedStorage._new_shared_fd(file.fileno(), 10)


@pytest.mark.check
def test_forged_names_are_refused() -> None:
    storage = st.zeros(10).untyped_storage()
    manager, handle, size = storage._share_filename_()
    for bad in (handle[:-1], handle + b"0", b"/etc/passwd", b"", handle[:-4] + b"0000"):
        with pytest.raises(HandleError):
            st.UntypedStorage._new_shared_filename(manager, bad, size)
    with pytest.raises(HandleError, match="forged or damaged"):
        st.UntypedStorage._new_shared_filename(manager, handle, size + 1)
    with pytest.raises(HandleError, match="names no manager"):
        st.UntypedStorage._new_shared_filename(b"/tmp/socket", handle, size)


def test_shared_incref_keeps_the_block_for_a_later_opener() -> None:
    storage = st.full((10,), 7.0).untyped_storage()
    name = storage._share_filename_()
    storage._shared_incref()
    del storage
    again = st.UntypedStorage._new_shared_filename(*name)
    again._shared_decref()
    assert st.empty(0).set_(again).tolist() == [7.0] * 10


def test_new_shared_is_zero_also_when_memory_is_reused() -> None:
    for _ in range(3):
        storage = st.UntypedStorage._new_shared(256)
        assert storage.is_shared()
        assert storage.tolist() == [0] * 256
        storage.fill_(255)


def test_too_much_memory_is_a_memory_error_with_the_bytes() -> None:
    with pytest.raises(MemoryError, match=str(1 << 60)):
        st.UntypedStorage._new_shared(1 << 60)


# --- descriptors of storages ------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["file_system", "file_descriptor"])
def test_share_fd_returns_one_descriptor_however_often_it_is_called(strategy: str) -> None:
    make = {
        "file_system": st.UntypedStorage._new_using_filename_cpu,
        "file_descriptor": st.UntypedStorage._new_using_fd_cpu,
    }[strategy]
    storage = make(100)
    fd, size = storage._share_fd_()
    before = len(os.listdir("/proc/self/fd"))
    assert {storage._share_fd_() for _ in range(50)} == {(fd, size)} == {(fd, 100)}
    assert len(os.listdir("/proc/self/fd")) == before


def test_descriptor_stays_while_storage_or_number_lives() -> None:
    fd, size = st.UntypedStorage._new_using_fd_cpu(100)._share_fd_()
    number = int(fd)
    assert os.fstat(number).st_size >= size
    assert st.UntypedStorage._new_shared_fd(fd, size).tolist() == [0] * 100
    del fd
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)


def test_descriptor_that_the_program_closed_is_opened_anew_and_never_closed_twice() -> None:
    storage = st.UntypedStorage._new_using_fd_cpu(100)
    first, size = storage._share_fd_()
    number = int(first)
    with open(os.devnull) as other:
        os.close(number)
        os.dup2(other.fileno(), number)  # something else under the number
        again, _ = storage._share_fd_()
        assert again != number
        assert st.UntypedStorage._new_shared_fd(again, size) is storage
        os.close(again)
        del first, again, storage
        assert os.path.sameopenfile(number, other.fileno())
    os.close(number)


@pytest.mark.parametrize("strategy", ["file_system", "file_descriptor"])
@pytest.mark.parametrize("wrong", [101, 4097, 1 << 40, 99, 1])
def test_descriptor_with_another_size_is_refused(strategy: str, wrong: int) -> None:
    make = {
        "file_system": st.UntypedStorage._new_using_filename_cpu,
        "file_descriptor": st.UntypedStorage._new_using_fd_cpu,
    }[strategy]
    storage = make(100)
    fd, _ = storage._share_fd_()
    with pytest.raises(HandleError, match=f"{wrong}"):
        st.UntypedStorage._new_shared_fd(fd, wrong)


@pytest.mark.parametrize("number", [-1, 1 << 20, 1 << 31, 1 << 70])
def test_number_that_is_no_descriptor_is_refused(number: int) -> None:
    with pytest.raises(HandleError, match=f"{number}"):
        st.UntypedStorage._new_shared_fd(number, 100)


@pytest.mark.parametrize("name", ["_new_using_fd_cpu", "_new_using_filename_cpu"])
def test_new_storages_by_strategy(name: str) -> None:
    make = getattr(st.UntypedStorage, name)
    storage = make(40)
    assert storage.is_shared()
    assert storage.tolist() == [0] * 40
    own_file = "memfd:shmtensor-storage" in os.readlink(f"/proc/self/fd/{storage._share_fd_()[0]}")
    assert own_file is (name == "_new_using_fd_cpu")
    assert len(make(0)) == 0
    with pytest.raises(RuntimeError, match="got -1"):
        make(-1)
    with pytest.raises(MemoryError):
        make(1 << 60)
