"""The files generated for three operators, word for word, and that a compiler takes them.

``python tests/codegen/test_golden.py`` writes the expected files anew; read the difference.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
GOLDEN = HERE / "golden"
NAMES = (
    "api/status.h",
    "autograd/three.c",
    "forward/three.c",
    "impls.h",
    "kernels/binary_v3.c",
    "loops.h",
    "operator_loops.h",
    "ops.h",
    "ops_three.c",
    "pointwise.c",
    "python/functions.c",
    "views/three.c",
)

sys.path.insert(0, str(ROOT / "csrc"))

from codegen import generate  # noqa: E402 -- found by the path above


@pytest.mark.parametrize("name", NAMES)
def test_generated_file_is_as_expected(
    project: Callable[[str], Path], tmp_path: Path, three_operators: str, name: str
) -> None:
    generate(project(three_operators), tmp_path / "out", tmp_path)
    assert (tmp_path / "out" / name).read_text() == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.check
def test_second_run_changes_nothing(
    project: Callable[[str], Path], tmp_path: Path, three_operators: str
) -> None:
    spec = project(three_operators)
    first = generate(spec, tmp_path / "out", tmp_path)
    second = generate(spec, tmp_path / "out", tmp_path)
    assert first.changed
    assert second.changed == []
    assert second.c_files == first.c_files


def test_file_of_a_removed_family_is_deleted(
    project: Callable[[str], Path], tmp_path: Path, three_operators: str
) -> None:
    spec = project(three_operators)
    generate(spec, tmp_path / "out", tmp_path)
    (spec / "ops" / "three.yaml").rename(spec / "ops" / "drei.yaml")
    generate(spec, tmp_path / "out", tmp_path)
    assert not (tmp_path / "out" / "ops_three.c").exists()
    assert (tmp_path / "out" / "ops_drei.c").exists()


@pytest.mark.check
def test_check_writes_nothing(
    project: Callable[[str], Path], tmp_path: Path, three_operators: str
) -> None:
    result = generate(project(three_operators), tmp_path / "out", tmp_path, check=True)
    assert result.changed
    assert not (tmp_path / "out").exists()


def test_output_names_no_absolute_path(
    project: Callable[[str], Path], tmp_path: Path, three_operators: str
) -> None:
    result = generate(project(three_operators), tmp_path / "out", tmp_path)
    for path in [*result.c_files, *result.other_files]:
        text = path.read_text()
        assert str(tmp_path) not in text, path
        assert str(ROOT) not in text, path


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_generated_c_compiles_without_warnings(
    project: Callable[[str], Path], tmp_path: Path, three_operators: str
) -> None:
    out = tmp_path / "build" / "generated"
    result = generate(project(three_operators), out, tmp_path)
    files = [str(f) for f in result.c_files if f.parent.name not in ("python", "kernels")]
    flags = "-std=gnu11 -fsyntax-only -Wall -Wextra -Werror".split()
    includes = [f"-I{out}", f"-I{out.parent}", f"-I{ROOT / 'csrc'}"]
    run = subprocess.run(["gcc", *flags, *includes, *files], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def _rewrite() -> None:
    import tempfile

    from conftest import make_project

    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        operators = (HERE / "spec" / "ops" / "three.yaml").read_text()
        spec = make_project(root, operators, (HERE / "spec" / "loops.yaml").read_text())
        generate(spec, root / "out", root)
        for file in NAMES:
            target = GOLDEN / f"{file}.txt"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text((root / "out" / file).read_text())


if __name__ == "__main__":
    _rewrite()
