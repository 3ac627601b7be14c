"""Extensions in C++ against torch's headers, which are not here: they are neither built nor loaded.

Source:
    torch.utils.cpp_extension.
"""

from __future__ import annotations

import os
import shutil
from typing import Any

from shmtensor._core._not_offered import unavailable_class, unavailable_names

_WHAT = (
    "there are no C++ headers here; operators are defined with shmtensor.library, kernels in C "
    "may be called through ctypes or cffi"
)
_REFUSED = "CUDAExtension CppExtension SyclExtension load load_inline".split()

__all__ = [
    "BuildExtension",
    "check_compiler_is_gcc",
    "check_compiler_ok_for_platform",
    "get_cxx_compiler",
    "get_default_build_root",
    "include_paths",
    "is_ninja_available",
    "library_paths",
    "verify_ninja_availability",
    *_REFUSED,
]

__getattr__, __dir__ = unavailable_names(__name__, _REFUSED, _WHAT)

BuildExtension: Any = unavailable_class("BuildExtension", __name__, _WHAT)

IS_WINDOWS = False
IS_MACOS = False
IS_LINUX = True
CUDA_HOME: str | None = None
ROCM_HOME: str | None = None
CUDNN_HOME: str | None = None
SYCL_HOME: str | None = None


def include_paths(device_type: str = "cpu", torch_include_dirs: bool = True) -> list[str]:
    """Return the folders of headers: there are none."""
    return []


def library_paths(
    device_type: str = "cpu",
    torch_include_dirs: bool = True,
    cross_target_platform: str | None = None,
) -> list[str]:
    """Return the folders of libraries to link: there are none."""
    return []


def get_default_build_root() -> str:
    """Return the folder in which extensions would be built."""
    cache = os.getenv("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    return os.getenv("TORCH_EXTENSIONS_DIR", os.path.join(cache, "torch_extensions"))


def get_cxx_compiler() -> str:
    """Return the compiler: what ``$CXX`` says, else ``c++``."""
    return os.getenv("CXX", "c++")


def check_compiler_ok_for_platform(compiler: str) -> bool:
    """Return whether there is such a program."""
    return shutil.which(compiler) is not None


def check_compiler_is_gcc(compiler: str) -> bool:
    """Return whether a program is GCC's compiler of C++, by its name."""
    found = shutil.which(compiler)
    return found is not None and "g++" in os.path.basename(os.path.realpath(found))


def is_ninja_available() -> bool:
    """Return whether there is the program ``ninja``."""
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """Raise RuntimeError if there is no program ``ninja``."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions")
