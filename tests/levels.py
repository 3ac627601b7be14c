"""Programs that run at one instruction-set level, which a process chooses when it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import shmtensor as st

LEVELS = ("base", "v3", "v4")


def found_at(level: str, program: ModuleType, **variables: str) -> Any:
    """What the file of *program*, run by itself at *level*, prints as JSON."""
    path = os.pathsep.join([str(Path(st.__file__).parent.parent), *sys.path])
    run = subprocess.run(
        [sys.executable, str(program.__file__)],
        env={**os.environ, "PYTHONPATH": path, "SHMTENSOR_CPU_CAPABILITY": level, **variables},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)
