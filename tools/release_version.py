"""Check that a tag, the package's version and the changelog name the same release.

python tools/release_version.py v0.2.0
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def package_version(root: Path = ROOT) -> str:
    """Return ``__version__`` of shmtensor/__init__.py, without importing it.

    Raises:
        LookupError: It is not assigned a text there.
    """
    for node in ast.parse((root / "shmtensor" / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            if "__version__" in names and isinstance(node.value.value, str):
                return node.value.value
    raise LookupError("shmtensor/__init__.py assigns no text to __version__")


def findings(tag: str, root: Path = ROOT) -> list[str]:
    """Return what is wrong with releasing *tag*; empty: nothing."""
    version = package_version(root)
    found = []
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, shmtensor.__version__ is {version}")
    heading = rf"^## {re.escape(version)} \(\d{{4}}-\d\d-\d\d\)$"
    if not re.search(heading, (root / "CHANGELOG.md").read_text(), re.M):
        found.append(f"CHANGELOG.md has no heading '## {version} (YYYY-MM-DD)'")
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit("\n".join(findings(sys.argv[1])) or 0)
