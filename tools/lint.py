"""Run every check that ``make lint`` promises; all of them run, whatever fails before.

``python tools/lint.py layers ruff`` runs just those.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from tree import ROOT

PYTHON = sys.executable
STEPS: dict[str, list[str]] = {
    "codegen": [PYTHON, "-m", "codegen", "--check"],
    "layers": [PYTHON, "tools/check_layers.py"],
    "words": [PYTHON, "tools/check_words.py"],
    "locks": [PYTHON, "tools/check_locks.py"],
    "stdlib": [PYTHON, "tools/check_stdlib.py"],
    "headers": [PYTHON, "tools/check_headers.py"],
    "style": [PYTHON, "tools/check_style.py"],
    "public-abi": [PYTHON, "tools/public_symbols.py"],
    "strict-c": [PYTHON, "tools/strict_c.py", "sources"],
    "figures": [PYTHON, "benchmarks/figures.py", "--check"],
    "docs": [PYTHON, "tools/check_docs.py"],
    "ruff": [PYTHON, "-m", "ruff", "check", "-q", "."],
    "ruff-format": [PYTHON, "-m", "ruff", "format", "-q", "--check", "."],
    "codespell": [PYTHON, "-m", "codespell_lib", "."],
}


def main(names: list[str]) -> int:
    """Run the steps; returns 1 when any of them failed."""
    unknown = sorted(set(names) - set(STEPS))
    if unknown:
        print(f"no step named {', '.join(unknown)}; there are {', '.join(STEPS)}")
        return 2
    failed = []
    for name in names or list(STEPS):
        start = time.monotonic()
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "csrc")}
        result = subprocess.run(STEPS[name], cwd=ROOT, env=environment, check=False)
        verdict = "ok" if result.returncode == 0 else "FAILED"
        print(f"{name:12} {verdict:6} {time.monotonic() - start:5.1f} s", flush=True)
        if result.returncode != 0:
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
