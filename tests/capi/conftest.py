"""The folder's helpers as modules, and those of tests/service."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "service"):
    sys.path.insert(0, str(folder))
