"""A header declares what the file of its name defines.

Who reads a declaration then knows where the definition is. ``x.h`` may declare what ``x.c``,
``x_*.c`` and ``*_x.c`` of its folder define; the header that has its folder's name, what any file
of that folder defines. ``csrc/api`` is what the layers offer together, and is left out. Other
headers stand in ``tools/header_homes.txt`` with the reason.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import PurePosixPath

import call_graph
from tree import CSRC, ROOT, c_files

_NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
_BODY = re.compile(r"\{[^{}]*\}")


def _declared(text: str) -> set[str]:
    """Names in the declarations of a header that are neither types nor defined there."""
    text = _DIRECTIVE.sub("", _NOT_CODE.sub(" ", text))
    while _BODY.search(text):
        text = _BODY.sub(";", text)
    names: set[str] = set()
    for statement in text.split(";"):
        if "typedef" not in statement and "static" not in statement:
            names.update(re.findall(r"\bshmt_\w+", statement))
    return names


def _is_home(header: PurePosixPath, source: PurePosixPath) -> bool:
    if source.parent != header.parent:
        return False
    a, b = header.stem, source.stem
    return a in (b, header.parent.name) or b.startswith(f"{a}_") or b.endswith(f"_{a}")


def excused() -> dict[str, str]:
    """Headers that may declare what files of other names define, each with the reason."""
    lines = (ROOT / "tools" / "header_homes.txt").read_text().split("\n")
    return dict(line.split(": ", 1) for line in lines if line and line[0] != "#")


def findings() -> list[str]:
    """Headers that declare what other files define, excuses that nobody needs."""
    defined, _ = call_graph.symbols()
    known = excused()
    used = set()
    found = []
    for path in c_files(".h"):
        header = PurePosixPath(path.relative_to(CSRC).as_posix())
        if header.parts[0] == "api" or header.name.endswith(".tmpl.h"):
            continue
        elsewhere: dict[str, list[str]] = defaultdict(list)
        for name in sorted(_declared(path.read_text())):
            source = defined.get(name)
            if source and not _is_home(header, PurePosixPath(source)):
                elsewhere[source].append(name)
        if elsewhere and str(header) in known:
            used.add(str(header))
        else:
            found += [
                f"csrc/{header}:1: declares {', '.join(names)}, which {source} defines"
                for source, names in elsewhere.items()
            ]
    if defined:
        unneeded = sorted(known.keys() - used)
        found += [f"tools/header_homes.txt:1: not needed: {name}" for name in unneeded]
    return found
