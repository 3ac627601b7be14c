"""A fork while another thread loads the BLAS library."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import shmtensor._C

#: Takes its time to load; without BLAS functions, so that the next library is tried after it.
_SLOW_LIBRARY = """
#include <unistd.h>
__attribute__((constructor)) static void load(void) {
  (void)!write(%d, "x", 1);
  usleep(300 * 1000);
}
"""

#: The extension without the package, which loads the library while it is imported.
_PROGRAM = """
import importlib.util, os, signal, threading
spec = importlib.util.spec_from_file_location("_C", {extension!r})
lib = importlib.util.module_from_spec(spec).lib
thread = threading.Thread(target=lib.shmt_blas_load)
thread.start()
os.read({reader}, 1)
pid = os.fork()
if pid == 0:
    signal.alarm(60)
    lib.shmt_blas_load()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
thread.join()
"""


@pytest.mark.check
def test_a_child_finds_the_library_that_its_parent_was_loading(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    source, library = tmp_path / "slow.c", tmp_path / "libslow.so"
    source.write_text(_SLOW_LIBRARY % writer)
    compiler = os.environ.get("CC", "gcc").split()
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    program = _PROGRAM.format(reader=reader, extension=shmtensor._C.__file__)
    try:
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "SHMTENSOR_BLAS": str(library)},
            pass_fds=(reader, writer),
            timeout=120,
            check=True,
        )
    finally:
        os.close(reader)
        os.close(writer)
