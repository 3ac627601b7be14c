"""Say what must be installed by hand before ``make`` can work, and how.

Runs under the system's Python, before any environment exists: standard library only.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig


def missing() -> list[str]:
    """Debian package names of what is not there."""
    packages = []
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        packages.append("python3-venv")
    include = sysconfig.get_paths()["include"]
    if not os.path.exists(os.path.join(include, "Python.h")):
        packages.append("python3-dev")
    compiler = os.environ.get("CC", "").split()
    if not any(shutil.which(c) for c in [*compiler, "gcc", "cc", "clang"]):
        packages.append("gcc")
    if "gcc" in packages or not os.path.exists("/usr/include/stdio.h"):
        packages.append("libc6-dev")
    return packages


def main() -> int:
    """Print the command to run; returns 1 when something is missing."""
    if sys.version_info < (3, 10):  # noqa: UP036 - the machine may have an older one
        print(f"shmtensor needs Python 3.10 or newer, this is {sys.version.split()[0]}")
        return 1
    packages = missing()
    if packages:
        print(f"missing on this machine; run: sudo apt-get install -y {' '.join(packages)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
