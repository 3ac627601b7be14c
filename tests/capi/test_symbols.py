"""What the library shows, what its documents say, and the flags that programs are compiled with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import service_programs as programs
from compiled import PACKAGE, compiled, environment

import shmtensor
from shmtensor._cli import main

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import public_symbols  # noqa: E402 -- found by the path above


@pytest.mark.check
def test_public_functions_are_those_that_are_recorded() -> None:
    assert public_symbols.symbol_findings() == []
    assert max(v for v, _ in public_symbols.recorded().values()) == public_symbols.abi_version()


def test_changes_of_the_interface_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = public_symbols.HEADER.read_text()
    header = tmp_path / "shmtensor.h"
    header.write_text(
        text.replace("shmtensor_queue_length(", "shmtensor_queue_len(").replace(
            "shmtensor_int(int64_t value", "shmtensor_int(int32_t value"
        )
    )
    monkeypatch.setattr(public_symbols, "HEADER", header)
    found = "\n".join(public_symbols.symbol_findings())
    assert "shmtensor_queue_length is gone" in found
    assert "shmtensor_queue_len is not recorded" in found
    assert "shmtensor_int was" in found


def test_every_function_says_what_it_returns_or_owns() -> None:
    text = public_symbols.HEADER.read_text()
    for name in public_symbols.declared():
        before = text[: text.index(f"{name}(")]
        assert (
            before.rstrip()
            .rpartition("\n\n")[2]
            .lstrip()
            .startswith(("/*", "shmtensor_status", "typedef"))
        ), name


def flags(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["config", *options]) == 0
    return capsys.readouterr().out.strip()


@pytest.mark.check
def test_config_prints_flags_that_compile_and_find_the_library(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    source = tmp_path / "program.c"
    source.write_text(
        "#include <shmtensor.h>\n#include <stdio.h>\n"
        "int main(void) { puts(shmtensor_version()); }\n"
    )
    program = tmp_path / "program"
    command = ["gcc", str(source), *flags(capsys, "--cflags", "--libs").split(), "-o", str(program)]
    if "SHMTENSOR_SANITIZER" not in os.environ:
        subprocess.run(command, check=True)
        output = subprocess.run([program], capture_output=True, text=True, check=True).stdout
        assert output == f"{shmtensor.__version__}\n"
    assert flags(capsys, "--lib-version") == shmtensor.__version__
    assert flags(capsys, "--include") == str(PACKAGE.resolve() / "include")
    assert main(["config"]) == 2


@pytest.mark.skipif(shutil.which("pkg-config") is None, reason="needs pkg-config")
def test_pkg_config_finds_it_wherever_it_lies(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    moved = tmp_path / "elsewhere"
    shutil.copytree(PACKAGE / "lib", moved / "lib")
    env = {**os.environ, "PKG_CONFIG_PATH": str(moved / "lib/pkgconfig")}

    def ask(*options: str) -> str:
        command = ["pkg-config", *options, "shmtensor"]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    assert ask("--modversion").strip() == shmtensor.__version__
    found = ask("--cflags", "--libs")
    assert re.search(rf"-I{re.escape(str(moved))}\S*/include", found)
    assert re.search(rf"-L{re.escape(str(moved))}\S*/lib -lshmtensor", found)
    assert flags(capsys, "--pkgconfig") == str(PACKAGE.resolve() / "lib/pkgconfig")


def blocks(language: str) -> list[str]:
    text = (ROOT / "docs/c-api.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)


@pytest.mark.parametrize(("language", "suffix"), [("c", "c"), ("cpp", "cpp")])
def test_programs_of_the_page_compile(language: str, suffix: str, tmp_path: Path) -> None:
    found = blocks(language)
    assert found
    for i, text in enumerate(found):
        source = tmp_path / f"program{i}.{suffix}"
        source.write_text(text)
        compiled(source, tmp_path / f"program{i}")


def test_program_of_the_page_reads_weights(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text(blocks("c")[0])
    program = compiled(source, tmp_path / "program")
    text = (
        "import sys, shmtensor; from shmtensor.service import Service; "
        "service = Service(sys.argv[1], start=True); "
        "service.publish('weights', shmtensor.nn.Linear(3, 2)); print('ready'); sys.stdin.read()"
    )
    name = programs.unused_name()
    publisher = programs.Program(text, name, env={"PYTHONUNBUFFERED": "1"})
    try:
        assert publisher.line() == "ready"
        env = {**environment(), "SHMTENSOR_SERVICE": name}
        done = subprocess.run([program], env=env, capture_output=True, text=True, check=True)
    finally:
        publisher.kill()
    assert done.stdout == "2 tensors\n"
