"""Samplers: the order in which a loader reads the samples of a dataset.

The same seed gives the same order as in torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from numbers import Integral
from typing import Any, Generic, TypeVar

from shmtensor import _C
from shmtensor._core._tensor import Tensor

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

_T_co = TypeVar("_T_co", covariant=True)

#: Numbers that `RandomSampler` draws at once with replacement, as torch does.
_AT_ONCE = 32


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and int(value) > 0


class Sampler(Generic[_T_co]):
    """An order of indices, or of lists of indices; subclasses define ``__iter__``.

    ``__len__`` is only needed for the length of a loader.

    Source:
        torch.utils.data.Sampler.
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """The indices of a dataset in order.

    Args:
        data_source: A dataset with a length.

    Source:
        torch.utils.data.SequentialSampler.
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _seeded() -> Any:
    """Return a new generator, with a seed that the default generator draws."""
    seed: Any = _C.empty((), dtype=_C.int64).random_()
    return _C.Generator().manual_seed(seed.item())


def _permutation(n: int, generator: Any) -> list[int]:
    drawn: Any = _C.randperm(n, generator=generator)
    numbers: list[int] = drawn.tolist()
    return numbers


class RandomSampler(Sampler[int]):
    """The indices of a dataset in random order.

    Args:
        data_source: A dataset with a length.
        replacement: Draw with replacement; otherwise each index occurs once before any repeats.
        num_samples: How many to draw; None: the dataset's length.
        generator: Draws the order; None: a new one for each pass, which the default one seeds.

    Raises:
        TypeError: *replacement* is not a bool.
        ValueError: *num_samples* (or the dataset's length) is not a positive integer.

    Source:
        torch.utils.data.RandomSampler.
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        if not _is_count(self.num_samples):
            raise ValueError(
                "num_samples should be a positive integer value, "
                f"but got num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """Number of indices in a pass; the dataset's present length unless it was given."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = _seeded() if self.generator is None else self.generator
        if self.replacement:
            for start in range(0, self.num_samples, _AT_ONCE):
                size = (min(_AT_ONCE, self.num_samples - start),)
                drawn: Any = _C.randint(high=n, size=size, dtype=_C.int64, generator=generator)
                yield from drawn.tolist()
            return
        for _ in range(self.num_samples // n):
            yield from _permutation(n, generator)
        # Draw also when nothing is left, like torch, since the generator's next pass depends on it.
        yield from _permutation(n, generator)[: self.num_samples % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order, each once.

    Args:
        indices: The indices.
        generator: Draws the order; None: the default generator.

    Source:
        torch.utils.data.SubsetRandomSampler.
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in _permutation(len(self.indices), self.generator):
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Random indices with given probabilities.

    Args:
        weights: The weight of each index; they need not sum to 1.
        num_samples: How many to draw.
        replacement: Whether an index may be drawn again.
        generator: Draws the indices; None: the default generator.

    Raises:
        ValueError: *num_samples* is not a positive integer, *replacement* is not a bool, or
            *weights* is not one-dimensional.

    Source:
        torch.utils.data.WeightedRandomSampler.
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        if not _is_count(num_samples) or isinstance(num_samples, bool):
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        converted: Any = _C.as_tensor(weights, dtype=_C.float64)
        if converted.dim() != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(converted.shape)}"
            )
        self.weights = converted
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn: Any = _C.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler, in lists of *batch_size*.

    Args:
        sampler: A sampler, or any iterable.
        batch_size: Length of a list.
        drop_last: Leave out a last list that is shorter.

    Raises:
        ValueError: *batch_size* is not a positive integer, or *drop_last* is not a bool.

    Source:
        torch.utils.data.BatchSampler.
    """

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        if not _is_count(batch_size) or isinstance(batch_size, bool):
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        source = iter(self.sampler)
        while batch := list(islice(source, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        n: int = len(self.sampler)  # type: ignore[arg-type] # any iterable; Python says so if not
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
