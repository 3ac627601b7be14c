"""How this package was built.

Source:
    torch.__config__.
"""

from __future__ import annotations

import platform
import sysconfig

from shmtensor import _C, __version__
from shmtensor._boundary.runtime import cpu_capability

__all__ = ["parallel_info", "show"]


def show() -> str:
    """Return what the package was built with, a line for each fact."""
    lines = (
        f"shmtensor {__version__} built with:",
        f"  - C compiler: {sysconfig.get_config_var('CC')}",
        f"  - Python {platform.python_version()}",
        "  - OpenBLAS for products and LAPACK",
        f"  - CPU capability usage: {cpu_capability()}",
    )
    return "\n".join(lines) + "\n"


def parallel_info() -> str:
    """Return how work is split over threads, a line for each fact."""
    return (
        "Parallel:\n"
        f"\tget_num_threads() : {_C.get_num_threads()}\n"
        "threads of our own, which take stretches of an operator's elements\n"
    )


def _cxx_flags() -> str:
    return str(sysconfig.get_config_var("CFLAGS") or "")
