"""Datasets: sources of samples, which a loader reads by index or as a stream."""

from __future__ import annotations

import bisect
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar, cast

from shmtensor import _C
from shmtensor._C import Generator, default_generator
from shmtensor._core._tensor import Tensor
from shmtensor.utils.data._utils.interop import is_torch_stream

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


def _n_samples(dataset: Any) -> int:
    # A dataset needs no __len__; without one, len() raises Python's own error.
    return len(dataset)


class Dataset(Generic[_T_co]):
    """A map from keys to samples; subclasses define ``__getitem__``.

    Most samplers and the loader's defaults need ``__len__``. ``__getitems__(keys)`` is optional; it
    returns the samples of a whole batch as a list.

    Source:
        torch.utils.data.Dataset.
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """A stream of samples; subclasses define ``__iter__``.

    Each worker process of a loader iterates over its own copy. In ``__iter__``, or in the loader's
    ``worker_init_fn``, `get_worker_info` tells which part of the stream is this worker's.

    Source:
        torch.utils.data.IterableDataset.
    """

    def __add__(self, other: Dataset[_T_co]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


def is_stream(dataset: object) -> bool:
    """Whether *dataset* is a stream; torch's iterable datasets are streams too."""
    return isinstance(dataset, IterableDataset) or is_torch_stream(dataset)


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """The rows of tensors: sample *i* is the tuple of the *i*-th rows.

    Args:
        *tensors: Tensors with the same first dimension.

    Raises:
        AssertionError: The first dimensions differ.

    Source:
        torch.utils.data.TensorDataset.
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """Datasets stacked: a sample contains one sample of each.

    Args:
        *args: Datasets; samples are tuples.
        **kwargs: Datasets by name; samples are dicts with the same names.

    Raises:
        ValueError: There is no dataset, there are both kinds, or the lengths differ.

    Source:
        torch.utils.data.StackDataset.
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or"
                "``dict``- (via ``kwargs``) like input/output, but both types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args or kwargs
        members = self._members()
        self._length = _n_samples(members[0])
        if any(_n_samples(member) != self._length for member in members):
            raise ValueError("Size mismatch between datasets")

    def _members(self) -> list[Any]:
        if isinstance(self.datasets, dict):
            return list(self.datasets.values())
        return list(self.datasets)

    def _sample(self, parts: Iterable[Any]) -> Any:
        if isinstance(self.datasets, dict):
            return dict(zip(self.datasets, parts, strict=True))
        return tuple(parts)

    def __getitem__(self, index: Any) -> Any:
        return self._sample([member[index] for member in self._members()])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Return the samples of *indices*, with one call of each member.

        Raises:
            ValueError: A member's ``__getitems__`` returns another number of samples.
        """
        columns = []
        for member in self._members():
            column = _items(member, indices)
            if len(column) != len(indices):
                raise ValueError(
                    "Nested dataset's output size mismatch. "
                    f"Expected {len(indices)}, got {len(column)}"
                )
            columns.append(column)
        return [self._sample(parts) for parts in zip(*columns, strict=True)]

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Datasets concatenated: the samples of each follow those of the one before.

    Args:
        datasets: Map-style datasets, at least one.

    Raises:
        AssertionError: There is none, or one is an `IterableDataset`.

    Source:
        torch.utils.data.ConcatDataset.
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the cumulative lengths of the datasets of *sequence*."""
        return list(accumulate(len(e) for e in sequence))

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(is_stream(d) for d in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: Any) -> _T_co:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        place = bisect.bisect_right(self.cumulative_sizes, idx)
        if place:
            idx -= self.cumulative_sizes[place - 1]
        return cast(_T_co, self.datasets[place][idx])

    @property
    def cummulative_sizes(self) -> list[int]:
        """The former name of ``cumulative_sizes``; warns."""
        warnings.warn(
            "`cummulative_sizes` attribute is renamed to `cumulative_sizes`",
            FutureWarning,
            stacklevel=2,
        )
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Streams chained one after the other.

    Args:
        datasets: Iterable datasets; each is read when its turn comes.

    Source:
        torch.utils.data.ChainDataset.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        super().__init__()
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not is_stream(dataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(_n_samples(dataset) for dataset in self._checked())


class Subset(Dataset[_T_co]):
    """The samples of a dataset at some indices.

    A subclass that defines ``__getitem__`` must define ``__getitems__`` as well, since the loader
    fetches whole batches.

    Args:
        dataset: The source of the samples.
        indices: The indices of the samples, in order.

    Raises:
        NotImplementedError: A subclass defines only ``__getitem__``.

    Source:
        torch.utils.data.Subset.
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices
        self._check_methods()

    def _check_methods(self) -> None:
        kind = type(self)
        is_own = kind.__getitem__ is not Subset.__getitem__
        if is_own and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__. DataLoader calls "
                "__getitems__ for whole batches; define it as well:\n\n"
                "def __getitems__(self, indices):\n"
                "    return [self.__getitem__(idx) for idx in indices]"
            )

    def __getitem__(self, idx: Any) -> _T_co:
        if isinstance(idx, list):
            return cast(_T_co, self.dataset[[self.indices[i] for i in idx]])
        return cast(_T_co, self.dataset[self.indices[idx]])

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        """Return the samples at positions *indices* of this subset.

        Raises:
            NotImplementedError: A subclass defines only ``__getitem__``.
        """
        self._check_methods()  # subclasses need not call our __init__
        return _items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)


def _items(dataset: Any, indices: list[Any]) -> list[Any]:
    """Return the samples of *indices*, with one call if the dataset has ``__getitems__``."""
    if callable(getattr(dataset, "__getitems__", None)):
        return cast("list[Any]", dataset.__getitems__(indices))
    return [dataset[i] for i in indices]


def _lengths_of_fractions(fractions: Sequence[float], n: int) -> list[int]:
    lengths = []
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        lengths.append(math.floor(n * fraction))
    for i in range(n - sum(lengths)):
        lengths[i % len(lengths)] += 1
    for i, length in enumerate(lengths):
        if length == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return lengths


def random_split(
    dataset: Dataset[_T],
    lengths: Sequence[int | float],
    generator: Generator | None = default_generator,
) -> list[Subset[_T]]:
    """Divide the samples of a dataset at random.

    Args:
        dataset: A map-style dataset with a length.
        lengths: The number of samples of each part, or fractions that sum to 1. Samples that
            remain after rounding go to the parts one by one, from the first part on.
        generator: Draws the permutation; the same seed gives torch's parts.

    Returns:
        The parts, which have no sample in common.

    Raises:
        ValueError: The lengths do not sum to the dataset's length, a length is negative, or a
            fraction is not between 0 and 1.

    Source:
        torch.utils.data.random_split.
    """
    n = _n_samples(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(lengths, n)
    if sum(lengths) != n:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    for i, length in enumerate(lengths):
        if length < 0:
            raise ValueError(f"Length of split at index {i} is negative: {length}")
    counts = cast("Sequence[int]", lengths)
    drawn: Any = _C.randperm(n, generator=generator)
    indices: list[int] = drawn.tolist()
    ends = accumulate(counts)
    return [
        Subset(dataset, indices[end - length : end])
        for end, length in zip(ends, counts, strict=True)
    ]
