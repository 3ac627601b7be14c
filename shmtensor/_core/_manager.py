"""The ``shmtensor-manager`` command: runs the daemon from the package."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def executable() -> Path:
    """Return the path of this installation's manager program."""
    return Path(__file__).resolve().parents[1] / "bin" / "shmtensor-manager"


def main() -> None:
    """Become the manager, with the arguments of this command."""
    program = str(executable())
    os.execv(program, [program, *sys.argv[1:]])
