"""Make the two changes of README.md in a copy of the sources: ``apply.py <folder>``."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ENTRIES = "csrc/spec/ops/pointwise/binary.yaml"
TEMPLATE = "csrc/kernels/pointwise/binary_math.tmpl.h"
BESIDE = r"\w+\(hypot,"


def code_block(language: str) -> str:
    """The first block of a language in README.md."""
    text = (Path(__file__).resolve().parent / "README.md").read_text()
    found = re.search(rf"```{language}\n(.*?)```", text, re.S)
    if found is None:
        raise SystemExit(f"README.md has no {language} block")
    return found.group(1)


def insert_entry(text: str, entry: str) -> str:
    """Put an operator's entry at its place in the alphabet."""
    name = entry.split("\n")[0]
    starts = [m.start() for m in re.finditer(r"^- op: ", text, re.M)]
    later = [at for at in starts if text[at:].split("\n")[0] > name]
    at = later[0] if later else len(text)
    return f"{text[:at].rstrip()}\n\n{entry.strip()}\n\n{text[at:]}".rstrip() + "\n"


def insert_line(text: str, line: str) -> str:
    """Put a kernel's line below the one it belongs beside."""
    lines = text.split("\n")
    at = next(i for i, known in enumerate(lines) if re.match(BESIDE, known))
    return "\n".join([*lines[: at + 1], line.strip(), *lines[at + 1 :]])


def apply(root: Path) -> None:
    """Change the sources below *root*."""
    entries, template = root / ENTRIES, root / TEMPLATE
    entries.write_text(insert_entry(entries.read_text(), code_block("yaml")))
    template.write_text(insert_line(template.read_text(), code_block("c")))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: apply.py <folder with a copy of the sources>")
    apply(Path(sys.argv[1]))
