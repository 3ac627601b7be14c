"""Complete the extension module: its tensor type and operators exist once this is imported."""

from __future__ import annotations

import os

from shmtensor._C import ffi, lib

if not lib.shmt_has_kernels():
    _only = ffi.string(lib.shmt_only_cpu_capability()).decode()
    _usable = ffi.string(lib.shmt_cpu_capability()).decode()
    raise ImportError(
        f"this build of shmtensor is for processors of level {_only}, and the processor or "
        f"SHMTENSOR_CPU_CAPABILITY says {_usable}; python build_ffi.py builds all levels"
    )
if lib.shmt_python_install() != 0:
    raise ImportError("shmtensor._C could not be completed; the reason is printed above")

# Loading the BLAS sets an environment variable for a moment: safe only before there are threads.
_package = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
lib.shmt_set_library_dir(os.path.join(_package, "_libs").encode())
lib.shmt_blas_load()
