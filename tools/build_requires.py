"""Print the build requirements of pyproject.toml, one shell word each."""

from __future__ import annotations

import re
from pathlib import Path


def main() -> None:
    """Read ``[build-system] requires``; a regular expression does, as tomllib is 3.11+."""
    text = (Path(__file__).resolve().parent.parent / "pyproject.toml").read_text()
    block = re.search(r"requires = \[(.*?)\n\]", text, re.S)
    if block is None:
        raise SystemExit("pyproject.toml: no build-system requires")
    names = re.findall(r'"([^"]+)"', block.group(1))
    print("\n".join(names))


if __name__ == "__main__":
    main()
