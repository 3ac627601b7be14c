"""Which C file calls which, read from the symbol tables of the build: no arrow up, no new circle.

Headers alone prove little: a file of a lower layer can declare what an upper one defines. The
objects of ``build/native`` tell who defines and who needs each symbol. Two findings: a file that
needs a symbol of a higher layer, and files of one layer that need one another, unless
``tools/circles.txt`` lists just those files with a reason. ``header_homes`` asks the same tables
whether a header declares what the file of its name defines.
"""

from __future__ import annotations

import functools
import subprocess
from collections import defaultdict
from pathlib import Path

from tree import BUILD, CSRC, ROOT

Graph = dict[str, dict[str, set[str]]]

_DEFINED = frozenset("TDBRVWC")


def _objects() -> dict[str, Path]:
    """Objects of hand-written files by the file's path below csrc."""
    found = {}
    for path in BUILD.glob("obj*/csrc/**/*.o"):
        source = path.relative_to(BUILD).with_suffix(".c").as_posix().split("/", 2)[2]
        if (CSRC / source).exists():
            found[source] = path
    return found


@functools.cache
def symbols() -> tuple[dict[str, str], dict[str, set[str]]]:
    """The file that defines each symbol, and the symbols that each file needs."""
    defined: dict[str, str] = {}
    needed: dict[str, set[str]] = {}
    for source, path in _objects().items():
        needed[source] = set()
        output = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        for line in output.split("\n"):
            match line.split():
                case ["U", symbol]:
                    needed[source].add(symbol)
                case [_, kind, symbol] if kind in _DEFINED:
                    defined[symbol] = source
    return defined, needed


def calls() -> Graph:
    """For each file the files whose symbols it needs, and which symbols. Empty without a build."""
    defined, needed = symbols()
    graph: Graph = {source: defaultdict(set) for source in needed}
    for source, wanted in needed.items():
        for symbol in wanted:
            owner = defined.get(symbol, source)
            if owner != source:
                graph[source][owner].add(symbol)
    return graph


def circles(graph: Graph, files: set[str]) -> list[frozenset[str]]:
    """The groups of *files* that reach one another (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(file: str) -> None:
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in graph[file]:
            if other in files and other not in index:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], index[other])
        if low[file] == index[file]:
            at = stack.index(file)
            group = frozenset(stack[at:])
            del stack[at:]
            if len(group) > 1:
                found.append(group)

    for file in sorted(files):
        if file not in index:
            visit(file)
    return found


def excused() -> dict[frozenset[str], str]:
    """The circles of ``tools/circles.txt``: files, then a colon and the reason."""
    rows = {}
    for line in (ROOT / "tools" / "circles.txt").read_text().split("\n"):
        if line and line[0] != "#":
            files, reason = line.split(": ", 1)
            rows[frozenset(files.split())] = reason
    return rows


def findings(ranks: dict[str, int]) -> list[str]:
    """Calls to a higher layer, circles nobody excuses, excuses nobody needs."""
    graph = calls()
    layers: dict[str, set[str]] = defaultdict(set)
    found = []
    for file, others in sorted(graph.items()):
        layer = file.split("/")[0]
        layers[layer].add(file)
        for other, symbols in sorted(others.items()):
            if ranks[other.split("/")[0]] > ranks[layer]:
                found.append(f"csrc/{file}:1: needs {', '.join(sorted(symbols))} of {other}")
    known = excused()
    seen = set()
    for files in layers.values():
        for group in circles(graph, files):
            seen.add(group)
            if group not in known:
                found.append(f"csrc/{min(group)}:1: a circle of files: {' '.join(sorted(group))}")
    if graph:
        unneeded = known.keys() - seen
        found += [f"tools/circles.txt:1: no circle: {' '.join(sorted(g))}" for g in unneeded]
    return found
