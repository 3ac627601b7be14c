"""C code speaks the field's words: identifiers that name a thing otherwise are findings.

``docs/glossary.md`` has the words of our own that stay. A part of an identifier (what stands
between underscores) must not be one of ``WORDS``; each row says what the field calls it.
"""

from __future__ import annotations

import re
from collections import Counter

from tree import c_files, main, rel

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
    "twister": "mt19937",
    "lazy": "conj_neg",
    "formula": "scalar_expression",
    "formulas": "expressions",
    "ask": "request",
    "asker": "requester",
    "asking": "request",
    "keeper": "arena_manager",
    "look": "sweep",
    "observe": "inspect",
    "holdings": "held_blocks",
    "sync": "named_lock",
    "syncs": "named_locks",
    "windows": "pool_windows, im2col, window_functions",
}
#: Identifiers that are right as they are: the field's own, or in the glossary.
ALLOWED = re.compile(
    r"(?:.*choose_(?:\w+_)?algorithm.*|__builtin_choose_expr|reflection_pad.*|.*_reflection_pad.*"
    r"|fsync|msync|.*_async.*)"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_NOT_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


def findings_of(text: str) -> Counter[str]:
    """How often each identifier with such a word occurs in C text."""
    code = _NOT_CODE.sub(" ", text)
    found: Counter[str] = Counter()
    for name in _IDENTIFIER.findall(code):
        if ALLOWED.fullmatch(name):
            continue
        if any(part in WORDS for part in name.lower().split("_")):
            found[name] += 1
    return found


def check() -> list[str]:
    """All findings."""
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


if __name__ == "__main__":
    main("check_words", check)
