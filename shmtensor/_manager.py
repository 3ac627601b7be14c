"""The ``shmtensor-manager`` command: run the daemon that lies in the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def executable() -> Path:
    """Where the manager program of this installation is."""
    return Path(__file__).resolve().parent / "bin" / "shmtensor-manager"


def main() -> None:
    """Become the manager; the arguments are passed on."""
    program = str(executable())
    os.execv(program, [program, *sys.argv[1:]])
