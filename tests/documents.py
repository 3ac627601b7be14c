"""The documents of the repository, and the blocks of code in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MADE_BY_TOOLS = ("docs/parity.md", "docs/reference/")
FOLDERS = ("benchmarks", "csrc", "docs", "examples", "tests")


def identity(path: Path) -> str:
    """Return the path below the root, for test names."""
    return path.relative_to(ROOT).as_posix()


DOCUMENTS = [
    path
    for path in [*ROOT.glob("*.md"), *(p for f in FOLDERS for p in (ROOT / f).rglob("*.md"))]
    if not identity(path).startswith(MADE_BY_TOOLS)
]
DOCUMENTS.sort()


@dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: What stands behind the fence; "" for none.
        text: The lines without the indentation of the fence.
    """

    language: str
    text: str


def blocks(document: Path) -> list[Block]:
    """Return the fenced blocks of a document, those inside lists too."""
    found = []
    pattern = r"^( *)```(\w*)[^\n]*\n(.*?)^\1```"
    for indent, language, text in re.findall(pattern, document.read_text(), re.S | re.M):
        lines = [line.removeprefix(indent) for line in text.splitlines()]
        found.append(Block(language, "\n".join(lines) + "\n"))
    return found


def programs(document: Path) -> list[str]:
    """Return the Python programs of a document."""
    return [block.text for block in blocks(document) if block.language == "python"]


def without_code(text: str) -> str:
    """Return a document's text without blocks and spans of code."""
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.S | re.M)
    return re.sub(r"`[^`\n]*`", "", text)
