"""`DataLoader`: batches of a dataset, which worker processes make in advance.

The batches of worker processes are in shared memory, in blocks that are reused.
`shmtensor.utils.data._utils.worker_loop` describes the messages to and from the workers.
"""

from __future__ import annotations

import multiprocessing as _standard
import multiprocessing.context
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, cast

from shmtensor.multiprocessing import context as _context
from shmtensor.utils.data._utils.collate import default_collate, default_convert
from shmtensor.utils.data._utils.fetch import _DatasetKind
from shmtensor.utils.data._utils.interop import converter
from shmtensor.utils.data._utils.iterators import (
    _BaseDataLoaderIter,
    _SingleProcessDataLoaderIter,
)
from shmtensor.utils.data._utils.multiprocess import _MultiProcessingDataLoaderIter
from shmtensor.utils.data._utils.worker import get_worker_info
from shmtensor.utils.data.dataset import Dataset, is_stream
from shmtensor.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = [
    "DataLoader",
    "_BaseDataLoaderIter",
    "_DatasetKind",
    "_InfiniteConstantSampler",
    "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter",
    "default_collate",
    "default_convert",
    "get_worker_info",
]

_T_co = TypeVar("_T_co", covariant=True)

_T = TypeVar("_T")
_collate_fn_t: TypeAlias = Callable[[list[_T]], Any]

#: What cannot change once workers may have been told of it.
_FIXED = (
    "batch_size",
    "batch_sampler",
    "sampler",
    "drop_last",
    "dataset",
    "persistent_workers",
)


class _InfiniteConstantSampler(Sampler[None]):
    """An endless iterator over None, because a stream has no indices."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[_T_co]):
    """An iterable over the batches of a dataset.

    Args:
        dataset: Map-style, or an `IterableDataset`.
        batch_size: Samples in a batch; None: samples come one by one, as they are.
        shuffle: Take the samples in random order, a new one for each pass.
        sampler: The order of the samples, as an iterable of indices; instead of *shuffle*.
        batch_sampler: The indices of each batch, as an iterable of lists.
        num_workers: Number of worker processes; 0: this process makes each batch on request.
        collate_fn: Makes a batch from a list of samples; by default `default_collate`, or
            `default_convert` without batches.
        pin_memory: Accepted; there is no accelerator to pin memory for.
        drop_last: Leave out a last batch that is shorter.
        timeout: Seconds to wait for a batch of a worker; 0: wait forever.
        worker_init_fn: Each worker calls it with its number, after seeding.
        multiprocessing_context: The name of a start method, or a context of this package or of the
            standard one; None: that of the program.
        generator: Draws the order and the workers' seeds; None: the default generator.
        prefetch_factor: How many batches each worker makes in advance; None: 2.
        persistent_workers: Keep the workers for the next passes.
        pin_memory_device: Accepted and ignored.
        in_order: Return batches in order, and not as soon as they are ready.
        output: ``"torch"`` or ``"numpy"``: batches contain torch tensors or NumPy arrays over our
            memory; None: they are what *collate_fn* returns.

    Raises:
        ValueError: An argument is invalid, or arguments exclude each other; the text names them.
        TypeError: *multiprocessing_context* is neither a context nor a name.

    Source:
        torch.utils.data.DataLoader; the same seed gives torch's batches.
    """

    dataset: Any
    batch_size: int | None
    num_workers: int
    sampler: Any
    batch_sampler: Any
    _iterator: _MultiProcessingDataLoaderIter | None = None
    __initialized = False

    def __init__(
        self,
        dataset: Dataset[_T_co] | Sequence[_T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler[Any] | Iterable[Any] | None = None,
        batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: _collate_fn_t[Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], object] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
        output: str | None = None,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        converter(output)
        self.output = output
        if is_stream(dataset):
            self._dataset_kind = _DatasetKind.Iterable
            _check_stream(shuffle, sampler, batch_sampler)
        else:
            self._dataset_kind = _DatasetKind.Map
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
            drop_last = False
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle), generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self.check_worker_number_rationality()

    def _default_sampler(self, shuffle: bool, generator: Any) -> Sampler[Any]:
        if self._dataset_kind == _DatasetKind.Iterable:
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=generator)
        return SequentialSampler(self.dataset)

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts worker processes; None: that of the program."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            context = self._checked_context(context)
        self.__multiprocessing_context = context

    def _checked_context(self, context: Any) -> Any:
        if self.num_workers <= 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading "
                f"(num_workers > 0), but got num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            methods = _standard.get_all_start_methods()
            if context not in methods:
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{methods!r}, but got multiprocessing_context={context!r}"
                )
            return _context._default_context.get_context(context)
        if not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                "multiprocessing_context option should be a valid context object or a string "
                f"specifying the start method, but got multiprocessing_context={context}"
            )
        return context

    def __setattr__(self, attr: str, val: Any) -> None:
        if self.__initialized and attr in _FIXED:
            raise ValueError(
                f"{attr} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(attr, val)

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.persistent_workers or self.num_workers <= 0:
            once: _BaseDataLoaderIter = self._get_iterator()
            return once
        if self._iterator is None or self._iterator._shutdown:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return cast(_BaseDataLoaderIter, self._iterator)

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        self.check_worker_number_rationality()
        return _MultiProcessingDataLoaderIter(self)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __len__(self) -> int:
        """Return the number of batches.

        For a stream it is an estimate from the length of the dataset, if that has one.

        Raises:
            TypeError: The sampler, or the stream, has no length.
        """
        if self._dataset_kind != _DatasetKind.Iterable:
            return len(self._index_sampler)
        n = len(self.dataset)
        self._IterableDataset_len_called = n
        if self.batch_size is None:
            return n
        if self.drop_last:
            return n // self.batch_size
        return -(-n // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Warn when there would be more workers than processors that this process may use."""
        # Programs take sched_getaffinity away to be told of all processors.
        has_affinity = hasattr(os, "sched_getaffinity")
        n = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count()
        if n is not None and self.num_workers <= n:
            return
        known = "" if has_affinity else " (`cpuset` is not taken into account)"
        suggested = (
            "DataLoader is not able to compute a suggested max number of worker in current system."
            if n is None
            else f"Our suggested max number of worker in current system is {n}{known}, which is "
            "smaller than what this DataLoader is going to create."
        )
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {suggested}"
            " Please be aware that excessive worker creation might get DataLoader running slow or "
            "even freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; "
            "use num_workers=0 to disable multiprocessing."
        )
    if timeout < 0 or timeout != timeout:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream(shuffle: object, sampler: object, batch_sampler: object) -> None:
    kind = "DataLoader with IterableDataset: expected unspecified"
    if shuffle not in {False, None}:
        raise ValueError(f"{kind} shuffle option, but got shuffle={shuffle}")
    if sampler is not None:
        raise ValueError(f"{kind} sampler option, but got sampler={sampler}")
    if batch_sampler is not None:
        raise ValueError(f"{kind} batch_sampler option, but got batch_sampler={batch_sampler}")
