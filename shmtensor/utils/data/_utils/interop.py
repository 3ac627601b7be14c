"""Tensors of torch and arrays of NumPy, seen from here and handed out from here without a copy.

torch is never imported but on demand: where a sample is a torch tensor, torch is there already.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from shmtensor import _C
from shmtensor._tensor import Tensor
from shmtensor.utils.data._utils.tree import map_leaves

__all__ = [
    "OUTPUTS",
    "converter",
    "from_torch",
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

    A program may have this package under that name; that is not torch.
    """
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    return torch if isinstance(kind, type) and not issubclass(kind, Tensor) else None


def is_torch_tensor(value: object) -> bool:
    """Whether *value* is a tensor of torch."""
    torch = loaded_torch()
    return torch is not None and isinstance(value, torch.Tensor)


def is_torch_stream(dataset: object) -> bool:
    """Whether *dataset* is an ``IterableDataset`` of torch."""
    torch = loaded_torch()
    return torch is not None and isinstance(dataset, torch.utils.data.IterableDataset)


def prepare_torch(worker_id: int, num_workers: int, seed: int, dataset: Any) -> None:
    """Make torch, if it is loaded, in this worker process what it is in its own loader's."""
    torch = loaded_torch()
    if torch is None:
        return
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    state = torch.utils.data._utils.worker
    # Its datasets ask it which worker they are in.
    state._worker_info = state.WorkerInfo(
        id=worker_id, num_workers=num_workers, seed=seed, dataset=dataset
    )


def from_torch(tensor: Any) -> Any:
    """Return a tensor over the memory of a torch tensor.

    Raises:
        BufferError: It requires grad, or is no dense tensor in this machine's memory.
    """
    return _C.from_dlpack(tensor)


def to_torch(tensor: Any) -> Any:
    """Return a torch tensor over the memory of *tensor*, which it keeps alive."""
    return importlib.import_module("torch").from_dlpack(tensor.detach())


def _torch_leaf(value: Any) -> Any:
    return to_torch(value) if isinstance(value, Tensor) else value


def _numpy_leaf(value: Any) -> Any:
    if isinstance(value, Tensor) or is_torch_tensor(value):
        return value.detach().numpy()
    return value


def converter(output: str | None) -> Callable[[Any], Any] | None:
    """Return what makes a batch one of the library *output*; None for batches as they are.

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
