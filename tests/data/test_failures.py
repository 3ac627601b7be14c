"""What goes wrong in workers: it is reported at once, with its traceback, in torch's words.

Not covered: a program that ends itself (test_endings).
"""

from __future__ import annotations

import os
import queue
import signal
from pathlib import Path
from typing import Any

import alarms
import loader_datasets as sets
import pytest
import waiting

import shmtensor as st
from shmtensor._utils import ExceptionWrapper
from shmtensor.utils.data import DataLoader, IterableDataset
from shmtensor.utils.data._utils.signal_handling import Report
from shmtensor.utils.data._utils.worker_loop import ENDS_WITH_PARENT

pytestmark = pytest.mark.usefixtures("nothing_is_left")

METHODS = ["fork", "spawn", "forkserver"]


def _loader(function: Any, **kwargs: Any) -> DataLoader[Any]:
    return DataLoader(sets.Calls(function), batch_size=2, num_workers=2, **kwargs)


# --- exceptions ---


@pytest.mark.parametrize("method", METHODS)
def test_an_exception_comes_with_its_traceback(method: str) -> None:
    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 0") as e:
        list(_loader(sets.fail, multiprocessing_context=method))
    text = str(e.value)
    assert "Original Traceback (most recent call last):" in text
    assert "loader_datasets.py" in text
    assert "in fail" in text
    assert "ValueError: no sample for 0" in text


@pytest.mark.check
def test_the_pass_goes_on_behind_an_exception() -> None:
    iterator = iter(DataLoader(sets.Calls(sets.fail_at_five), num_workers=2))
    assert [next(iterator).item() for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker process 1") as e:
        next(iterator)
    assert "\\n" not in str(e.value)  # lines, not their representation
    assert [batch.item() for batch in iterator] == [6, 7]


def test_exceptions_in_every_place() -> None:
    def bad_sampler() -> Any:
        yield 1
        raise ValueError("the sampler failed")

    class BadStream(IterableDataset[int]):
        def __iter__(self) -> Any:
            raise ValueError("the stream did not begin")

    class BrokenStream(IterableDataset[int]):
        def __iter__(self) -> Any:
            yield 1
            raise ValueError("the stream broke off")

    with pytest.raises(ValueError, match="the sampler failed"):
        list(DataLoader(sets.Calls(sets.itself), num_workers=2, sampler=bad_sampler()))
    with pytest.raises(ValueError, match="no sample for"):
        list(_loader(sets.itself, collate_fn=sets.fail))
    with pytest.raises(OSError, match="worker 0 has no disk"):
        list(_loader(sets.itself, worker_init_fn=sets.fail_to_begin))
    with pytest.raises(ValueError, match="the stream did not begin"):
        list(DataLoader(BadStream(), num_workers=1))
    iterator = iter(DataLoader(BrokenStream(), num_workers=1))
    assert next(iterator).item() == 1
    with pytest.raises(ValueError, match="the stream broke off"):
        next(iterator)


def test_a_batch_whose_own_pickling_fails_is_reported() -> None:
    loader = _loader(sets.make_failing_when_written, collate_fn=sets.itself)
    with pytest.raises(OSError, match="no bytes of this"):
        list(loader)


def test_an_index_whose_own_pickling_fails_is_reported() -> None:
    with pytest.raises(OSError, match="no bytes of this"):
        list(
            DataLoader(
                sets.Calls(sets.itself),
                sampler=[sets.FailsWhenWritten()],
                batch_size=None,
                num_workers=1,
            )
        )


@pytest.mark.parametrize("n_workers", [0, 1])
@pytest.mark.parametrize(
    "options",
    [
        {"dataset": sets.Calls(sets.stop)},
        {"dataset": sets.Calls(sets.stop), "batch_size": None},
        {"dataset": sets.Calls(sets.itself), "collate_fn": sets.stop},
        {"dataset": sets.Calls(sets.itself), "collate_fn": sets.stop, "batch_size": None},
        {"dataset": sets.Numbers(8), "collate_fn": sets.stop},
        {"dataset": sets.Numbers(8), "collate_fn": sets.stop, "batch_size": None},
        {"dataset": sets.StopsBeforeItsBeginning()},
    ],
)
def test_a_stop_iteration_of_the_program_is_an_error(n_workers: int, options: Any) -> None:
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        list(DataLoader(**options, num_workers=n_workers))


@pytest.mark.parametrize(
    "options",
    [
        {"dataset": sets.Calls(sets.itself), "worker_init_fn": sets.stop},
        {
            "dataset": sets.Calls(sets.itself),
            "sampler": [sets.WrittenAsStop()],
            "batch_size": None,
        },
        {"dataset": sets.Calls(sets.make_read_as_stop), "collate_fn": sets.itself},
        {"dataset": sets.Calls(sets.make_written_as_stop), "collate_fn": sets.itself},
    ],
)
def test_a_stop_iteration_in_a_worker_is_an_error(options: Any) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(**options, num_workers=1))


