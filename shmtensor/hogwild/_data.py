"""Which batches a worker gets: its share of every epoch, the same ones whenever it starts again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import shmtensor
from shmtensor.utils.data import SharedTensorDataset, TensorDataset, default_collate

__all__ = ["MapDataset", "Shards"]

Source = Callable[[Any], Iterable[Any]]


class MapDataset(Protocol):
    """A map-style dataset of `utils.data`: samples by number."""

    def __getitem__(self, index: int, /) -> object:
        """Return the sample of this number."""

    def __len__(self) -> int:
        """Return how many there are."""


class Shards:
    """Data that workers share.

    Each epoch shuffles all samples, by the seed and the epoch alone, and each of n workers takes
    every n-th sample. So all workers together see each sample once in an epoch, and a worker that
    starts again at some step continues where it was.

    Args:
        data: A tensor or a tuple of tensors with the same first dimension, a map-style dataset, or
            a function of a worker that returns its batches.
        batch_size: Samples in a batch; the last batch of an epoch may have fewer.
        n_workers: How many share it.
        seed: Decides the order.
        node: This node's number; several nodes share the data.
        n_nodes: How many nodes there are, each with *n_workers*.

    Raises:
        TypeError: *data* is none of these.
        ValueError: There are fewer samples than workers.
    """

    def __init__(
        self,
        data: Any,
        batch_size: int,
        n_workers: int,
        seed: int,
        node: int = 0,
        n_nodes: int = 1,
    ) -> None:
        self.batch_size = batch_size
        self.n_workers = n_workers
        self.node = node
        self.n_nodes = n_nodes
        self._first_rank = node * n_workers
        self._n_shares = n_nodes * n_workers
        self.seed = seed
        self._source: Source | None = None
        self._dataset: Any = None
        if isinstance(data, shmtensor.Tensor):
            data = (data,)
        if isinstance(data, tuple):
            self._dataset = SharedTensorDataset(*data)
        elif type(data) is TensorDataset:
            self._dataset = SharedTensorDataset(*data.tensors)
        elif hasattr(data, "__getitem__") and hasattr(data, "__len__"):
            self._dataset = data
        elif callable(data):
            self._source = data
        else:
            raise TypeError(
                "hogwild.run(): data must be tensors, a map-style dataset or a function of a "
                f"worker, got {type(data).__name__}"
            )
        if self._dataset is not None and len(self._dataset) < self._n_shares:
            raise ValueError(
                f"hogwild.run(): {self._n_shares} workers cannot share {len(self._dataset)} samples"
            )

    @property
    def n_samples(self) -> int:
        """Samples of all workers together; 0 if only the function knows."""
        return 0 if self._dataset is None else len(self._dataset)

    @property
    def steps_per_epoch(self) -> int | None:
        """Batches of each worker in an epoch; None if only the function knows.

        All workers have the same number: if the samples do not divide evenly, some take a batch
        with one sample less.
        """
        if self._dataset is None:
            return None
        per_worker = -(-len(self._dataset) // self._n_shares)
        return -(-per_worker // self.batch_size)

    def batches(self, worker: Any, first_step: int) -> Iterator[Any]:
        """The batches of *worker* from *first_step* on; only a function's have an end."""
        if self._source is not None:
            yield from self._source(worker)
            return
        per_epoch = self.steps_per_epoch
        assert per_epoch is not None
        epoch, begin = divmod(first_step, per_epoch)
        while True:
            mine = self._order(epoch)[self._first_rank + worker.rank :: self._n_shares]
            for i in range(begin, per_epoch):
                # Of a worker with one sample less the last batch may be empty: it takes the first.
                chosen = mine[i * self.batch_size : (i + 1) * self.batch_size]
                yield self._batch(chosen if len(chosen) else mine[: self.batch_size])
            epoch, begin = epoch + 1, 0

    def _order(self, epoch: int) -> Any:
        generator = shmtensor.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**64)
        return shmtensor.randperm(len(self._dataset), generator=generator)

    def _batch(self, chosen: Any) -> Any:
        if isinstance(self._dataset, SharedTensorDataset):
            rows = tuple(tensor.index_select(0, chosen) for tensor in self._dataset.tensors)
            return rows if len(rows) > 1 else rows[0]
        return default_collate([self._dataset[i] for i in chosen.tolist()])
