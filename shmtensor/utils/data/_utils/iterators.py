"""Iterators of a loader: their base class, and the iterator without worker processes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from shmtensor import _C
from shmtensor.utils.data._utils.fetch import _DatasetKind, not_an_end
from shmtensor.utils.data._utils.interop import converter

__all__ = ["_BaseDataLoaderIter", "_SingleProcessDataLoaderIter"]


def _warn_of_pinning(loader: Any) -> None:
    if not loader.pin_memory:
        return
    if loader.pin_memory_device:
        warnings.warn(
            "pin_memory_device is deprecated, the current accelerator will be used as the device,"
            f"ignore pin_memory_device='{loader.pin_memory_device}'.",
            stacklevel=6,
        )
    warnings.warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned "
        "memory won't be used.",
        stacklevel=6,
    )


class _BaseDataLoaderIter:
    """One pass over a loader's batches."""

    def __init__(self, loader: Any) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._pin_memory = False
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._persistent_workers = loader.persistent_workers
        self._convert = converter(loader.output)
        _warn_of_pinning(loader)
        # The order matters: a sampler's iterator may also draw random numbers.
        self._sampler_iter: Iterator[Any] = iter(self._index_sampler)
        drawn: Any = _C.empty((), dtype=_C.int64).random_(generator=loader.generator)
        self._base_seed = int(drawn.item())
        self._num_yielded = 0

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """Begin another pass."""
        if not first_iter:
            self._sampler_iter = iter(self._index_sampler)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        if not _C._profiler_runs():
            return self._next()
        name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
        recorded = _C._profiler_range_begin(name)
        try:
            return self._next()
        finally:
            if recorded:
                _C._profiler_range_end()

    def _next(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        called = self._IterableDataset_len_called
        is_stream = self._dataset_kind == _DatasetKind.Iterable
        if is_stream and called is not None and self._num_yielded > called:
            self._warn_of_length(called)
        if self._convert is None:
            return data
        try:
            return self._convert(data)
        except StopIteration as error:
            raise not_an_end("the conversion of a batch") from error

    def _warn_of_length(self, called: int) -> None:
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {called}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for "
                "examples."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass in which this process fetches each batch on request."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError("_SingleProcessDataLoaderIter requires timeout == 0")
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
        )

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(self._next_index())
