"""Datasets: what they return, and what they refuse.

Not covered: what loaders make of them (test_loader, test_workers).
"""

from __future__ import annotations

from typing import Any

import pytest

import shmtensor as st
from shmtensor.utils.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)

TEN = list(range(10))


class Stream(IterableDataset[int]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Any:
        return iter(range(self.n))


class LongStream(Stream):
    def __len__(self) -> int:
        return self.n


class Batches(Dataset[int]):
    """Has a `__getitems__` that returns so many samples more than it was asked for."""

    def __init__(self, n_more: int = 0) -> None:
        self.n_more = n_more
        self.asked: list[Any] = []

    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        return index

    def __getitems__(self, indices: list[int]) -> list[int]:
        self.asked.append(indices)
        return [10 * i for i in indices] + [0] * self.n_more


@pytest.mark.check
def test_base_classes_ask_for_methods() -> None:
    with pytest.raises(NotImplementedError, match="should implement __getitem__"):
        Dataset()[0]
    with pytest.raises(TypeError, match="no len"):
        len(Dataset())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="abstract"):
        IterableDataset()  # type: ignore[abstract]


def test_classes_take_type_parameters() -> None:
    class Typed(Dataset[tuple[int, str]]):
        pass

    assert issubclass(Typed, Dataset)


# --- tensors ---


def test_tensor_dataset_gives_rows_of_all_tensors() -> None:
    dataset = TensorDataset(st.arange(6).view(3, 2), st.tensor([7, 8, 9]))
    assert len(dataset) == 3
    first, second = dataset[1]
    assert first.tolist() == [2, 3]
    assert second.item() == 8
    assert [t.tolist() for t in dataset[1:]] == [[[2, 3], [4, 5]], [8, 9]]
    assert dataset[-1][1].item() == 9


def test_tensor_dataset_refuses_unlike_lengths() -> None:
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(st.ones(2), st.ones(3))
    with pytest.raises(IndexError):
        TensorDataset(st.ones(()))
    with pytest.raises(IndexError):
        TensorDataset(st.ones(2))[2]


# --- side by side ---


def test_stack_dataset_makes_tuples_or_dicts() -> None:
    letters = [chr(ord("a") + i) for i in TEN]
    assert StackDataset(TEN, letters)[2] == (2, "c")
    assert StackDataset(number=TEN, letter=letters)[2] == {"number": 2, "letter": "c"}
    assert len(StackDataset(TEN, letters)) == 10
    assert StackDataset(TEN, letters).__getitems__([1, 3]) == [(1, "b"), (3, "d")]
    assert StackDataset(n=TEN).__getitems__([1]) == [{"n": 1}]


