"""Worker processes: what they are told, in which order their batches come, who begins and ends.

Not covered: workers that fail (test_failures), programs that end (test_endings), memory
(test_memory).
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from itertools import chain
from typing import Any

import loader_datasets as sets
import pytest
import waiting

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.utils.data import (
    ChainDataset,
    DataLoader,
    Dataset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)
from shmtensor.utils.data._utils import loader_workers
from shmtensor.utils.data._utils.loader_workers import LoaderWorkers
from shmtensor.utils.data.dataloader import _MultiProcessingDataLoaderIter

pytestmark = pytest.mark.usefixtures("nothing_is_left")

METHODS = ["fork", "spawn", "forkserver"]
TEN = list(range(10))


def _batches(loader: DataLoader[Any]) -> list[Any]:
    return [batch.tolist() for batch in loader]


# --- batches ---


@pytest.mark.parametrize("method", METHODS)
def test_batches_are_those_of_one_process(method: str) -> None:
    dataset = sets.Calls(sets.row, 10)
    loader = DataLoader(dataset, batch_size=3, num_workers=2, multiprocessing_context=method)
    alone = DataLoader(dataset, batch_size=3)
    for (images, labels), (expected, numbers) in zip(loader, alone, strict=True):
        assert st.equal(images, expected)
        assert labels.tolist() == numbers.tolist()
        assert images.is_shared()
        assert labels.is_shared()


@pytest.mark.check
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.parametrize("prefetch", [1, 2, 7])
def test_order_is_that_of_the_sampler(n_workers: int, prefetch: int) -> None:
    sampler = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
    loader = DataLoader(
        TEN, sampler=sampler, num_workers=n_workers, prefetch_factor=prefetch, batch_size=2
    )
    assert list(chain.from_iterable(_batches(loader))) == sampler
    assert _batches(DataLoader([], num_workers=n_workers)) == []


def test_seeds_decide_as_without_workers() -> None:
    orders = []
    for n_workers in (0, 2):
        st.manual_seed(4)
        loader = DataLoader(TEN, shuffle=True, batch_size=5, num_workers=n_workers)
        orders.append([_batches(loader), _batches(loader)])
    assert orders[0] == orders[1]


def test_weights_and_keys_work_as_indices() -> None:
    loader = DataLoader(TEN, sampler=WeightedRandomSampler([0] * 9 + [1], 6), num_workers=2)
    assert _batches(loader) == [[9]] * 6
    assert _batches(DataLoader({"a": 1, "b": 2}, sampler=["b", "a"], num_workers=2)) == [[2], [1]]


def test_indices_may_be_tensors_and_stay_private() -> None:
    indices = st.tensor([4, 2, 7])
    view = indices.numpy()  # memory that cannot move
    loader = DataLoader(TEN, sampler=list(indices), batch_size=2, num_workers=1)
    assert _batches(loader) == [[4, 2], [7]]
    assert not indices.is_shared()
    assert view.tolist() == [4, 2, 7]


def test_without_batches_samples_come_one_by_one() -> None:
    loader = DataLoader(sets.Calls(sets.row, 3), batch_size=None, num_workers=2)
    assert [label for _, label in loader] == [0, 1, 2]
    assert list(DataLoader(["x", None, 3], batch_size=None, num_workers=2)) == ["x", None, 3]


def test_collate_functions_run_in_workers() -> None:
    loader = DataLoader(TEN, batch_size=2, num_workers=2, collate_fn=lambda _: os.getpid())
    assert os.getpid() not in set(loader)
    assert len(set(loader)) == 2


def test_large_index_lists_and_many_messages() -> None:
    # More than the queues of indices have room for.
    loader = DataLoader(range(40_000), batch_size=1000, num_workers=1, prefetch_factor=40)
    assert [batch[0].item() for batch in loader] == list(range(0, 40_000, 1000))


def test_leaving_while_indices_wait_for_room(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader_workers, "MP_STATUS_CHECK_INTERVAL", 0.3)
    # Huge numbers, so that they are long as messages.
    dataset = sets.Calls(sets.slow, 10**15)
    sampler = range(10**14, 10**14 + 400_000)
    loader = DataLoader(
        dataset, sampler=sampler, batch_size=2000, num_workers=1, prefetch_factor=200
    )
    iterator = iter(loader)
    del iterator
    gc.collect()
    waiting.until(lambda: "QueueFeederThread" not in {t.name for t in threading.enumerate()})
    assert capfd.readouterr().err == ""


def test_datasets_may_hold_shared_tensors() -> None:
    class Counted(Dataset[int]):
        def __init__(self) -> None:
            self.seen = st.zeros(4, dtype=st.int64).share_memory_()

        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> int:
            self.seen[index] += 1
            return index

    dataset = Counted()
    assert len(_batches(DataLoader(dataset, num_workers=2))) == 4
    assert dataset.seen.tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_rows_over_arrays_reach_workers(method: str) -> None:
    import numpy as np

    array = np.arange(10.0)
    dataset = TensorDataset(st.from_numpy(array))
    loader = DataLoader(dataset, batch_size=5, num_workers=1, multiprocessing_context=method)
    assert [b[0].tolist() for b in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


# --- out of order ---


def test_out_of_order_a_slow_worker_holds_up_nobody() -> None:
    go = mp.get_context("fork").Event()
    dataset = sets.Calls(lambda i: go.wait(waiting.HANG_S) and i if i == 0 else i, 8)
    iterator = iter(DataLoader(dataset, num_workers=2, in_order=False))
    drawn = [next(iterator).item() for _ in range(4)]
    assert 0 not in drawn
    # What the slow one had been given besides comes behind.
    go.set()
    assert sorted(drawn + [batch.item() for batch in iterator]) == list(range(8))


def test_out_of_order_streams_are_complete() -> None:
    loader = DataLoader(sets.Uneven([7, 2]), num_workers=2, in_order=False)
    assert sorted(batch.item() for batch in loader) == [0, 1, 2, 3, 4, 5, 6, 100, 101]


# --- streams ---


@pytest.mark.parametrize("method", METHODS)
def test_streams_are_shared_out_by_worker_info(method: str) -> None:
    loader = DataLoader(
        sets.Numbers(9), num_workers=2, batch_size=None, multiprocessing_context=method
    )
    assert list(loader) == list(range(9))


@pytest.mark.parametrize(
    ("counts", "order"),
    [
        ([3, 1], [0, 100, 1, 2]),
        ([1, 3], [0, 100, 101, 102]),
        ([0, 5], [100, 101, 102, 103, 104]),
        ([7, 2], [0, 100, 1, 101, 2, 3, 4, 5, 6]),
        ([0, 0], []),
    ],
)
def test_uneven_streams_take_turns_while_they_last(counts: list[int], order: list[int]) -> None:
    loader = DataLoader(sets.Uneven(counts), num_workers=2, persistent_workers=True)
    for _ in range(3):
        assert [batch.item() for batch in loader] == order
    loader = DataLoader(sets.Uneven(counts), num_workers=2, batch_size=None)
    assert list(loader) == order


def test_last_batches_of_streams_are_short_or_left_out() -> None:
    stream = sets.Uneven([5, 2])
    whole = DataLoader(stream, num_workers=2, batch_size=2)
    assert _batches(whole) == [[0, 1], [100, 101], [2, 3], [4]]
    full = DataLoader(stream, num_workers=2, batch_size=2, drop_last=True)
    assert _batches(full) == [[0, 1], [100, 101], [2, 3]]


def test_chained_streams_go_through_workers() -> None:
    both = ChainDataset([sets.Numbers(3), sets.Numbers(2)])
    drawn = sorted(DataLoader(both, num_workers=2, batch_size=None))
    assert drawn == [0, 0, 1, 1, 2]


def test_workers_whose_stream_has_ended_leave() -> None:
    iterator = iter(DataLoader(sets.Uneven([500, 0]), num_workers=2, batch_size=None))
    assert [next(iterator), next(iterator)] == [0, 1]
    iterator._workers[1].join(50)
    assert iterator._workers[1].exitcode == 0
    assert len(list(iterator)) == 498


def test_a_stream_that_is_longer_than_it_says_warns_of_workers() -> None:
    class Claimed(sets.Uneven):
        def __len__(self) -> int:
            return 1

    loader = DataLoader(Claimed([2, 0]), num_workers=2)
    len(loader)
    with pytest.warns(UserWarning, match="IterableDataset replica at each worker"):
        assert _batches(loader) == [[0], [1]]


# --- what a worker knows ---


@pytest.mark.parametrize("method", METHODS)
def test_workers_have_seeds_of_their_own(method: str) -> None:
    loader = DataLoader(
        sets.Calls(sets.draws, 4),
        batch_size=None,
        num_workers=2,
        multiprocessing_context=method,
        generator=st.Generator().manual_seed(0),
    )
    first = list(loader)
    base = first[0][1]
    assert [sample[:2] for sample in first] == [[i % 2, base + i % 2] for i in range(4)]
    for i in (2, 3, 4):  # random, NumPy, this package
        assert len({sample[i] for sample in first}) == 4
    loader.generator.manual_seed(0)
    assert list(loader) == first
    assert list(loader) != first


@pytest.mark.check
def test_worker_info_is_complete_and_fixed() -> None:
    def describe(index: int) -> Any:
        info = get_worker_info()
        assert info is not None
        with pytest.raises(AttributeError, match="cannot assign to field 'id'"):
            info.id = 3  # type: ignore[misc]
        return info.id, info.num_workers, type(info.dataset).__name__, st.get_num_threads()

    described = list(DataLoader(sets.Calls(describe, 2), num_workers=2, batch_size=None))
    assert described == [[0, 2, "Calls", 1], [1, 2, "Calls", 1]]
    assert get_worker_info() is None


def test_worker_init_fn_may_change_the_dataset() -> None:
    dataset = sets.Calls(sets.fail, 4)
    loader = DataLoader(
        dataset, num_workers=2, batch_size=None, worker_init_fn=sets.set_first_sample
    )
    first, second, third, fourth = loader
    assert (first, third) == (0, 2)
    assert second == fourth != os.getpid()
    assert dataset.function is sets.fail  # only the workers' copies


def test_loaders_nest_without_workers() -> None:
    def inner(index: int) -> Any:
        return [b.tolist() for b in DataLoader(range(index + 1), batch_size=2)]

    loader = DataLoader(sets.Calls(inner, 3), num_workers=2, batch_size=None)
    assert list(loader) == [[[0]], [[0, 1]], [[0, 1], [2]]]


def test_workers_have_no_workers() -> None:
    def inner(index: int) -> Any:
        return list(DataLoader(TEN, num_workers=1))

    with pytest.raises(AssertionError, match="daemonic processes are not allowed"):
        list(DataLoader(sets.Calls(inner), num_workers=1))


# --- the life of workers ---


def test_persistent_workers_stay_for_all_passes() -> None:
    loader = DataLoader(sets.Calls(sets.pid, 6), num_workers=2, persistent_workers=True)
    st.manual_seed(1)
    passes = [_batches(loader) for _ in range(3)]
    assert passes[0] == passes[1] == passes[2]
    assert iter(loader) is iter(loader)
    other = DataLoader(sets.Calls(sets.pid, 6), num_workers=2)
    assert _batches(other) != _batches(other)


def test_persistent_workers_go_on_after_an_early_end() -> None:
    loader = DataLoader(
        sets.Calls(sets.slow, 30), num_workers=2, persistent_workers=True, prefetch_factor=5
    )
    for _ in range(4):
        for batch in loader:
            if batch.item() == 3:
                break
    assert _batches(loader) == [[i] for i in range(30)]


def test_persistent_workers_shuffle_anew() -> None:
    loader = DataLoader(TEN, shuffle=True, batch_size=10, num_workers=1, persistent_workers=True)
    first, second = _batches(loader), _batches(loader)
    assert first != second
    assert sorted(first[0]) == sorted(second[0]) == TEN


def test_early_end_ends_the_workers() -> None:
    loader = DataLoader(sets.Calls(sets.slow, 1000), num_workers=2)
    for batch in loader:
        if batch.item() == 3:
            break
    else:
        pytest.fail("the pass went on")


def test_dropping_an_iterator_ends_its_workers() -> None:
    iterator = iter(DataLoader(TEN, num_workers=2))
    assert isinstance(iterator, _MultiProcessingDataLoaderIter)
    workers = list(iterator._workers)
    next(iterator)
    gone = weakref.ref(iterator)
    del iterator
    assert gone() is None  # without a collection: it is in no cycle
    assert [worker.exitcode for worker in workers] == [0, 0]


def test_an_iterator_in_a_cycle_is_collected() -> None:
    iterator = iter(DataLoader(TEN, num_workers=1))
    workers = list(iterator._workers)
    cycle: list[Any] = [iterator]
    cycle.append(cycle)
    del iterator, cycle
    gc.collect()
    assert [worker.exitcode for worker in workers] == [0]


def test_an_iterator_has_ended_for_good() -> None:
    iterator = iter(DataLoader(TEN, num_workers=2))
    assert len(list(iterator)) == 10
    assert [worker.exitcode for worker in iterator._workers] == [0, 0]
    with pytest.raises(StopIteration):
        next(iterator)
    iterator._shutdown_workers()


def test_programs_may_end_the_workers_themselves() -> None:
    iterator = iter(DataLoader(TEN, num_workers=2))
    next(iterator)
    iterator._shutdown_workers()
    assert [worker.exitcode for worker in iterator._workers] == [0, 0]
    with pytest.raises(StopIteration):
        next(iterator)


def test_two_passes_at_once_have_workers_each() -> None:
    loader = DataLoader(TEN, num_workers=2)
    for first, second in zip(loader, loader, strict=True):
        assert first.item() == second.item()


def test_a_pass_in_a_thread_that_ends_before_it() -> None:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(iter(DataLoader(TEN, num_workers=2))))
    thread.start()
    thread.join()
    time.sleep(0.3)
    assert [batch.item() for batch in made.pop()] == TEN


def test_a_forked_child_leaves_its_parents_workers_alone() -> None:
    iterator = iter(DataLoader(TEN, num_workers=2))
    next(iterator)

    def child() -> None:
        nonlocal iterator
        del iterator
        gc.collect()

    process = mp.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0
    assert [batch.item() for batch in iterator] == TEN[1:]


def test_a_stopped_worker_is_waited_for() -> None:
    loader = DataLoader(sets.Calls(sets.slow, 20), num_workers=2)
    iterator = iter(loader)
    assert next(iterator).item() == 0
    stopped = iterator._workers[1].pid
    os.kill(stopped, signal.SIGSTOP)
    timer = threading.Timer(1.5, os.kill, (stopped, signal.SIGCONT))
    timer.start()
    assert [batch.item() for batch in iterator] == list(range(1, 20))
    timer.join()


def test_a_stopped_worker_does_not_hold_up_the_end() -> None:
    iterator = iter(DataLoader(sets.Calls(sets.slow, 20), num_workers=2))
    next(iterator)
    workers = list(iterator._workers)
    os.kill(workers[0].pid, signal.SIGSTOP)
    del iterator
    assert workers[0].exitcode == -signal.SIGKILL
    assert workers[1].exitcode == 0


def test_a_worker_that_does_not_come_back_is_ended_by_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loader_workers, "MP_STATUS_CHECK_INTERVAL", 0.3)
    hangs = mp.get_context("fork").Event()

    def hang_in_the_first_batch(index: int) -> int:
        if index == 0:
            hangs.set()
        return sets.hang_in_the_first_batch(index)

    dataset = sets.Calls(hang_in_the_first_batch, 20)
    loader = DataLoader(dataset, num_workers=2, in_order=False, multiprocessing_context="fork")
    iterator = iter(loader)
    assert next(iterator).item() == 1
    assert hangs.wait(waiting.HANG_S)  # else it may end before it begins
    workers = list(iterator._workers)
    del iterator
    assert workers[0].exitcode == -signal.SIGTERM
    assert workers[1].exitcode == 0


def test_interrupted_end_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    real, interrupts = LoaderWorkers.end, iter([KeyboardInterrupt])

    def end(self: LoaderWorkers) -> None:
        for interrupt in interrupts:
            raise interrupt
        real(self)

    monkeypatch.setattr(LoaderWorkers, "end", end)
    iterator = iter(DataLoader(TEN, num_workers=1))
    next(iterator)
    with pytest.raises(KeyboardInterrupt):
        iterator._shutdown_workers()
    iterator._shutdown_workers()
    assert [worker.exitcode for worker in iterator._workers] == [0]
