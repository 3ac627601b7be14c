"""The programs of docs/posix.md run as they stand."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import service_programs as programs
import waiting
from documents import ROOT, blocks

from shmtensor import posix

_PAGE = ROOT / "docs" / "posix.md"


@pytest.mark.check
def test_c_program_of_the_page_adds_to_the_tensor(
    run: type[programs.Program], tmp_path: Path
) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc")
    if posix.exists("/grid"):
        pytest.skip("another program uses /grid")
    python, c = (
        next(b.text for b in blocks(_PAGE) if b.text.startswith(t)) for t in ("# g", "/* a")
    )
    (tmp_path / "add.c").write_text(c)
    plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    command = [compiler, "add.c", "-o", "add", "-pthread", "-lrt"]
    subprocess.run(command, check=True, cwd=tmp_path, env=plain)
    env = {"SHMTENSOR_SERVICE": programs.unused_name()}
    assert run(python, env=env, cwd=tmp_path).finish() == "24.0\n"
    waiting.until(lambda: not posix.exists("/grid"))


def test_other_programs_of_the_page(run: type[programs.Program]) -> None:
    rest = [
        b.text for b in blocks(_PAGE) if b.text.startswith(("from shmtensor", "import asyncio"))
    ]
    assert len(rest) == 2
    said = [run(text).finish() for text in rest]
    assert said == ["7.0\n7 False\n", "Message(data=b'a job', priority=3)\n"]
