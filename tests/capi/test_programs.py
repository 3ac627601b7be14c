"""The C interface without Python: the C tests beside this file, a process for each.

What C and Python send each other is in test_with_python.py, what is exported in test_symbols.py.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from compiled import compiled, environment
from service_programs import unused_name

HERE = Path(__file__).parent
TESTS = {
    name: re.findall(r"^TEST\((\w+)\)", (HERE / f"{name}.c").read_text(), re.M)
    for name in ("names", "values")
}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs."""
    folder = tmp_path_factory.mktemp("capi")
    for name in TESTS:
        compiled(HERE / f"{name}.c", folder / name, "-std=gnu11", f"-I{HERE}")
    return folder


@pytest.mark.check
@pytest.mark.parametrize(
    ("program", "test"), [(name, test) for name, tests in TESTS.items() for test in tests]
)
def test_of_c(program: str, test: str, programs: Path) -> None:
    result = subprocess.run(
        [programs / program, test],
        env={**environment(), "TEST_SERVICE": unused_name()},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_wrapper_of_cpp_has_every_kind(tmp_path: Path) -> None:
    program = compiled(HERE / "wrapper.cpp", tmp_path / "wrapper")
    result = subprocess.run(
        [program, unused_name()],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "done\n"), result.stdout + result.stderr


def test_header_is_plain_c_and_goes_with_the_real_dlpack_header(tmp_path: Path) -> None:
    for text in (
        '#include "shmtensor.h"\n',
        '#define DLPACK_DLPACK_H_\n#include "fake.h"\n#include "shmtensor.h"\n',
    ):
        header = (HERE.parents[1] / "csrc/capi/shmtensor_dlpack.h").read_text()
        inner = header[header.index("#include <stddef.h>") : header.rindex("#endif /* DLPACK")]
        (tmp_path / "fake.h").write_text(inner)
        (tmp_path / "program.c").write_text(
            text + "int main(void) { return shmtensor_abi_version() == 0; }\n"
        )
        program = compiled(tmp_path / "program.c", tmp_path / "program", "-Wpedantic")
        subprocess.run([program], env=environment(), check=True)
