"""The loader without workers, and its arguments.

Not covered: worker processes (test_workers, test_failures, test_endings).
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import warnings
from typing import Any

import loader_datasets as sets
import numpy as np
import pytest

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    default_collate,
    default_convert,
    get_worker_info,
)
from shmtensor.utils.data import dataloader as module

TEN = list(range(10))


class Claimed(IterableDataset[int]):
    """Says that it has one sample."""

    def __iter__(self) -> Any:
        return iter(range(3))

    def __len__(self) -> int:
        return 1


def _batches(loader: DataLoader[Any]) -> list[list[int]]:
    return [batch.tolist() for batch in loader]


@pytest.mark.check
def test_batches_come_in_order() -> None:
    assert _batches(DataLoader(TEN, batch_size=4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert _batches(DataLoader(TEN, batch_size=4, drop_last=True)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert _batches(DataLoader(TEN))[:2] == [[0], [1]]
    assert _batches(DataLoader([])) == []


def test_every_pass_is_a_new_one() -> None:
    loader = DataLoader(TEN, batch_size=4)
    assert _batches(loader) == _batches(loader)
    first, second = iter(loader), iter(loader)
    assert next(first).tolist() == next(second).tolist() == [0, 1, 2, 3]
    assert len(first) == len(loader) == 3


def test_shuffled_passes_differ_and_follow_the_seed() -> None:
    loader = DataLoader(TEN, batch_size=10, shuffle=True)
    st.manual_seed(1)
    passes = [_batches(loader), _batches(loader)]
    assert passes[0] != passes[1]
    assert sorted(passes[0][0]) == TEN
    st.manual_seed(1)
    assert [_batches(loader), _batches(loader)] == passes


def test_a_generator_leaves_the_default_one_alone() -> None:
    before = st.get_rng_state()
    loader = DataLoader(TEN, shuffle=True, generator=st.Generator().manual_seed(3))
    first = _batches(loader)
    assert st.equal(st.get_rng_state(), before)
    again = DataLoader(TEN, shuffle=True, generator=st.Generator().manual_seed(3))
    assert _batches(again) == first


def test_samplers_decide() -> None:
    assert _batches(DataLoader(TEN, sampler=[5, 3, 1], batch_size=2)) == [[5, 3], [1]]
    assert _batches(DataLoader(TEN, batch_sampler=[[7], [1, 2]])) == [[7], [1, 2]]
    drawn = _batches(DataLoader(TEN, sampler=SubsetRandomSampler([2, 4])))
    assert sorted(drawn) == [[2], [4]]
    by_key = DataLoader({"a": 1, "b": 2}, sampler=["b", "a"])
    assert _batches(by_key) == [[2], [1]]


def test_a_sampler_without_length_is_enough_for_iterating() -> None:
    loader = DataLoader(TEN, sampler=iter([1, 2]))
    assert _batches(loader) == [[1], [2]]
    with pytest.raises(TypeError, match="no len"):
        len(loader)


def test_without_batches_samples_are_converted() -> None:
    loader = DataLoader([np.ones(2), 3, "x"], batch_size=None)
    first, second, third = list(loader)
    assert first.tolist() == [1, 1]
    assert (second, third) == (3, "x")
    assert len(loader) == 3


def test_indices_may_be_lists_without_batches() -> None:
    loader = DataLoader(st.arange(10), batch_size=None, sampler=[[1, 2], [5]])
    assert _batches(loader) == [[1, 2], [5]]


def test_collate_functions_get_lists_of_samples() -> None:
    assert list(DataLoader(TEN, batch_size=4, collate_fn=sum)) == [6, 22, 17]
    assert list(DataLoader([1, 2], batch_size=None, collate_fn=str)) == ["1", "2"]
    assert DataLoader(TEN).collate_fn is default_collate
    assert DataLoader(TEN, batch_size=None).collate_fn is default_convert


def test_streams_are_cut_into_batches() -> None:
    stream = sets.Numbers(5)
    assert _batches(DataLoader(stream, batch_size=2)) == [[0, 1], [2, 3], [4]]
    assert _batches(DataLoader(stream, batch_size=2, drop_last=True)) == [[0, 1], [2, 3]]
    assert list(DataLoader(stream, batch_size=None)) == [0, 1, 2, 3, 4]
    assert get_worker_info() is None


def test_streams_have_the_length_they_say() -> None:
    class Long(Claimed):
        def __len__(self) -> int:
            return 7

    assert len(DataLoader(Long(), batch_size=2)) == 4
    assert len(DataLoader(Long(), batch_size=2, drop_last=True)) == 3
    assert len(DataLoader(Long(), batch_size=None)) == 7
    with pytest.raises(TypeError, match="no len"):
        len(DataLoader(sets.Numbers(3)))


def test_a_stream_that_is_longer_than_it_says_warns() -> None:
    loader = DataLoader(Claimed(), batch_size=2)
    assert _batches(loader) == [[0, 1], [2]]  # nobody asked for the length
    assert len(loader) == 1
    with pytest.warns(UserWarning, match=r"reported to be 1\(when .*2 samples have been fetched"):
        list(loader)


@pytest.mark.check
def test_getitems_is_asked_for_whole_batches() -> None:
    class Whole:
        def __init__(self) -> None:
            self.asked: list[Any] = []

        def __len__(self) -> int:
            return 4

        def __getitems__(self, indices: list[int]) -> list[int]:
            self.asked.append(indices)
            return [10 * i for i in indices]

    whole = Whole()
    assert _batches(DataLoader(whole, batch_size=3)) == [[0, 10, 20], [30]]
    assert whole.asked == [[0, 1, 2], [3]]


# --- rows of tensors ---


def test_rows_of_tensors_are_what_single_samples_would_be() -> None:
    images, labels = st.rand(10, 2, 3), st.arange(10)
    dataset = TensorDataset(images, labels)
    fast = list(DataLoader(dataset, batch_size=4))
    slow = list(DataLoader(dataset, batch_size=4, collate_fn=lambda b: default_collate(b)))
    assert [type(batch) for batch in fast] == [list, list, list]
    for batch, expected in zip(fast, slow, strict=True):
        assert all(st.equal(a, b) for a, b in zip(batch, expected, strict=True))
    fast[0][0].fill_(-1)
    assert images.min().item() >= 0  # a copy


def test_rows_of_subsets_and_from_the_end() -> None:
    part = st.utils.data.Subset(TensorDataset(st.arange(10)), [3, -1, 5])
    assert [b[0].tolist() for b in DataLoader(part, batch_size=3)] == [[3, 9, 5]]
    whole = TensorDataset(st.arange(10))
    assert [b[0].tolist() for b in DataLoader(whole, sampler=[-1, 0], batch_size=2)] == [[9, 0]]
    with pytest.raises(IndexError):
        list(DataLoader(whole, sampler=[10]))


def test_rows_with_history_keep_it() -> None:
    weights = st.rand(4, 2, requires_grad=True)
    (batch,) = DataLoader(TensorDataset(weights), batch_size=4)
    assert batch[0].requires_grad


def test_a_subclass_of_rows_has_its_own_way() -> None:
    class Doubled(TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return tuple(2 * row for row in super().__getitem__(index))

    loader = DataLoader(Doubled(st.arange(3)), batch_size=3)
    assert [b[0].tolist() for b in loader] == [[0, 2, 4]]


# --- arguments ---


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"timeout": float("nan")}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor option could only be specified in multiproc"),
        ({"num_workers": 1, "prefetch_factor": -2}, "prefetch_factor option should be non-negat"),
        ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
        ({"multiprocessing_context": "fork"}, "but got num_workers=0"),
        (
            {"num_workers": 1, "multiprocessing_context": "bad"},
            r"valid start method in \['fork', .*got multiprocessing_context='bad'",
        ),
        ({"sampler": [1], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[1]], "shuffle": True}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[1]], "sampler": [1]}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[1]], "drop_last": True}, "batch_sampler option is mutually exclu"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables auto-batching"),
        ({"batch_size": 0}, "but got batch_size=0"),
        ({"batch_size": True}, "but got batch_size=True"),
        ({"output": "jax"}, r"None or one of \['torch', 'numpy'\], but got output='jax'"),
    ],
)
def test_arguments_are_refused(kwargs: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        DataLoader(TEN, **kwargs)


def test_a_context_is_a_context() -> None:
    with pytest.raises(TypeError, match="but got multiprocessing_context=3"):
        DataLoader(TEN, num_workers=1, multiprocessing_context=3)
    for context in (mp.get_context("spawn"), multiprocessing.get_context("spawn")):
        made = DataLoader(TEN, num_workers=1, multiprocessing_context=context)
        assert made.multiprocessing_context is context
    named = DataLoader(TEN, num_workers=1, multiprocessing_context="spawn")
    assert named.multiprocessing_context is mp.get_context("spawn")
    named.multiprocessing_context = "fork"
    assert named.multiprocessing_context is mp.get_context("fork")


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"shuffle": True}, "expected unspecified shuffle option, but got shuffle=True"),
        ({"sampler": [1]}, r"expected unspecified sampler option, but got sampler=\[1\]"),
        ({"batch_sampler": [[1]]}, "expected unspecified batch_sampler option"),
    ],
)
def test_streams_have_an_order_of_their_own(kwargs: Any, text: str) -> None:
    DataLoader(sets.Numbers(3), shuffle=False)
    with pytest.raises(ValueError, match=text):
        DataLoader(sets.Numbers(3), **kwargs)


def test_what_workers_were_told_cannot_change() -> None:
    loader = DataLoader(TEN)
    for name in (
        "batch_size",
        "batch_sampler",
        "sampler",
        "drop_last",
        "dataset",
        "persistent_workers",
    ):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set after DataLoade"):
            setattr(loader, name, 1)
    loader.num_workers = 1
    loader.timeout = 3


def test_more_workers_than_processors_warn() -> None:
    with pytest.warns(UserWarning, match="will create 5000 worker processes in total"):
        DataLoader(TEN, num_workers=5000)


def test_pinning_is_accepted_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert len(list(DataLoader(TEN, pin_memory=True))) == 10
    with (
        pytest.warns(UserWarning, match="pin_memory_device is deprecated"),
        pytest.warns(UserWarning, match="no accelerator is found"),
    ):
        list(DataLoader(TEN, pin_memory=True, pin_memory_device="cuda"))
    list(DataLoader(TEN, pin_memory_device="cuda"))


def test_passes_refuse_what_they_cannot() -> None:
    with pytest.raises(AssertionError, match="requires timeout == 0"):
        iter(DataLoader(TEN, timeout=1))
    with pytest.raises(AssertionError, match="prefetch_factor must be greater than 0"):
        iter(DataLoader(TEN, num_workers=1, prefetch_factor=0))
    with pytest.raises(NotImplementedError, match="cannot be pickled"):
        pickle.dumps(iter(DataLoader(TEN)))


def test_defaults_and_names_that_programs_use() -> None:
    loader = DataLoader(TEN)
    assert (loader.batch_size, loader.num_workers, loader.prefetch_factor) == (1, 0, None)
    assert isinstance(loader.sampler, SequentialSampler)
    assert isinstance(loader.batch_sampler, BatchSampler)
    assert isinstance(DataLoader(TEN, shuffle=True).sampler, RandomSampler)
    assert isinstance(DataLoader(sets.Numbers(2)).sampler, module._InfiniteConstantSampler)
    assert DataLoader(TEN, num_workers=1).prefetch_factor == 2
    assert DataLoader(TEN, batch_sampler=[[0]]).batch_size is None
    assert module._DatasetKind.Map == 0
    assert module._DatasetKind.Iterable == 1
    assert loader._dataset_kind == 0
    assert isinstance(iter(loader), module._SingleProcessDataLoaderIter)
    assert DataLoader[int] is not None


def test_exceptions_of_this_process_come_as_they_are() -> None:
    with pytest.raises(ValueError, match=r"^no sample for 0$"):
        list(DataLoader(sets.Calls(sets.fail)))


@pytest.mark.parametrize(
    ("affinity", "processors", "text"),
    [
        ({0, 1}, 8, "worker in current system is 2, which"),
        (None, 2, r"worker in current system is 2 \(`cpuset` is not taken into account\), which"),
        (None, None, "is not able to compute a suggested max number of worker"),
        ({0, 1, 2}, 1, None),
        (None, 3, None),
    ],
)
def test_more_workers_than_processors_are_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    affinity: set[int] | None,
    processors: int | None,
    text: str | None,
) -> None:
    if affinity is None:
        monkeypatch.delattr(os, "sched_getaffinity")
    else:
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: affinity)
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        DataLoader([1], num_workers=3)
    found = [str(w.message) for w in seen]
    if text is None:
        assert found == []
    else:
        assert len(found) == 1 and "will create 3 worker processes in total. " in found[0]
        assert re.search(text, found[0])
