"""Paths and findings that the checks share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
PACKAGE = ROOT / "shmtensor"
BUILD = ROOT / "build" / "native"
GENERATED = BUILD / "generated"


def rel(path: Path) -> str:
    """*path* from the project's root, with forward slashes."""
    return path.relative_to(ROOT).as_posix()


def c_files(*suffixes: str) -> list[Path]:
    """Hand-written C files with one of the suffixes, sorted."""
    return sorted(p for p in CSRC.rglob("*") if p.suffix in suffixes and p.is_file())


def python_files(*folders: str) -> list[Path]:
    """Hand-written Python files below the folders, sorted."""
    return sorted(
        p
        for folder in folders
        for p in (ROOT / folder).rglob("*.py")
        if "_generated" not in p.parts and "__pycache__" not in p.parts
    )


def report(name: str, findings: Iterable[str]) -> int:
    """Print findings; returns the exit status."""
    found = list(findings)
    for line in found:
        print(line)
    if found:
        print(f"{name}: {len(found)} findings", file=sys.stderr)
    return 1 if found else 0


def main(name: str, check: Callable[[], list[str]]) -> None:
    """Run one check as a program."""
    sys.exit(report(name, check()))
