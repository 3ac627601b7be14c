"""The tree speaks the field's words: names that call a thing otherwise are findings.

``docs/glossary.md`` has the words of our own that stay. A part of a C identifier (what stands
between underscores) must not be one of ``WORDS``; each row says what the field calls it. The words
of ``PRIVATE`` must not occur in any file: not in names, comments, documents or file names.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tree import ROOT, c_files, main, python_files, rel

#: word: what the field says.
WORDS = {
    "weigh": "weight_grad",
    "weighing": "weight_grad",
    "turn": "flip (of a filter), input_grad",
    "turned": "flipped, transposed",
    "pixels": "nhwc, channels_last",
    "laid": "relayout, packed",
    "way": "algorithm",
    "ways": "algorithms",
    "told": "args",
    "places": "indices, positions",
    "extremes": "min_max",
    "truth": "logical",
    "choose": "where, select; choose_algorithm",
    "reflection": "householder",
    "reflections": "householder",
    "triangle": "triangular, tril, triu, trsm",
    "triangles": "triangular, tril, triu",
    "bags": "embedding_bag",
    "lines": "rows, slices",
    "numbers": "scalars",
    "arrange": "repeat, roll",
    "grids": "meshgrid",
    "pick": "gather",
    "picked": "gathered",
    "halves": "half, float16",
    "lazy": "conj_neg",
    "formula": "scalar_expression",
    "formulas": "expressions",
    "ask": "request",
    "asker": "requester",
    "asking": "request",
    "look": "sweep",
    "observe": "inspect",
    "sync": "named_lock",
    "syncs": "named_locks",
    "windows": "pool_windows, im2col, window_functions",
    "strangers": "unidentified connections",
    "suspect": "recheck",
    "doubt": "backoff",
    "world": "incarnation",
    "sole": "alone",
}
#: Words that nothing here may use, and what the field says.
PRIVATE = {
    "keeper": "arena manager, owner",
    "holdings": "held blocks, held resources",
    "twister": "mt19937",
    "door": "entry point, call form",
    "doors": "entry points, call forms",
    "crowd": "many processes, busy machine",
    "crowded": "busy",
    "ledger": "record of a client",
    "ledgers": "records of clients",
    "census": "count",
    "epitaph": "exit record",
    "riders": "passengers of another call; say what they are",
    "whereabouts": "position, location",
    "patients": "samples",
}
#: Identifiers that are right as they are: the field's own, or in the glossary.
ALLOWED = re.compile(
    r"(?:.*choose_(?:\w+_)?algorithm.*|__builtin_choose_expr|reflection_pad.*|.*_reflection_pad.*"
    r"|fsync|msync|AT_STATX_DONT_SYNC|.*_async.*)"
)
#: This list, and the decision that tells of the old words.
_SPEAKS_OF_THEM = {"tools/check_words.py", "docs/adr/0050-one-folder-for-each-family.md"}
_FOLDERS = ("shmtensor", "tests", "benchmarks", "examples", "tools", "csrc")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
_PRIVATE = re.compile(rf"(?<![A-Za-z])(?:{'|'.join(PRIVATE)})(?![A-Za-z])", re.I)


def findings_of(text: str) -> Counter[str]:
    """How often each identifier with a word of ``WORDS`` occurs in C text."""
    code = _NOT_CODE.sub(" ", text)
    found: Counter[str] = Counter()
    for name in _IDENTIFIER.findall(code):
        if ALLOWED.fullmatch(name):
            continue
        if any(part in WORDS for part in name.lower().split("_")):
            found[name] += 1
    return found


def _check_c() -> list[str]:
    found = []
    for path in c_files(".c", ".h"):
        text = path.read_text()
        for name, count in sorted(findings_of(text).items()):
            words = [p for p in name.lower().split("_") if p in WORDS]
            line = text.count("\n", 0, text.find(name)) + 1
            said = "; ".join(f"{w}: {WORDS[w]}" for w in words)
            found.append(f"{rel(path)}:{line}: {name} ({count} times): {said}")
        stem = path.name.split(".")[0]
        if any(part in WORDS for part in stem.split("_")):
            found.append(f"{rel(path)}:1: the file's name")
    return found


def _texts() -> list[Path]:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "csrc").rglob("*.md")]
    spec = (ROOT / "csrc").rglob("*.yaml")
    return sorted({*documents, *spec, *c_files(".c", ".h"), *python_files(*_FOLDERS)})


def _check_private() -> list[str]:
    found = []
    for path in _texts():
        if rel(path) in _SPEAKS_OF_THEM:
            continue
        for number, line in enumerate([path.name, *path.read_text().splitlines()]):
            for word in _PRIVATE.findall(line):
                found.append(f"{rel(path)}:{number or 1}: {word}: {PRIVATE[word.lower()]}")
    return found


def check() -> list[str]:
    """All findings."""
    return _check_c() + _check_private()


if __name__ == "__main__":
    main("check_words", check)
