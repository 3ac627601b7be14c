"""Pipes in another order; loaders ask whether a dataset is one.

Source:
    torch.utils.data.datapipes.iter.combinatorics.
"""

from __future__ import annotations

from collections.abc import Iterator

from shmtensor._core._not_offered import unavailable_class
from shmtensor.utils.data.dataset import IterableDataset

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]

_WHAT = "datapipes are not part of shmtensor; IterableDataset does what they do"


class _Pipe(IterableDataset[object]):
    def __iter__(self) -> Iterator[object]:  # for the abstract class; there is no instance
        return iter(())


SamplerIterDataPipe = unavailable_class("SamplerIterDataPipe", __name__, _WHAT, (_Pipe,))
ShufflerIterDataPipe = unavailable_class("ShufflerIterDataPipe", __name__, _WHAT, (_Pipe,))