def test_a_worker_that_could_not_begin_says_so_for_every_batch() -> None:
    iterator = iter(_loader(sets.itself, worker_init_fn=sets.fail_to_begin))
    for worker in (0, 1, 0, 1):
        with pytest.raises(OSError, match=f"worker {worker} has no disk"):
            next(iterator)
    with pytest.raises(StopIteration):
        next(iterator)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (sets.fail_with_two, "Caught NeedsTwo in DataLoader worker process 0"),
        (sets.fail_with_a_local_class, "Caught LocalError in DataLoader worker process 0"),
    ],
)
def test_exceptions_that_cannot_be_made_again_are_runtime_errors(function: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        list(_loader(function))


def test_samples_that_cannot_be_pickled_are_reported() -> None:
    loader = DataLoader(sets.Calls(sets.unpicklable), num_workers=1, batch_size=None)
    with pytest.raises(AttributeError, match="Caught AttributeError in DataLoader worker proc"):
        list(loader)


def test_samples_that_cannot_be_unpickled_are_reported_in_their_place() -> None:
    dataset = sets.Calls(sets.unreadable_at_two, 5)
    iterator = iter(DataLoader(dataset, num_workers=2, batch_size=None))
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(LookupError, match="cannot be made here"):
        next(iterator)
    assert list(iterator) == [3, 4]


def test_history_does_not_travel() -> None:
    def with_history(index: int) -> Any:
        return st.ones(2, requires_grad=True) * 2

    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        list(DataLoader(sets.Calls(with_history), num_workers=1, batch_size=None))


def test_datasets_that_cannot_be_pickled_start_no_worker() -> None:
    loader = DataLoader(sets.Calls(lambda i: i), num_workers=2, multiprocessing_context="spawn")
    with (
        pytest.warns(UserWarning, match="Got pickle error when attempting to start a worker"),
        pytest.raises(AttributeError, match="Can't pickle local object"),
    ):
        iter(loader)


# --- workers that end ---


@pytest.mark.parametrize("method", METHODS)
def test_a_killed_worker_is_reported(method: str) -> None:
    loader = _loader(sets.kill_itself, multiprocessing_context=method)
    text = r"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly\n"
    with pytest.raises(RuntimeError, match=text) as e:
        list(loader)
    assert "is killed by signal: Killed" in str(e.value)


@pytest.mark.check
def test_workers_that_exit_are_reported_with_their_status() -> None:
    with pytest.raises(RuntimeError, match=r"exited unexpectedly with exit code 7\."):
        list(_loader(sets.exit_at_once))
    with pytest.raises(RuntimeError, match=r"exited unexpectedly with exit code 3\."):
        list(_loader(sets.leave))


@pytest.mark.skipif("SHMTENSOR_SANITIZER" in os.environ, reason="a sanitizer takes the signal")
def test_a_crash_is_reported_with_the_place() -> None:
    with pytest.raises(RuntimeError, match="is killed by signal: Segmentation fault") as e:
        list(_loader(sets.crash))
    assert "Fatal Python error: Segmentation fault" in str(e.value)
    assert "in crash" in str(e.value)
    # A forked worker has the frames of this process below its own.
    assert "test_a_crash_is_reported_with_the_place" not in str(e.value)


@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("which", [[0], [1], [0, 1]])
def test_workers_killed_in_the_midst_are_reported(which: list[int], in_order: bool) -> None:
    loader = DataLoader(
        sets.Calls(sets.slow_image, 10_000), batch_size=8, num_workers=2, in_order=in_order
    )
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    for i in which:
        os.kill(iterator._workers[i].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="is killed by signal: Killed"):
        for _ in iterator:
            pass
    with pytest.raises(StopIteration):
        next(iterator)


def test_a_killed_worker_is_reported_while_another_has_batches() -> None:
    dataset = sets.Calls(sets.hang_in_the_first_batch, 10**9)
    iterator = iter(DataLoader(dataset, num_workers=2, in_order=False))
    next(iterator)
    os.kill(iterator._workers[0].pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="is killed by signal: Killed"):
        for _ in iterator:
            pass


def test_persistent_workers_killed_between_passes_are_replaced() -> None:
    loader = DataLoader(sets.Calls(sets.itself), num_workers=2, persistent_workers=True)
    assert len(list(loader)) == 8
    for worker in loader._iterator._workers:  # type: ignore[union-attr]
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
    with pytest.raises(RuntimeError, match="is killed by signal: Killed"):
        list(loader)
    assert [batch.item() for batch in loader] == list(range(8))


# --- workers that do not answer ---


@pytest.mark.parametrize("method", METHODS)
def test_a_hung_worker_is_reported_with_the_place(method: str) -> None:
    iterator = iter(_loader(sets.hang, timeout=1.5, multiprocessing_context=method))
    # A fresh interpreter takes a while to begin.
    waiting.until(lambda: (iterator._group._control[1:] >= ENDS_WITH_PARENT).all())
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 1\.5 seconds") as e:
        list(iterator)
    assert "worker 0 (pid" in str(e.value)
    assert "in hang" in str(e.value)


def test_a_worker_that_is_still_beginning_is_left_to_it() -> None:
    loader = _loader(sets.itself, timeout=0.001, multiprocessing_context="spawn")
    iterator = iter(loader)
    with pytest.raises(RuntimeError, match=r"timed out after 0.001 .*\n.* is still starting"):
        next(iterator)
    iterator._timeout = 0
    assert [batch.tolist() for batch in iterator] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_out_of_order_all_that_are_waited_for_are_named() -> None:
    with pytest.raises(RuntimeError, match="timed out after 1 seconds") as e:
        list(_loader(sets.hang, timeout=1, in_order=False))
    assert "worker 0 (pid" in str(e.value)
    assert "worker 1 (pid" in str(e.value)


def test_a_stopped_worker_is_reported_as_such() -> None:
    loader = DataLoader(sets.Calls(sets.slow, 100), num_workers=2, timeout=1)
    iterator = iter(loader)
    next(iterator)
    stopped = iterator._workers[1]
    os.kill(stopped.pid, signal.SIGSTOP)
    with pytest.raises(RuntimeError, match=r"timed out after 1 .*\n.* is stopped by a signal"):
        list(iterator)
    # The pass may go on when it runs again.
    os.kill(stopped.pid, signal.SIGCONT)
    iterator._timeout = 0
    assert len(list(iterator)) > 90


def test_a_timeout_is_for_each_batch() -> None:
    loader = DataLoader(sets.Calls(sets.slow, 100), num_workers=1, timeout=1.5)
    assert len(list(loader)) == 100


# --- the wrapper ---


def test_the_wrapper_needs_an_exception() -> None:
    with pytest.raises(ValueError, match="no exception was given"):
        ExceptionWrapper()
    try:
        raise LookupError("gone")
    except LookupError:
        wrapper = ExceptionWrapper(where="in thread 3")
    with pytest.raises(LookupError, match=r"^Caught LookupError in thread 3\.\nOriginal Traceback"):
        wrapper.reraise()


def test_the_wrapper_makes_exceptions_of_a_message() -> None:
    class OfMessage(Exception):
        message = "default"

        def __init__(self, *, message: str) -> None:
            super().__init__(message)

    try:
        raise OfMessage(message="x")
    except OfMessage as error:
        wrapper = ExceptionWrapper((type(error), error, error.__traceback__))
    with pytest.raises(OfMessage, match="Caught OfMessage in background"):
        wrapper.reraise()


def test_report_leaves_the_programs_file_in_its_place_alone(tmp_path: Path) -> None:
    report = Report()
    number = report.fileno()
    assert number > 2
    path = tmp_path / "the programs"
    path.write_text("its text")
    with path.open("r+b") as file:
        os.dup2(file.fileno(), number)
    assert report.fileno() == -1
    assert report.text() == ""
    report.write("a text")
    del report
    assert os.lseek(number, 0, os.SEEK_CUR) == 0
    os.close(number)
    assert path.read_text() == "its text"


@pytest.mark.check
@pytest.mark.parametrize("error", [ValueError, EOFError])
def test_an_alarm_while_a_batch_is_waited_for_costs_no_batch(error: type[Exception]) -> None:
    dataset = sets.Calls(sets.slowly, 4)
    loader = DataLoader(dataset, None, num_workers=1, multiprocessing_context="fork")
    iterator = iter(loader)
    with alarms.comes(0.2, error("of the program")), pytest.raises(error, match="of the program"):
        next(iterator)
    assert list(iterator) == [0, 1, 2, 3]


@pytest.mark.check
@pytest.mark.parametrize("in_order", [True, False])
@pytest.mark.parametrize("function", [sets.unreadable_by_eof, sets.unreadable_by_empty])
def test_a_batch_that_raises_as_a_queue_does_is_an_error(function: Any, in_order: bool) -> None:
    loader = DataLoader(
        sets.Calls(function, 3),
        None,
        num_workers=1,
        multiprocessing_context="fork",
        in_order=in_order,
    )
    iterator = iter(loader)
    assert next(iterator) == 0
    with pytest.raises((EOFError, queue.Empty), match="of the batch"):
        next(iterator)
    assert list(iterator) == [2]
