"""Parts of tensors for accelerators, and the way back: there are no accelerators.

Source:
    torch.nn.parallel.scatter_gather.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["gather", "scatter"]


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> NoReturn:
    """Split tensors over accelerators.

    Raises:
        AssertionError: There are none.
    """
    raise AssertionError("Torch not compiled with CUDA enabled")


def gather(outputs: Any, target_device: Any, dim: int = 0) -> NoReturn:
    """Join tensors from accelerators.

    Raises:
        AssertionError: There are none.
    """
    raise AssertionError("Gather function not implemented for CPU tensors")
