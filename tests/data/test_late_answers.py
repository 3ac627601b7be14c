"""Answers of workers that cannot be taken at once: each batch comes in its place, or as an error.

Not covered: answers that can never be read (test_failures).
"""

from __future__ import annotations

import errno
from typing import Any

import loader_datasets as sets
import pytest
import waiting

from shmtensor.utils.data import DataLoader

pytestmark = pytest.mark.usefixtures("nothing_is_left")


def _loader(dataset: Any, n_workers: int = 2, **options: Any) -> DataLoader[Any]:
    # The timeout is against hangs only.
    return DataLoader(
        dataset,
        None,
        num_workers=n_workers,
        multiprocessing_context="fork",
        timeout=waiting.HANG_S,
        **options,
    )


def _all_that_come(iterator: Any) -> list[Any]:
    """The batches; in place of one that is an error, the error's class."""
    found: list[Any] = []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except Exception as error:
            found.append(type(error))


def _fail_once(iterator: Any, worker: int, number: int) -> None:
    """Let one attempt to take an answer fail: of *worker*, when it has taken *number*."""
    results = iterator._group.results[worker]
    n_taken = 0

    def failing(timeout: float) -> Any:
        nonlocal n_taken
        if n_taken == number:
            del results.get  # the method of its class is back
            waiting.until(results.qsize)
            raise OSError(errno.EMFILE, "no descriptor is free")
        answer = type(results).get(results, timeout=timeout)
        n_taken += 1
        return answer

    results.get = failing


@pytest.mark.check
@pytest.mark.parametrize("in_order", [True, False])
def test_an_answer_that_stays_in_the_queue_is_not_taken_for_the_next_one(in_order: bool) -> None:
    iterator = iter(_loader(sets.Calls(sets.itself), in_order=in_order))
    _fail_once(iterator, 0, 1)
    found = _all_that_come(iterator)
    assert found.count(OSError) == 1
    if in_order:
        assert found == [0, 1, OSError, 3, 4, 5, 6, 7]
    else:
        assert set(found) == {0, 1, OSError, 3, 4, 5, 6, 7}


def test_an_answer_that_stays_from_an_earlier_pass_is_in_nobodys_way() -> None:
    loader = _loader(sets.Calls(sets.itself, 4), persistent_workers=True)
    iterator = iter(loader)
    _fail_once(iterator, 1, 1)
    assert _all_that_come(iterator) == [0, 1, 2, OSError]
    for _ in range(2):
        assert _all_that_come(iter(loader)) == [0, 1, 2, 3]


def test_an_unreadable_answer_of_an_earlier_pass_does_not_shift_batches() -> None:
    loader = _loader(sets.Calls(sets.unreadable_at_two, 6), 1, persistent_workers=True)
    iterator = iter(loader)
    assert [next(iterator), next(iterator)] == [0, 1]
    waiting.until(lambda: iterator._group.results[0].qsize() == 2)
    # Nobody knows of which pass it is, so the first batch of this one is reported, too.
    assert _all_that_come(iter(loader)) == [LookupError, 1, LookupError, 3, 4, 5]
    assert _all_that_come(iter(loader)) == [0, 1, LookupError, 3, 4, 5]


@pytest.mark.parametrize("in_order", [True, False])
def test_a_stream_ends_although_its_end_was_not_taken_at_once(in_order: bool) -> None:
    iterator = iter(_loader(sets.Numbers(2), 1, in_order=in_order))
    _fail_once(iterator, 0, 2)
    assert _all_that_come(iterator) == [0, 1, OSError]


@pytest.mark.check
def test_a_batch_for_which_memory_was_short_once_comes_in_its_place() -> None:
    assert _all_that_come(iter(_loader(sets.Calls(sets.short_of_memory_once)))) == list(range(8))


@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_batch_for_which_memory_is_short_costs_no_other(n_workers: int) -> None:
    iterator = iter(_loader(sets.Calls(sets.unreadable_by_memory), n_workers))
    assert _all_that_come(iterator) == [0, 1, MemoryError, 3, 4, 5, 6, 7]


def test_a_lost_answer_is_reported_in_its_place() -> None:
    iterator = iter(_loader(sets.Calls(sets.unreadable_by_exit, 4), 1))
    assert next(iterator) == 0
    for _ in range(2):  # the queue opens the message twice, and drops it then
        with pytest.raises(SystemExit):
            next(iterator)
    with pytest.raises(RuntimeError, match="batch 1 is lost: DataLoader worker 0 has sent a later"):
        next(iterator)
    assert list(iterator) == [2, 3]
