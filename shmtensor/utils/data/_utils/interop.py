"""Converts torch tensors and NumPy arrays from and to our tensors without a copy.

torch is imported only on request. When a sample is a torch tensor, the program has imported it
already.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor._core._tensor import Tensor
from shmtensor._core._torch_memory import carrier_of
from shmtensor.utils.data._utils.tree import map_leaves

__all__ = [
    "OUTPUTS",
    "converter",
    "from_torch",
    "has_torch_dtype",
    "is_array",
    "is_torch_stream",
    "is_torch_tensor",
    "loaded_torch",
    "prepare_torch",
    "to_torch",
]

#: What `DataLoader` takes as *output*, beside None.
OUTPUTS = ("torch", "numpy")


def loaded_torch() -> Any:
    """Return the module torch if the program has loaded it, else None.

    A program may have imported this package under the name torch; that does not count.
    """
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return torch if isinstance(kind, type) and not issubclass(kind, Tensor) else None


def is_torch_tensor(value: object) -> bool:
    """Whether *value* is a tensor of torch."""
    torch = loaded_torch()
    return torch is not None and isinstance(value, torch.Tensor)


def has_torch_dtype(tensor: Any) -> bool:
    """Whether a dense torch tensor on the CPU is of a dtype that only torch has."""
    torch = loaded_torch()
    is_dense = tensor.layout is torch.strided and tensor.device.type == "cpu"
    return is_dense and not tensor.is_quantized and carrier_of(tensor.dtype) is not tensor.dtype


def is_array(value: object) -> bool:
    """Whether *value* is an array of NumPy, which is not loaded for the question."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_torch_stream(dataset: object) -> bool:
    """Whether *dataset* is an ``IterableDataset`` of torch."""
    torch = loaded_torch()
    return torch is not None and isinstance(dataset, torch.utils.data.IterableDataset)


def prepare_torch(worker_id: int, num_workers: int, seed: int, dataset: Any) -> None:
    """Prepare torch, if it is loaded, in this worker process like in a worker of its own loader."""
    torch = loaded_torch()
    if torch is None:
        return
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    state = torch.utils.data._utils.worker
    # torch's datasets ask torch which worker they are in.
    state._worker_info = state.WorkerInfo(
        id=worker_id, num_workers=num_workers, seed=seed, dataset=dataset
    )


def from_torch(tensor: Any) -> Any:
    """Return a tensor over the memory of a torch tensor.

    Raises:
        BufferError: It requires grad, or is not a dense tensor on the CPU.
    """
    return _C.from_dlpack(tensor)


def to_torch(tensor: Any) -> Any:
    """Return a torch tensor over the memory of *tensor*, and keep *tensor* alive."""
    return importlib.import_module("torch").from_dlpack(tensor.detach())


def _torch_leaf(value: Any) -> Any:
    return to_torch(value) if isinstance(value, Tensor) else value


def _numpy_leaf(value: Any) -> Any:
    if isinstance(value, Tensor) or is_torch_tensor(value):
        return value.detach().numpy()
    return value


def converter(output: str | None) -> Callable[[Any], Any] | None:
    """Return the function that converts a batch to the library *output*; None: no conversion.

    Raises:
        ValueError: There is no such output.
        ModuleNotFoundError: torch is not installed.
    """
    if output is None:
        return None
    if output not in OUTPUTS:
        raise ValueError(
            f"output option should be None or one of {list(OUTPUTS)}, but got output={output!r}"
        )
    leaf = _numpy_leaf
    if output == "torch":
        importlib.import_module("torch")
        leaf = _torch_leaf
    return lambda batch: map_leaves(leaf, batch)
