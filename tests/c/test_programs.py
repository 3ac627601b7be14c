"""The C tests beside this file: a program for each layer, a process for each test.

They are linked with the objects of the build under test, so that `make asan` runs them with its
sanitizers.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / (os.environ.get("SHMTENSOR_SANITIZER") or "native")
MANAGER = BUILD / "shmtensor-manager"
SANITIZERS = {
    "asan": "-DSHMT_DEBUG=2 -fsanitize=address,undefined -fno-sanitize-recover=undefined",
    "tsan": "-DSHMT_DEBUG=2 -fsanitize=thread",
}
FLAGS = "-std=gnu11 -g -O1 -pthread -Wall -Wextra -Werror"
#: Objects that a program needs although it calls nothing in them: they register fork handlers.
REGISTERED = {"ipc": ["ipc/session/fork.o"]}

TESTS = {
    source.stem: re.findall(r"^TEST\((\w+)\)", source.read_text(), re.M)
    for source in sorted(HERE.glob("*.c"))
}


def _without_preload() -> dict[str, str]:
    """The environment for programs that bring a sanitizer of their own."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs."""
    folder = tmp_path_factory.mktemp("c")
    objects = sorted((BUILD / "obj").rglob("*.o"))
    listing = folder / "objects"
    listing.write_text("\n".join(map(str, objects)))
    compiler = os.environ.get("CC", "gcc").split()
    flags = [*FLAGS.split(), *SANITIZERS.get(BUILD.name, "").split()]
    includes = [f"-I{BUILD / 'generated'}", f"-I{BUILD}", f"-I{ROOT / 'csrc'}"]
    # An archive: of the objects, those that a program needs.
    archive = folder / "objects.a"
    subprocess.run(["ar", "rcsT", archive, f"@{listing}"], check=True, env=_without_preload())
    for name in TESTS:
        source = HERE / f"{name}.c"
        registered = [BUILD / "obj" / "csrc" / path for path in REGISTERED.get(name, [])]
        command = [*compiler, *flags, *includes, source, *registered, archive, "-o", folder / name]
        subprocess.run([*command, "-lm", "-ldl", "-lrt"], check=True, env=_without_preload())
    return folder


@pytest.mark.check
@pytest.mark.parametrize(
    ("program", "test"), [(name, test) for name, tests in TESTS.items() for test in tests]
)
def test_of_c(program: str, test: str, programs: Path) -> None:
    environment = {
        name: value
        for name, value in _without_preload().items()
        if not name.startswith("SHMTENSOR_")
    }
    # A test ends without releasing what it made.
    environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
    environment["TEST_MANAGER"] = str(MANAGER)
    result = subprocess.run(
        [programs / program, test],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
