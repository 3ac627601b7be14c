"""Fetches the samples of a batch from a dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor.utils.data._utils.collate import (
    collate_tensor_fn,
    default_collate,
    default_collate_fn_map,
    new_batch,
)
from shmtensor.utils.data.dataset import Subset, TensorDataset

__all__ = [
    "_BaseDatasetFetcher",
    "_DatasetKind",
    "_IterableDatasetFetcher",
    "_MapDatasetFetcher",
    "not_an_end",
]


class _BaseDatasetFetcher:
    """Fetches batches, or single samples when there is no collation.

    Args:
        dataset: The source of the samples.
        auto_collation: Whether an index is a list of indices.
        collate_fn: Makes the result from the samples.
        drop_last: For a stream: whether to leave out a last batch that is shorter.
    """

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        self.dataset = dataset
        self.auto_collation = auto_collation
        self.collate_fn = collate_fn
        self.drop_last = drop_last

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return the batch, or sample, of an index."""
        raise NotImplementedError


def not_an_end(what: str) -> RuntimeError:
    """Return the error for a StopIteration that is no iterator's end.

    Note: as in a generator, StopIteration out of a function that is called in between does not end
    our iteration: the rest would be missing silently.
    """
    return RuntimeError(f"{what} raised StopIteration")


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Fetches from a stream. An index only says how many samples a batch has."""

    def __init__(
        self,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> None:
        super().__init__(dataset, auto_collation, collate_fn, drop_last)
        try:
            self.dataset_iter = iter(dataset)
        except StopIteration as error:
            raise not_an_end("the dataset's __iter__") from error
        self.ended = False

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return the next batch, or sample.

        Raises:
            StopIteration: There is none.
        """
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self._collated(next(self.dataset_iter))
        samples: list[Any] = []
        for _ in possibly_batched_index:
            try:
                samples.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        is_short = len(samples) < len(possibly_batched_index)
        if not samples or (self.drop_last and is_short):
            raise StopIteration
        return self._collated(samples)

    def _collated(self, samples: Any) -> Any:
        try:
            return self.collate_fn(samples)
        except StopIteration as error:
            raise not_an_end("collate_fn") from error


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Fetches from a map-style dataset, by an index or a list of indices."""

    def fetch(self, possibly_batched_index: Any) -> Any:
        """Return the batch, or sample, of an index."""
        try:
            return self._fetched(possibly_batched_index)
        except StopIteration as error:
            raise not_an_end("the dataset or collate_fn") from error

    def _fetched(self, possibly_batched_index: Any) -> Any:
        if not self.auto_collation:
            return self.collate_fn(self.dataset[possibly_batched_index])
        if self.collate_fn is default_collate:
            rows = _gathered_rows(self.dataset, possibly_batched_index)
            if rows is not None:
                return rows
        if getattr(self.dataset, "__getitems__", None):
            return self.collate_fn(self.dataset.__getitems__(possibly_batched_index))
        return self.collate_fn([self.dataset[i] for i in possibly_batched_index])


def _is_rows_of_tensors(dataset: Any) -> bool:
    """Whether *dataset* behaves like a `TensorDataset` and its tensors are plain ones."""
    kind = type(dataset)
    return (
        isinstance(dataset, TensorDataset)
        and kind.__getitem__ is TensorDataset.__getitem__
        and kind.__len__ is TensorDataset.__len__
        and not hasattr(dataset, "__getitems__")
        and len(dataset.tensors) > 0
        and all(type(t) is Tensor and not (t.requires_grad or t.is_meta) for t in dataset.tensors)
        and default_collate_fn_map.get(Tensor) is collate_tensor_fn  # programs may replace it
    )


def _gathered_rows(dataset: Any, indices: Any) -> Any:
    """Return the batch that `default_collate` would make from rows of tensors, or None.

    The rows are copied directly into the batch, without a tensor for each of them.
    """
    if type(indices) is not list or not indices or any(type(i) is not int for i in indices):
        return None
    while type(dataset) is Subset:
        if not -len(dataset.indices) <= min(indices) <= max(indices) < len(dataset.indices):
            return None
        indices = [dataset.indices[i] for i in indices]
        dataset = dataset.dataset
    if not _is_rows_of_tensors(dataset) or any(type(i) is not int for i in indices):
        return None
    n = len(dataset)
    if not -n <= min(indices) <= max(indices) < n:
        return None  # the dataset's own indexing raises the error
    index = _C.tensor([i + n if i < 0 else i for i in indices])
    batch = []
    for tensor in dataset.tensors:
        out = new_batch((len(indices), *tensor.shape[1:]), tensor.dtype)
        batch.append(_C.index_select(tensor, 0, index, out=out))
    return batch


class _DatasetKind:
    """The kinds of datasets: map-style, and streams."""

    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int,
        dataset: Any,
        auto_collation: bool,
        collate_fn: Callable[[Any], Any],
        drop_last: bool,
    ) -> _BaseDatasetFetcher:
        """Return the fetcher for a dataset of this kind."""
        maker = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return maker(dataset, auto_collation, collate_fn, drop_last)
