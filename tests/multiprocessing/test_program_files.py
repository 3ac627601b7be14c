"""Tensors over files that the program has mapped, in messages: the file goes, not its path."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
from mp_scripts import Script

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.errors import HandleError


def _filled(path: Path, value: float) -> st.Tensor:
    return st.from_file(str(path), True, 4).fill_(value)


def _renamed(path: Path) -> None:
    path.rename(path.with_name("renamed"))


def _replaced(path: Path) -> None:
    path.with_name("other").write_bytes(b"\x7f" * 16)
    path.with_name("other").rename(path)


_CHANGES: list[Callable[[Path], None]] = [Path.unlink, _renamed, _replaced]


def _answer(tasks: Any, answers: Any) -> None:
    """Add one to each tensor, in a process with another directory."""
    os.chdir("/")
    while (tensor := tasks.get()) is not None:
        tensor += 1
        answers.put(tensor.tolist())


@pytest.fixture(params=["fork", "spawn"])
def peer(request: pytest.FixtureRequest) -> Any:
    context = mp.get_context(request.param)
    tasks, answers = context.SimpleQueue(), context.SimpleQueue()
    process = context.Process(target=_answer, args=(tasks, answers))
    process.start()
    yield tasks, answers
    tasks.put(None)
    process.join()
    assert process.exitcode == 0


@pytest.mark.parametrize("change", _CHANGES)
def test_message_reaches_the_file_that_was_sent_whatever_becomes_of_its_path(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "data"
    tensor = _filled(path, 2)
    queue, (reader, writer) = mp.SimpleQueue(), mp.Pipe(False)
    queue.put(tensor)
    writer.send(tensor[1:])
    pickled = bytes(ForkingPickler.dumps([tensor, {1, 2}]))  # a set needs the ordinary pickler
    del tensor
    change(path)
    whole, part, (again, _) = queue.get(), reader.recv(), pickle.loads(pickled)
    assert whole.tolist() == [2] * 4
    part += 5
    assert whole.tolist() == again.tolist() == [2, 7, 7, 7]
    assert whole.untyped_storage() is part.untyped_storage() is again.untyped_storage()
    queue.close()


@pytest.mark.parametrize("change", _CHANGES)
def test_file_that_cannot_be_found_is_refused_in_put(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "data"
    tensor = _filled(path, 2)
    change(path)
    queue = mp.get_context("fork").Queue()
    with pytest.raises(RuntimeError, match=r"the file <.*data> was mapped here"):
        queue.put(tensor)
    with pytest.raises(RuntimeError, match="was mapped here"):
        ForkingPickler.dumps(tensor)
    assert tensor.tolist() == [2] * 4
    queue.put("next")
    assert queue.get() == "next"
    queue.close()


@pytest.mark.parametrize("change", _CHANGES)
def test_second_file_of_a_name_is_not_taken_for_the_first(
    change: Callable[[Path], None], peer: Any, tmp_path: Path
) -> None:
    tasks, answers = peer
    path = tmp_path / "data"
    first = _filled(path, 1)
    tasks.put(first)
    assert answers.get() == [2] * 4
    change(path)
    path.unlink(missing_ok=True)
    second = _filled(path, 10)
    for value, tensor in ((11, second), (3, first), (12, second)):
        tasks.put(tensor)
        assert answers.get() == [value] * 4
    assert first.tolist() == [3] * 4
    assert second.tolist() == [12] * 4


@pytest.mark.check
def test_relative_path_is_found_from_another_directory(
    peer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, answers = peer
    monkeypatch.chdir(tmp_path)
    tensor = _filled(Path("data"), 1)
    monkeypatch.chdir("/")
    tasks.put(tensor)
    assert answers.get() == [2] * 4
    assert tensor.untyped_storage().filename == str(tmp_path / "data")


def test_file_that_became_too_short_is_refused_at_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "data"
    tensor = st.from_file(str(path), True, 4096)
    message = bytes(ForkingPickler.dumps(tensor))
    fresh = st.from_file(str(path), True, 4096)
    os.truncate(path, 4096)
    with pytest.raises(RuntimeError, match="with 16384 bytes and has 4096 now"):
        ForkingPickler.dumps(fresh)
    del tensor
    with pytest.raises(HandleError, match="has 4096 bytes, and had 16384 when it was sent"):
        pickle.loads(message)


_SENDER_THAT_DELETES = """
import os, shutil, sys
import shmtensor as st
import shmtensor.multiprocessing as mp

