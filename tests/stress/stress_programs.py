"""Programs in a session of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import waiting

import shmtensor


def run(
    text: str, *arguments: object, prefix: tuple[str, ...] = (), timeout_s: float = 1700
) -> str:
    """Run Python text to its end; gives what it printed. *prefix* goes before the interpreter."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("SHMTENSOR_")}
    env["PYTHONPATH"] = waiting.python_path(Path(shmtensor.__file__).parents[1])
    result = subprocess.run(
        [*prefix, sys.executable, "-c", text, *map(str, arguments)],
        env=env,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return result.stdout
