"""Datasets, samplers and `DataLoader`, as in `torch.utils.data`, with batches in shared memory."""

from __future__ import annotations

from shmtensor._core._lazy import submodules
from shmtensor.utils.data.dataloader import (
    DataLoader,
    _DatasetKind,
    default_collate,
    default_convert,
    get_worker_info,
)
from shmtensor.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from shmtensor.utils.data.distributed import DistributedSampler
from shmtensor.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from shmtensor.utils.data.shared import SharedTensorDataset

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SharedTensorDataset",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "_DatasetKind",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]

#: torch's names that are missing here.
_OF_DATAPIPES = {
    "DFIterDataPipe",
    "DataChunk",
    "IterDataPipe",
    "MapDataPipe",
    "argument_validation",
    "functional_datapipe",
    "graph",
    "graph_settings",
    "guaranteed_datapipes_determinism",
    "non_deterministic",
    "runtime_validation",
    "runtime_validation_disabled",
}


submodules(__name__, "datapipes")


def __getattr__(name: str) -> object:
    if name in _OF_DATAPIPES:
        raise AttributeError(
            f"{__name__}.{name}: datapipes are not part of shmtensor; "
            "Dataset and IterableDataset do what they do"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
