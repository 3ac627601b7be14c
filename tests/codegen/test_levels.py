"""Which loops a process takes: those of its processor's level, or of the only level there is.

Compiles the generated tables with loops that do nothing. That a build compiles the loops which
these tables name is in packaging/test_build_ffi.py.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have one level"),
]

# What api/runtime.h says, and which loop of add there is for float32.
PROGRAM = """
#include "api/runtime.h"
#include "generated/operator_loops.h"
#include "iter/threads.h"

#include <stdio.h>

int shmt__num_threads(void) { return 1; }
void shmt__set_num_threads(int n) { (void)n; }

@LOOPS@
int main(void) {
  const char* only = shmt_only_cpu_capability();
  shmt__loop chosen = shmt__loops[SHMT_LOOP_add][SHMT_FLOAT32];
  printf("%s %s %d ", shmt_cpu_capability(), only ? only : "all", shmt_has_kernels());
  chosen(NULL, NULL, 0, NULL);
  return 0;
}
"""
LOOP = (
    "void {name}(char* const* data, const int64_t* strides, int64_t n, const void* ctx) {{\n"
    '  (void)data, (void)strides, (void)n, (void)ctx;\n  puts("{level}");\n}}\n'
)


@pytest.fixture
def program(project: Callable[[str], Path], tmp_path: Path, three_operators: str):
    """Compile for all levels, or for one; gives what the program prints at a capability."""
    from codegen import generate

    out = tmp_path / "build" / "generated"
    generate(project(three_operators), out, tmp_path)
    names = re.findall(r"DECLARE\((\w+)\);", (out / "loops.c").read_text())

    def run(only: int | None, capability: str) -> list[str]:
        # Of the only level v4, a template without it has the loops of v3.
        highest = {None: ("base", "v3"), 0: ("base",), 1: ("v3",), 2: ("v3",)}[only]
        loops = "".join(
            LOOP.format(name=name, level=name.rpartition("_")[2])
            for name in names
            if name.endswith(highest)
        )
        source = tmp_path / "main.c"
        source.write_text(PROGRAM.replace("@LOOPS@", loops))
        files = [out / "loops.c", out / "options.c", ROOT / "csrc/kernels/runtime.c", source]
        level = [] if only is None else [f"-DSHMT_ONLY_LEVEL={only}"]
        includes = [f"-I{out}", f"-I{out.parent}", f"-I{ROOT / 'csrc'}"]
        binary = str(tmp_path / "main")
        flags = ["-std=gnu11", "-Wall", "-Wextra", "-Wundef", "-Werror", *level]
        subprocess.run(["gcc", *flags, *includes, *map(str, files), "-o", binary], check=True)
        environment = {**os.environ, "SHMTENSOR_CPU_CAPABILITY": capability}
        done = subprocess.run([binary], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    return run


@pytest.mark.check
def test_build_for_all_goes_down_to_the_level_that_is_asked_for(program) -> None:
    assert program(None, "base") == ["base", "all", "1", "base"]
    highest, *rest = program(None, "auto")
    assert rest == ["all", "1", "base" if highest == "base" else "v3"]


def test_build_for_old_processors_runs_on_all(program) -> None:
    assert program(0, "auto") == ["base", "base", "1", "base"]


def test_build_for_one_machine_has_nothing_for_lower_levels(program) -> None:
    assert program(2, "base")[:3] == ["base", "v4", "0"]
    assert program(1, "base")[:3] == ["base", "v3", "0"]
    level = program(None, "v3")[0]
    assert program(1, "auto") == [level, "v3", str(int(level == "v3")), "v3"]
