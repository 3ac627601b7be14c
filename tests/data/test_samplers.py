"""Samplers: every index as often as it should come, and the same order for the same seed.

Not covered: that the order is torch's (test_against_torch).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import shmtensor as st
from shmtensor.utils.data import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from shmtensor.utils.data.distributed import DistributedSampler

TEN = range(10)


@pytest.mark.check
def test_base_class_asks_for_iter() -> None:
    with pytest.raises(NotImplementedError):
        iter(Sampler())
    with pytest.raises(TypeError):
        len(Sampler())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Sampler(TEN)  # type: ignore[call-arg]


def test_sequential_sampler_goes_through() -> None:
    sampler = SequentialSampler(TEN)
    assert list(sampler) == list(TEN)
    assert len(sampler) == 10


def test_random_sampler_gives_each_index_once() -> None:
    sampler = RandomSampler(TEN)
    assert sorted(sampler) == list(TEN)
    assert len(sampler) == 10
    assert sampler.num_samples == 10


@pytest.mark.parametrize("num_samples", [1, 7, 10, 20, 25])
def test_random_sampler_of_another_length_goes_round(num_samples: int) -> None:
    drawn = list(RandomSampler(TEN, num_samples=num_samples))
    assert len(drawn) == num_samples
    counts = Counter(drawn)
    assert max(counts.values()) - min(counts.get(i, 0) for i in TEN) <= 1


@pytest.mark.parametrize("num_samples", [1, 31, 32, 33, 100])
def test_random_sampler_with_replacement_gives_as_many(num_samples: int) -> None:
    drawn = list(RandomSampler(TEN, replacement=True, num_samples=num_samples))
    assert len(drawn) == num_samples
    assert set(drawn) <= set(TEN)


def test_random_sampler_follows_its_generator_and_the_default_one() -> None:
    generator = st.Generator()
    sampler = RandomSampler(TEN, generator=generator)
    passes = []
    for _ in range(2):
        generator.manual_seed(3)
        passes.append((list(sampler), list(sampler)))
    assert passes[0] == passes[1]
    assert passes[0][0] != passes[0][1]

    st.manual_seed(3)
    first = list(RandomSampler(TEN))
    st.manual_seed(3)
    assert list(RandomSampler(TEN)) == first


def test_random_sampler_follows_a_growing_dataset() -> None:
    source = [1]
    sampler = RandomSampler(source)
    source.append(2)
    assert len(sampler) == 2
    assert sorted(sampler) == [0, 1]


@pytest.mark.parametrize(
    ("kwargs", "kind", "text"),
    [
        ({"replacement": 3}, TypeError, "boolean value, but got replacement=3"),
        ({"num_samples": 0}, ValueError, "positive integer value, but got num_samples=0"),
        ({"num_samples": 2.5}, ValueError, "positive integer value, but got num_samples=2.5"),
    ],
)
def test_random_sampler_refuses(kwargs: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        RandomSampler(TEN, **kwargs)
    with pytest.raises(ValueError, match="num_samples=0"):
        RandomSampler([])


def test_counts_may_be_integers_of_numpy() -> None:
    two = np.int64(2)
    assert list(BatchSampler(range(3), two, False)) == [[0, 1], [2]]  # type: ignore[arg-type]
    assert len(list(RandomSampler(TEN, num_samples=two))) == 2  # type: ignore[arg-type]
    assert len(list(WeightedRandomSampler([1.0, 1.0], two))) == 2  # type: ignore[arg-type]


@pytest.mark.check
def test_subset_random_sampler_gives_its_indices() -> None:
    sampler = SubsetRandomSampler([3, 5, 7])
    assert sorted(sampler) == [3, 5, 7]
    assert len(sampler) == 3
    assert list(SubsetRandomSampler([])) == []


def test_weighted_random_sampler_draws_by_weight() -> None:
    drawn = list(WeightedRandomSampler([0.0, 1.0, 3.0], 400))
    assert len(drawn) == 400
    counts = Counter(drawn)
    assert counts[0] == 0
    assert counts[2] > counts[1] > 0
    assert sorted(WeightedRandomSampler([1, 2, 3], 3, replacement=False)) == [0, 1, 2]


def test_weighted_random_sampler_refuses() -> None:
    for count in (0, True, 2.5, -1):
        with pytest.raises(ValueError, match=f"but got num_samples={count}"):
            WeightedRandomSampler([1, 2], count)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="but got replacement=1"):
        WeightedRandomSampler([1, 2], 2, replacement=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"weights have shape \(1, 2\)"):
        WeightedRandomSampler([[1, 2]], 2)  # type: ignore[list-item]
    with pytest.raises(RuntimeError, match="without replacement"):
        list(WeightedRandomSampler([1, 2], 5, replacement=False))


def test_batch_sampler_cuts_into_lists() -> None:
    assert list(BatchSampler(SequentialSampler(range(5)), 2, False)) == [[0, 1], [2, 3], [4]]
    assert list(BatchSampler(SequentialSampler(range(5)), 2, True)) == [[0, 1], [2, 3]]
    assert [len(BatchSampler(range(n), 3, False)) for n in range(5)] == [0, 1, 1, 1, 2]
    assert [len(BatchSampler(range(n), 3, True)) for n in range(5)] == [0, 0, 0, 1, 1]
    assert list(BatchSampler("abc", 2, False)) == [["a", "b"], ["c"]]  # type: ignore[comparison-overlap]
    assert list(BatchSampler([], 2, False)) == []


def test_batch_sampler_refuses() -> None:
    for size in (0, -1, True, 1.5):
        with pytest.raises(ValueError, match=f"but got batch_size={size}"):
            BatchSampler(TEN, size, False)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="but got drop_last=1"):
        BatchSampler(TEN, 1, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="no len"):
        len(BatchSampler(iter(TEN), 2, False))


# --- shares ---


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("n", [1, 3, 4, 8, 10])
def test_distributed_shares_are_equal_and_cover_all(n: int, shuffle: bool) -> None:
    shares = [list(DistributedSampler(range(n), 4, rank, shuffle=shuffle)) for rank in range(4)]
    assert {len(share) for share in shares} == {-(-n // 4)}
    assert {i for share in shares for i in share} == set(range(n))


@pytest.mark.parametrize("n", [0, 3, 4, 10])
def test_distributed_shares_without_the_tail_have_nothing_twice(n: int) -> None:
    samplers = [DistributedSampler(range(n), 4, rank, drop_last=True) for rank in range(4)]
    drawn = [i for sampler in samplers for i in sampler]
    assert len(drawn) == len(set(drawn)) == n // 4 * 4
    assert [len(sampler) for sampler in samplers] == [n // 4] * 4


def test_distributed_sampler_shuffles_by_seed_and_epoch() -> None:
    sampler = DistributedSampler(range(100), 2, 0, seed=5)
    first = list(sampler)
    assert list(sampler) == first
    sampler.set_epoch(1)
    assert list(sampler) != first
    assert list(DistributedSampler(range(100), 2, 0, seed=6)) == list(sampler)


def test_distributed_sampler_refuses() -> None:
    for rank in (2, -1):
        with pytest.raises(ValueError, match=rf"Invalid rank {rank}, .* interval \[0, 1\]"):
            DistributedSampler(TEN, 2, rank)
    for kwargs in ({}, {"num_replicas": 2}, {"rank": 0}):
        with pytest.raises(ValueError, match="process group has not been initialized"):
            DistributedSampler(TEN, **kwargs)  # type: ignore[arg-type]
