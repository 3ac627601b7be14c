"""Compile for syntax only, with warnings that cffi's own output could not meet.

``headers`` compiles every header alone, ``sources`` every hand-written C file, also those of the
tests: no other check would see that a target of the fuzzers is out of date.
"""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tree import CSRC, GENERATED, ROOT, c_files, rel, report

FLAGS = (
    "-std=gnu11 -Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla"
    " -Wwrite-strings -Wundef -Werror -fsyntax-only -pthread"
).split()


def _command(path: Path) -> list[str]:
    compiler = os.environ.get("CC", "").split() or [shutil.which("gcc") or "cc"]
    command = [*compiler, *FLAGS, f"-I{rel(GENERATED)}", f"-I{rel(GENERATED.parent)}", "-Icsrc"]
    if ROOT / "tests" in path.parents or ROOT / "examples" in path.parents:
        command.append("-Icsrc/capi")  # as programs find the installed headers
    if CSRC / "python" in path.parents:
        command += ["-isystem", sysconfig.get_paths()["include"]]
    return command


def _source(path: Path) -> str:
    return _run([*_command(path), rel(path)], "")


def _header(path: Path) -> str:
    name = path.relative_to(CSRC).as_posix()
    text = f'#include "{name}"\n#include "{name}"\nextern int shmt__not_empty;\n'
    return _run([*_command(path), "-x", "c", "-"], text)


def _run(command: list[str], text: str) -> str:
    result = subprocess.run(
        command, input=text, capture_output=True, text=True, cwd=ROOT, check=False
    )
    return result.stderr.strip() if result.returncode else ""


def sources() -> list[str]:
    """What the compiler says about C files."""
    return _all(_source, [*c_files(".c"), *sorted((ROOT / "tests").rglob("*.c"))])


def headers() -> list[str]:
    """What the compiler says about headers; templates are compiled by their includers."""
    return _all(_header, [h for h in c_files(".h") if not h.name.endswith(".tmpl.h")])


def _all(check, paths: list[Path]) -> list[str]:  # type: ignore[no-untyped-def]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [text for text in pool.map(check, paths) if text]


if __name__ == "__main__":
    what = {"headers": headers, "sources": sources}
    chosen = sys.argv[1:] or list(what)
    sys.exit(max(report(f"strict C, {name}", what[name]()) for name in chosen))
