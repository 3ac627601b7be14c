"""The version, what the package was built with, and what the machine allows."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import sysconfig
from pathlib import Path

import shmtensor
from shmtensor import _C
from shmtensor._boundary.runtime import blas_library, cpu_capability, only_cpu_capability
from shmtensor.inspect import Check, check_machine

__all__ = ["CHECKS"]


def _version() -> list[Check]:
    name = "version"
    own = shmtensor.__version__
    try:
        installed = importlib.metadata.version("shmtensor")
    except importlib.metadata.PackageNotFoundError:
        advice = "the package is used from a source tree; pip install puts it where it belongs"
        return [Check(name, "note", f"{own}, not installed", advice)]
    if installed != own:
        advice = "another shmtensor comes first in sys.path, or an old one was not removed"
        place = Path(shmtensor.__file__).parent
        return [Check(name, "bad", f"{installed} is installed, {place} is {own}", advice)]
    return [Check(name, "ok", own)]


def _interpreter() -> list[Check]:
    gil_free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    text = f"{platform.python_implementation()} {platform.python_version()}"
    found = [Check("interpreter", "ok", f"{text}, {platform.machine()}, {platform.libc_ver()[1]}")]
    if gil_free:
        enabled = bool(getattr(sys, "_is_gil_enabled", lambda: True)())
        if enabled:
            found.append(Check("interpreter lock", "ok", "on, as the extension needs it"))
        else:
            advice = "only one thread may use tensors; leave PYTHON_GIL=0 and -Xgil=0 out"
            found.append(Check("interpreter lock", "note", "off", advice))
    return found


def _build() -> list[Check]:
    extension = Path(str(_C.__file__))
    size = extension.stat().st_size / 2**20
    level = cpu_capability()
    found = [
        Check("extension", "ok", f"{extension.name}, {size:.1f} MiB"),
        Check("instruction set", "ok", level if only_cpu_capability() is None else f"{level} only"),
    ]
    library = blas_library()
    if library == "none":
        advice = "products run on built-in loops, which are slower; install a build with OpenBLAS"
        found.append(Check("BLAS", "note", "none", advice))
    else:
        found.append(Check("BLAS", "ok", os.path.basename(library)))
    return found


CHECKS = [_version, _interpreter, _build, check_machine]
