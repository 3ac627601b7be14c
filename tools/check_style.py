"""Rules no other tool knows: width of C, first lines, assert, switches over dtypes, refusals."""

from __future__ import annotations

import re
from pathlib import Path

from tree import CSRC, c_files, main, rel

MAX_COLUMNS = 120  # as in .clang-format

#: The text of a dtype without a kernel, and the file whose function gives it.
NO_KERNEL, ITS_FILE = re.compile(r"\\?\" not implemented for '"), "ops/check.c"


_COMMENT = re.compile(r"/\*.*?\*/", re.S)


def _dtype_names() -> list[str]:
    text = (CSRC / "spec" / "dtypes.yaml").read_text()
    return [name.upper() for name in re.findall(r"^- \{name: (\w+)", text, re.M)]


def _without_comments(text: str) -> str:
    """C text with comments and strings blanked, line for line."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


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
    dtype_case = re.compile(rf"\bcase\s+SHMT_({'|'.join(_dtype_names())})\b")
    for path in c_files(".c", ".h"):
        text = path.read_text()
        name = path.relative_to(CSRC).as_posix()
        found += _width(path, text)
        if not text.startswith(f"/* {name} -- "):
            found.append(f"{rel(path)}:1: does not begin with '/* {name} -- '")
        if name != ITS_FILE and NO_KERNEL.search(_COMMENT.sub("", text)):
            found.append(f"{rel(path)}: refuses a dtype in words of its own; use SHMT_REFUSE_DTYPE")
        for number, line in enumerate(_without_comments(text).split("\n"), 1):
            if re.search(r"(?<![\w])assert\s*\(", line):
                found.append(f"{rel(path)}:{number}: assert(); use SHMT_ASSERT")
            if dtype_case.search(line):
                found.append(
                    f"{rel(path)}:{number}: a switch over dtypes belongs to generated code"
                )
    found += [
        f"{rel(path)}: refuses a dtype in words of its own; use refuse_dtype"
        for path in sorted((CSRC / "spec").rglob("*.yaml"))
        if NO_KERNEL.search(path.read_text())
    ]
    return found


if __name__ == "__main__":
    main("check_style", check)
