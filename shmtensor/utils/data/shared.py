"""A dataset in shared memory: one copy for all processes."""

from __future__ import annotations

from typing import Any

import numpy as np

from shmtensor import _C, memory
from shmtensor._tensor import Tensor
from shmtensor.utils.data._utils.collate import default_convert
from shmtensor.utils.data._utils.interop import from_torch, is_torch_tensor
from shmtensor.utils.data.dataset import TensorDataset

__all__ = ["SharedTensorDataset"]


def _shared(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data.share_memory_()
    if isinstance(data, np.ndarray):
        return _C.from_numpy(data, shared=True)
    if is_torch_tensor(data):
        source = from_torch(data.detach())
        return _C.empty(tuple(source.shape), dtype=source.dtype, shared=True).copy_(source)
    raise TypeError(
        "SharedTensorDataset(): expected tensors, arrays or tensors of torch, "
        f"got {type(data).__name__}"
    )


class SharedTensorDataset(TensorDataset):
    """The rows of tensors in shared memory.

    It is a `TensorDataset` that goes to worker processes of every start method by handles: they
    read the memory it is in, and none of them has a copy. What one writes, all see.

    Args:
        *tensors: Tensors with the same first dimension. Those of this package move into shared
            memory and stay where they are if they are there; NumPy arrays and tensors of torch are
            copied there, once.

    Raises:
        AssertionError: The first dimensions differ.
        MemoryError: There is not enough shared memory.
        TypeError: One is none of these.
    """

    def __init__(self, *tensors: Any) -> None:
        super().__init__(*(_shared(tensor) for tensor in tensors))
        # Their private memory is kept for later tensors, and it may be large.
        memory.empty_cache()

    @classmethod
    def from_dataset(cls, dataset: Any) -> SharedTensorDataset:
        """Read all samples of a dataset once and keep them, so that nobody need decode them again.

        Args:
            dataset: Map-style, with a length. All samples are tuples or lists of tensors, arrays
                and numbers, or a single one, of the same shapes and dtypes.

        Returns:
            The dataset of their rows; each sample is a tuple.

        Raises:
            IndexError: The dataset is empty.
            RuntimeError: A sample's shapes, dtypes or number of values differ from the first one's.
        """
        n = len(dataset)
        if n == 0:
            raise IndexError("SharedTensorDataset.from_dataset(): the dataset is empty")
        columns: list[Any] = []
        for i in range(n):
            values = _values(dataset[i])
            if i == 0:
                columns = [
                    _C.empty((n, *value.shape), dtype=value.dtype, shared=True) for value in values
                ]
            layout = [(tuple(v.shape), v.dtype) for v in values]
            expected = [(tuple(column.shape[1:]), column.dtype) for column in columns]
            if layout != expected:
                raise RuntimeError(
                    f"SharedTensorDataset.from_dataset(): sample {i} is {layout}, expected "
                    f"{expected} as sample 0"
                )
            for column, value in zip(columns, values, strict=True):
                column[i] = value
        return cls(*columns)


def _values(sample: Any) -> list[Any]:
    """Return the tensors of a sample, without history."""
    parts = sample if isinstance(sample, (tuple, list)) else (sample,)
    converted = (default_convert(part) for part in parts)
    return [v.detach() if isinstance(v, Tensor) else _C.tensor(v) for v in converted]
