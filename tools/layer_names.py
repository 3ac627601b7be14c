"""No function or macro of one layer has the name of one of another layer.

Who searches for a name finds one definition. The linker says so only of functions that are not
``static``; this also looks at inline functions and macros of headers, and at templates.
"""

from __future__ import annotations

import re
from collections import defaultdict

from tree import CSRC, c_files

_NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
_MACRO = re.compile(r"^#\s*define\s+(SHMT_\w+|shmt_\w+)", re.M)
#: A definition begins in the first column; its parameters may have one more level of parentheses.
_FUNCTION = re.compile(r"^\w[\w *]*?\b(shmt_\w+)\((?:[^()]|\([^()]*\))*\)\s*\{", re.M)


def findings() -> list[str]:
    """Names that more than one layer defines."""
    places: dict[str, dict[str, str]] = defaultdict(dict)
    for path in c_files(".c", ".h"):
        file = path.relative_to(CSRC)
        text = _NOT_CODE.sub(" ", path.read_text())
        for name in _MACRO.findall(text) + _FUNCTION.findall(text):
            places[name][file.parts[0]] = file.as_posix()
    return [
        f"csrc/{sorted(files.values())[0]}:1: {name} is also defined in {sorted(files.values())[1]}"
        for name, files in sorted(places.items())
        if len(files) > 1
    ]