folder = sys.argv[1]

def send(queue):
    os.mkdir(folder)
    queue.put(st.from_file(os.path.join(folder, "data"), True, 4).fill_(3))
    shutil.rmtree(folder)

queue = mp.get_context("fork").SimpleQueue()
process = mp.get_context("fork").Process(target=send, args=(queue,))
process.start()
process.join()
assert queue.get().tolist() == [3] * 4
"""


def test_sender_may_exit_and_delete_its_file(tmp_path: Path, scripts: type[Script]) -> None:
    scripts(_SENDER_THAT_DELETES, str(tmp_path / "own")).finish()


_MANAGER_THAT_IS_KILLED = """
import os, signal, sys
import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor._boundary import sharing

path = os.path.join(sys.argv[1], "data")
queue = mp.SimpleQueue()
tensor = st.from_file(path, True, 4).fill_(3)
queue.put(tensor)
os.kill(sharing.status()["manager_pid"], signal.SIGKILL)
del tensor
os.unlink(path)
assert queue.get().tolist() == [3] * 4
"""


def test_file_in_a_message_survives_the_manager(tmp_path: Path, scripts: type[Script]) -> None:
    scripts(_MANAGER_THAT_IS_KILLED, str(tmp_path)).finish()


def test_files_cost_a_bounded_number_of_descriptors(tmp_path: Path) -> None:
    queue = mp.SimpleQueue()
    tensors = [st.from_file(str(tmp_path / f"{i}"), True, 4) for i in range(200)]
    before = len(os.listdir("/proc/self/fd"))
    for tensor in tensors:
        queue.put(tensor)
        assert queue.get().untyped_storage() is tensor.untyped_storage()
    assert len(os.listdir("/proc/self/fd")) - before <= 65  # docs/shared-memory.md, "Strategies"
    queue.close()


@pytest.mark.check
def test_arrays_over_a_file_stay_valid_when_it_is_sent(tmp_path: Path) -> None:
    tensor = _filled(tmp_path / "data", 1)
    array = tensor.numpy()
    ForkingPickler.dumps(tensor)
    array[0] = 8
    assert tensor.tolist() == [8, 1, 1, 1]
    assert st.from_file(str(tmp_path / "data"), False, 4).tolist() == [8, 1, 1, 1]


def test_pages_of_a_file_are_never_reused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_descriptor")
    try:
        tensor = _filled(path, 1)
        ForkingPickler.loads(ForkingPickler.dumps(tensor))
        del tensor
        for _ in range(4):
            st.full((4,), 9.0).share_memory_()
    finally:
        mp.set_sharing_strategy(before)
    assert st.from_file(str(path), False, 4).tolist() == [1] * 4


def test_descriptor_of_a_file_opens_it_for_writing(tmp_path: Path) -> None:
    path = tmp_path / "data"
    tensor = _filled(path, 1)
    fd, nbytes = tensor.untyped_storage()._share_fd_()
    assert st.UntypedStorage._new_shared_fd(fd, nbytes) is tensor.untyped_storage()
    os.pwrite(fd, b"\0\0\0\0", 4)
    assert tensor.tolist() == [1, 0, 1, 1]


def test_lent_file_is_read_only(tmp_path: Path) -> None:
    tensor = _filled(tmp_path / "data", 1)
    lent = pickle.loads(ForkingPickler.dumps(mp.lend(tensor)))
    with pytest.raises(RuntimeError, match="read-only"):
        lent.add_(1)
    tensor.add_(1)
    assert lent.tolist() == [2] * 4


def test_threads_map_files_at_once(tmp_path: Path) -> None:
    errors: list[Exception] = []

    def work(name: str) -> None:
        try:
            for i in range(300):
                storage = st.UntypedStorage.from_file(tmp_path / f"{name}{i % 3}", True, 16)
                assert storage.filename == str(tmp_path / f"{name}{i % 3}")
                if i % 10 == 0:
                    ForkingPickler.loads(ForkingPickler.dumps(storage))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcdefgh"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_threads_send_one_file_at_once(tmp_path: Path) -> None:
    tensor = _filled(tmp_path / "data", 1)
    barrier, messages = threading.Barrier(4), []

    def send() -> None:
        barrier.wait()
        messages.append(bytes(ForkingPickler.dumps(tensor)))

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    received = [pickle.loads(message) for message in messages]
    assert len(received) == 4
    assert all(r.untyped_storage() is tensor.untyped_storage() for r in received)