def test_stack_dataset_asks_members_for_whole_batches() -> None:
    member = Batches()
    assert StackDataset(member, TEN).__getitems__([1, 2]) == [(10, 1), (20, 2)]
    assert member.asked == [[1, 2]]


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "At least one dataset should be passed"),
        ((TEN,), {"a": TEN}, "both types are given"),
        ((TEN, [1]), {}, "Size mismatch between datasets"),
        ((), {"a": TEN, "b": [1]}, "Size mismatch between datasets"),
    ],
)
def test_stack_dataset_refuses(args: Any, kwargs: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        StackDataset(*args, **kwargs)


def test_stack_dataset_refuses_members_that_give_too_much() -> None:
    with pytest.raises(ValueError, match="Expected 2, got 3"):
        StackDataset(TEN, Batches(1)).__getitems__([1, 2])


# --- one behind the other ---


def test_concat_dataset_counts_through() -> None:
    both = ConcatDataset([TEN[:3], TEN[5:], TEN[:1]])
    assert len(both) == 9
    assert [both[i] for i in range(9)] == [0, 1, 2, 5, 6, 7, 8, 9, 0]
    assert both[-1] == 0
    assert both[-9] == 0
    assert both.cumulative_sizes == [3, 8, 9]
    with pytest.warns(FutureWarning, match="renamed to `cumulative_sizes`"):
        assert both.cummulative_sizes == [3, 8, 9]
    with pytest.raises(ValueError, match="absolute value of index"):
        both[-10]
    with pytest.raises(IndexError):
        both[9]


def test_concat_dataset_skips_empty_members() -> None:
    assert [ConcatDataset([[], [1], [], [2]])[i] for i in range(2)] == [1, 2]


@pytest.mark.check
def test_concat_dataset_refuses() -> None:
    with pytest.raises(AssertionError, match="should not be an empty iterable"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="does not support IterableDataset"):
        ConcatDataset([Stream(2)])


def test_sum_of_datasets() -> None:
    both = Batches() + Batches()
    assert isinstance(both, ConcatDataset)
    assert len(both) == 20
    chain = Stream(2) + Stream(3)
    assert isinstance(chain, ChainDataset)
    assert list(chain) == [0, 1, 0, 1, 2]


def test_chain_dataset_has_the_length_of_all_members() -> None:
    assert len(ChainDataset([LongStream(2), LongStream(5)])) == 7
    with pytest.raises(TypeError, match="no len"):
        len(ChainDataset([Stream(2)]))
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(ChainDataset([TEN]))
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        len(ChainDataset([TEN]))


# --- parts ---


def test_subset_gives_the_samples_of_its_indices() -> None:
    part = Subset(TEN, [3, 1, 4])
    assert len(part) == 3
    assert [part[i] for i in range(3)] == [3, 1, 4]
    assert part[-1] == 4
    assert part.__getitems__([2, 0]) == [4, 3]
    assert Subset(st.arange(5), [4, 2])[[0, 1]].tolist() == [4, 2]


def test_subset_asks_for_whole_batches_where_it_can() -> None:
    whole = Batches()
    assert Subset(Subset(whole, [5, 6, 7]), [2, 0]).__getitems__([0, 1]) == [70, 50]
    assert whole.asked == [[7, 5]]


def test_subset_whose_subclass_forgets_getitems_says_so() -> None:
    class Doubled(Subset[int]):
        def __getitem__(self, idx: Any) -> int:
            return 2 * super().__getitem__(idx)

    class Bare(Doubled):
        def __init__(self) -> None:
            self.dataset, self.indices = TEN, [4]

    class Whole(Doubled):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [self[i] for i in indices]

    text = "overrides __getitem__ but not __getitems__"
    with pytest.raises(NotImplementedError, match=f"Doubled {text}"):
        Doubled(TEN, [4])
    assert Bare()[0] == 8
    with pytest.raises(NotImplementedError, match=f"Bare {text}"):
        Bare().__getitems__([0])
    assert Whole(TEN, [4]).__getitems__([0]) == [8]


def test_random_split_shares_all_samples_out() -> None:
    parts = random_split(TEN, [3, 5, 2], generator=st.Generator().manual_seed(1))
    assert [len(part) for part in parts] == [3, 5, 2]
    assert sorted(sample for part in parts for sample in part) == TEN
    again = random_split(TEN, [3, 5, 2], generator=st.Generator().manual_seed(1))
    assert [part.indices for part in parts] == [part.indices for part in again]


def test_random_split_of_fractions_gives_the_rest_out_in_turn() -> None:
    assert [len(part) for part in random_split(TEN, [0.33, 0.33, 0.34])] == [4, 3, 3]
    assert [len(part) for part in random_split(list(range(11)), [0.5, 0.5])] == [6, 5]
    with pytest.warns(UserWarning, match="split at index 1 is 0"):
        assert [len(part) for part in random_split([1], [0.5, 0.5])] == [1, 0]


@pytest.mark.parametrize(
    ("lengths", "text"),
    [
        ([3, 3], "Sum of input lengths does not equal"),
        ([0.5, 0.6], "Sum of input lengths does not equal"),
        ([-0.5, 1.5], "Fraction at index 0 is not between 0 and 1"),
        ([-1, 11], "split at index 0 is negative: -1"),
    ],
)
def test_random_split_refuses(lengths: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        random_split(TEN, lengths)


def test_datapipes_are_named_as_missing() -> None:
    import shmtensor.utils.data as data

    with pytest.raises(AttributeError, match=r"IterDataPipe: datapipes are not part of shmtensor"):
        data.IterDataPipe
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        data.nothing
    assert not hasattr(data, "functional_datapipe")
    assert all(hasattr(data, name) for name in data.__all__)
