"""Programs in C and C++ that are compiled with the installed headers and library, as users do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from shmtensor import _C

#: Where the package's binaries lie: of a sanitizer build, its own tree.
PACKAGE = Path(str(_C.__file__)).parent
_SANITIZERS = {
    "asan": ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"],
    "tsan": ["-fsanitize=thread"],
}


def environment() -> dict[str, str]:
    """The environment for such a program, which brings a sanitizer of its own, and no settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "LD_PRELOAD" and not name.startswith("SHMTENSOR_")
    }
    # A test ends without releasing what it made.
    kept["ASAN_OPTIONS"] = kept.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    return kept


def compiled(source: Path, target: Path, *flags: str) -> Path:
    """Compile and link a program; returns *target*."""
    is_c = source.suffix == ".c"
    compiler = os.environ.get("CC" if is_c else "CXX", "gcc" if is_c else "g++").split()
    command = [
        *compiler,
        "-std=c11" if is_c and "gnu" not in "".join(flags) else "-std=c++17" if not is_c else "-g",
        *("-g", "-O1", "-pthread", "-Wall", "-Wextra", "-Wno-unused-function", "-Werror"),
        *_SANITIZERS.get(os.environ.get("SHMTENSOR_SANITIZER", ""), []),
        *flags,
        f"-I{PACKAGE / 'include'}",
        str(source),
        *("-o", str(target)),
        *(f"-L{PACKAGE / 'lib'}", "-lshmtensor", f"-Wl,-rpath,{PACKAGE / 'lib'}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    return target
