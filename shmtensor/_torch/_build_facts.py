"""How this package was built, in the words that programs ask torch with.

Source:
    torch.has_mkl and its like, torch.compiled_with_cxx11_abi, torch.get_file_path.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

from shmtensor import _C

__all__ = [
    "compiled_with_cxx11_abi",
    "get_device_module",
    "get_file_path",
    "has_cuda",
    "has_lapack",
    "has_mkl",
    "has_mkldnn",
    "has_mps",
    "has_openmp",
    "has_spectral",
]

_ROOT = Path(__file__).parents[2]

has_lapack = True
has_spectral = True  # Fourier transforms
has_mkl = False
has_mkldnn = False
has_openmp = False
has_cuda = False
has_mps = False


def compiled_with_cxx11_abi() -> bool:
    """Return whether C++ texts have the layout of 2011: True; there is no C++ here."""
    return True


def get_file_path(*path_components: str) -> str:
    """Return where a file of the package is.

    Args:
        *path_components: The folders and the name, from the one that the package lies in.
    """
    return os.path.join(_ROOT, *path_components)


def get_device_module(device: Any = None) -> ModuleType:
    """Return the namespace of a type of devices: ``shmtensor.cpu`` and its like.

    Args:
        device: A device or its name; None takes the CPU, there is no accelerator.

    Raises:
        RuntimeError: The type has no namespace here.

    Source:
        torch.get_device_module.
    """
    import shmtensor

    kind = _C.device("cpu" if device is None else device).type
    module = getattr(shmtensor, kind, None)
    if not isinstance(module, ModuleType):
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        )
    return module
