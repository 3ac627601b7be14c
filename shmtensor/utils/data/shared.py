"""A dataset in shared memory: one copy for all processes."""

from __future__ import annotations

from typing import Any

from shmtensor import _C, memory
from shmtensor._core._tensor import Tensor
from shmtensor.utils.data._utils.collate import default_convert
from shmtensor.utils.data._utils.interop import from_torch, is_array, is_torch_tensor
from shmtensor.utils.data.dataset import TensorDataset

__all__ = ["SharedTensorDataset"]


def _shared(data: Any) -> Any:
    if isinstance(data, Tensor):
        return data.share_memory_()
    if is_array(data):
        return _C.from_numpy(data, shared=True)
    if is_torch_tensor(data):
        source = from_torch(data.detach())
        return _C.empty(tuple(source.shape), dtype=source.dtype, shared=True).copy_(source)
    raise TypeError(
        "SharedTensorDataset(): expected tensors, arrays or tensors of torch, "
        f"got {type(data).__name__}"
    )


class SharedTensorDataset(TensorDataset):
    """A `TensorDataset` in shared memory: sample *i* is the tuple of the *i*-th rows.

    Worker processes of every start method get it as handles. They read the same memory, and none of
    them has a copy. A write in one process is visible in all.

    Args:
        *tensors: Tensors with the same first dimension. Tensors of this package move into shared
            memory, unless they are there already. NumPy arrays and torch tensors are copied there
            once.

    Raises:
        AssertionError: The first dimensions differ.
        MemoryError: There is not enough shared memory.
        TypeError: An argument is something else.
    """

    def __init__(self, *tensors: Any) -> None:
        super().__init__(*(_shared(tensor) for tensor in tensors))
        # Their private memory is kept for later tensors, and it may be large.
        memory.empty_cache()

    @classmethod
    def from_dataset(cls, dataset: Any) -> SharedTensorDataset:
        """Read all samples of a dataset once and keep them, so that they are decoded only once.

        Args:
            dataset: Map-style, with a length. Each sample is a tensor, array or number, or a tuple
                or list of them. All samples have the same shapes and dtypes.

        Returns:
            A dataset with the samples as rows; each sample is a tuple.

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
    """Return the tensors of a sample, detached."""
    parts = sample if isinstance(sample, (tuple, list)) else (sample,)
    converted = (default_convert(part) for part in parts)
    return [v.detach() if isinstance(v, Tensor) else _C.tensor(v) for v in converted]
