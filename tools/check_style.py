"""Rules no other tool knows: length and width, first lines, assert, switches over dtypes.

A file of more than 600 lines needs a line ``path: reason`` in ``tools/long_files.txt``.
"""

from __future__ import annotations

import re
from pathlib import Path

from tree import CSRC, ROOT, c_files, main, python_files, rel

MAX_LINES = 600
MAX_COLUMNS = 120  # of C, as in .clang-format
PYTHON_FOLDERS = ("shmtensor", "tests", "examples", "benchmarks", "tools", "csrc/codegen")


def _dtype_names() -> list[str]:
    text = (CSRC / "spec" / "dtypes.yaml").read_text()
    return [name.upper() for name in re.findall(r"^- \{name: (\w+)", text, re.M)]


def _excused() -> dict[str, str]:
    path = ROOT / "tools" / "long_files.txt"
    lines = path.read_text().split("\n") if path.exists() else []
    return dict(line.split(": ", 1) for line in lines if ": " in line and line[0] != "#")


def _without_comments(text: str) -> str:
    """C text with comments and strings blanked, line for line."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def _length(path: Path, text: str, excused: dict[str, str]) -> list[str]:
    n_lines = text.count("\n")
    if n_lines > MAX_LINES and rel(path) not in excused:
        return [f"{rel(path)}:{n_lines}: more than {MAX_LINES} lines and no reason given"]
    return []


def _width(path: Path, text: str) -> list[str]:
    # The backslash of a line that a macro continues stands wherever the longest line ends.
    return [
        f"{rel(path)}:{number}: more than {MAX_COLUMNS} columns"
        for number, line in enumerate(text.split("\n"), 1)
        if len(line.removesuffix("\\").rstrip()) > MAX_COLUMNS
    ]


def check() -> list[str]:
    """All findings."""
    found = []
    excused = _excused()
    dtype_case = re.compile(rf"\bcase\s+SHMT_({'|'.join(_dtype_names())})\b")
    for path in c_files(".c", ".h"):
        text = path.read_text()
        name = path.relative_to(CSRC).as_posix()
        found += _length(path, text, excused) + _width(path, text)
        if not text.startswith(f"/* {name} -- "):
            found.append(f"{rel(path)}:1: does not begin with '/* {name} -- '")
        for number, line in enumerate(_without_comments(text).split("\n"), 1):
            if re.search(r"(?<![\w])assert\s*\(", line):
                found.append(f"{rel(path)}:{number}: assert(); use SHMT_ASSERT")
            if dtype_case.search(line):
                found.append(
                    f"{rel(path)}:{number}: a switch over dtypes belongs to generated code"
                )
    for path in python_files(*PYTHON_FOLDERS):
        found += _length(path, path.read_text(), excused)
    for name in excused:
        if not (ROOT / name).exists():
            found.append(f"tools/long_files.txt: {name} does not exist")
    return found


if __name__ == "__main__":
    main("check_style", check)
