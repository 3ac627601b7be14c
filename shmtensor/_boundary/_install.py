"""Complete the extension module: its tensor type and operators exist once this is imported."""

from __future__ import annotations

from pathlib import Path

from shmtensor._C import lib

if lib.shmt_python_install() != 0:
    raise ImportError("shmtensor._C could not be completed; the reason is printed above")

# Loading the BLAS sets an environment variable for a moment: safe only before there are threads.
lib.shmt_set_library_dir(str(Path(__file__).resolve().parent.parent / "_libs").encode())
lib.shmt_blas_load()
