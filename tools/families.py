"""Each operator family has one name and a folder in each place; no folder grows beyond sight."""

from __future__ import annotations

from pathlib import Path

from tree import CSRC, ROOT, rel

MAX_FILES = 20
#: Folders with more files, and why they stay whole.
LARGE = {
    "csrc/os": "one small pair of files a system facility; their names are the map",
    "csrc/codegen/emit": "one module for each kind of generated file; their names are the map",
    "csrc/kernels/simd": "headers of one kind of function each; their names are the map",
    "csrc/python/autograd": "one small pair of files for each thing of autograd's in Python",
    "csrc/python/ipc": "one small file for each part of queues, topics and locks in Python",
    "csrc/ipc/handle": "one small pair of files for each thing that a handle goes through",
}
#: Families without a folder in csrc/kernels: their operators are made of other families' loops.
WITHOUT_KERNELS = {"embedding"}
#: Folders of csrc/kernels that are no family: what many families' loops are made of.
SHARED_KERNELS = {"simd"}


def _folders(path: Path) -> set[str]:
    return {p.name for p in path.iterdir() if p.is_dir() and p.name != "__pycache__"}


def mirror_findings() -> list[str]:
    """Families that lack a folder, and folders that are no family."""
    families = _folders(CSRC / "ops")
    wanted = {
        "csrc/spec/ops": families,
        "csrc/kernels": (families - WITHOUT_KERNELS) | SHARED_KERNELS,
        "tests/ops": families | {"spec"},
    }
    found = []
    for place, names in wanted.items():
        there = _folders(ROOT / place)
        found += [f"{place}:1: no folder for the family {name!r}" for name in sorted(names - there)]
        found += [f"{place}/{name}:1: no family of csrc/ops" for name in sorted(there - names)]
    for name in sorted(families):
        if not (CSRC / "ops" / name / "README.md").exists():
            found.append(f"csrc/ops/{name}:1: no README.md that says what is here")
    return found


def size_findings() -> list[str]:
    """Folders of csrc with too many files of their own."""
    found = []
    for folder in sorted({p.parent for p in CSRC.rglob("*") if p.is_file()}):
        files = [p for p in folder.iterdir() if p.is_file() and p.name != "README.md"]
        is_listed = rel(folder) in LARGE
        if len(files) > MAX_FILES and not is_listed:
            found.append(f"{rel(folder)}:1: {len(files)} files; divide it or say why it is whole")
        if len(files) <= MAX_FILES and is_listed:
            found.append(f"tools/families.py:1: {rel(folder)} needs no reason: {len(files)} files")
    return found
