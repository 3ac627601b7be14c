"""What the package says about itself: one version, the dependencies it uses, the Pythons it is for.

What the build makes is in test_build_ffi.py; what an installed package does is in
test_selftest.py.
"""

from __future__ import annotations

import ast
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import shmtensor

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).resolve().parents[2]
RELEASE = runpy.run_path(str(ROOT / "tools/release_version.py"))

# Imported where they are needed, if they are there; each is an extra.
_OPTIONAL = {"matplotlib", "mpi4py", "PIL", "posix_ipc", "rich", "tensorboard", "zenoh"}
# Packages whose names are not those of their modules.
_PACKAGES = {"PIL": "pillow", "zenoh": "eclipse-zenoh"}
# For type checkers, which bring it.
_TYPES = {"typing_extensions"}


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def imported() -> set[str]:
    """The top-level modules that the package's files import, the standard library left out."""
    names = set()
    for path in (ROOT / "shmtensor").rglob("*.py"):
        if "site" in path.parts:  # as_torch: a folder that is not the package's
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add((node.module or "").partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"shmtensor"}


@pytest.mark.check
def test_an_index_can_say_who_made_it_what_it_is_about_and_that_it_has_types(
    project: dict[str, Any],
) -> None:
    described = project["project"]
    holder = re.search(r"^Copyright \(c\) \d+ (.*)$", (ROOT / "LICENSE").read_text(), re.M)
    assert holder is not None
    assert described["authors"] == [{"name": holder[1]}]
    assert "shared-memory" in described["keywords"]
    assert ("Typing :: Typed" in described["classifiers"]) == (
        ROOT / "shmtensor/py.typed"
    ).is_file()


def test_version_is_the_same_everywhere():
    assert RELEASE["package_version"]() == shmtensor.__version__
    assert shmtensor.version.__version__ == shmtensor.__version__
    command = [sys.executable, "-m", "shmtensor", "--version"]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert output == f"shmtensor {shmtensor.__version__}\n"
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc|\.dev)\d+)?", shmtensor.__version__)


def test_release_needs_a_heading_in_the_changelog(tmp_path):
    (tmp_path / "shmtensor").mkdir()
    (tmp_path / "shmtensor/__init__.py").write_text('import os\n__version__ = "1.2.0"\n')
    log = tmp_path / "CHANGELOG.md"
    log.write_text("# Changelog\n\n## Unreleased\n")
    assert RELEASE["findings"]("v1.2.0", tmp_path) == [
        "CHANGELOG.md has no heading '## 1.2.0 (YYYY-MM-DD)'"
    ]
    log.write_text("# Changelog\n\n## 1.2.0 (2026-01-31)\n")
    assert RELEASE["findings"]("v1.2.0", tmp_path) == []
    assert RELEASE["findings"]("v1.2", tmp_path) == [
        "the tag is v1.2, shmtensor.__version__ is 1.2.0"
    ]


def test_dependencies_are_those_that_are_imported(project):
    declared = {re.split(r"[<>=]", text)[0] for text in project["project"]["dependencies"]}
    assert declared - {"cffi"} == imported() - _OPTIONAL - _TYPES
    extras = str(project["project"]["optional-dependencies"])
    assert all(f"'{_PACKAGES.get(name, name)}>=" in extras for name in _OPTIONAL)
    # The extension imports cffi's backend itself.
    assert "_cffi_backend" in sys.modules


@pytest.mark.check
def test_pythons_are_the_same_in_classifiers_and_wheels(project):
    pattern = re.compile(r"Programming Language :: Python :: (3\.\d+)$")
    found = [pattern.match(text) for text in project["project"]["classifiers"]]
    named = [match[1] for match in found if match]
    wheels = project["tool"]["cibuildwheel"]["build"].split()
    assert [f"cp{version.replace('.', '')}-*" for version in named] == wheels
    assert project["project"]["requires-python"] == f">={named[0]}"


def test_every_package_is_collected_and_no_folder_of_binaries() -> None:
    setuptools = pytest.importorskip("setuptools")
    calls = [
        n for n in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if isinstance(n, ast.Call)
    ]
    (call,) = [c for c in calls if ast.unparse(c.func) == "find_namespace_packages"]
    patterns = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
    found = set(setuptools.find_namespace_packages(str(ROOT), **patterns))
    ours = {p.parent for p in (ROOT / "shmtensor").rglob("__init__.py")}
    assert {p.relative_to(ROOT).as_posix().replace("/", ".") for p in ours} <= found
    assert not found & {"shmtensor.bin", "shmtensor.include", "shmtensor.lib", "shmtensor._libs"}


def test_licence_files_exist_and_name_what_is_bundled(project):
    files = project["project"]["license-files"]
    assert all((ROOT / name).exists() for name in files)
    notice = (ROOT / "NOTICE.md").read_text()
    bundled = ROOT / "shmtensor" / "_libs"
    for library in bundled.glob("*.so"):
        assert f"shmtensor/_libs/{library.name}" in notice
        assert list((bundled / "licenses").iterdir())


def test_workflows_build_what_the_project_says():
    yaml = pytest.importorskip("yaml")
    folder = ROOT / ".github" / "workflows"
    release, ci = (
        yaml.safe_load((folder / f"{name}.yml").read_text()) for name in ("release", "ci")
    )
    steps = {name: str(job["steps"]) for name, job in release["jobs"].items()}
    assert "cibuildwheel" in steps["wheels"]
    assert "tools/release_version.py" in steps["source"]
    assert release["jobs"]["publish"]["permissions"] == {"id-token": "write"}
    assert set(release["jobs"]["publish"]["needs"]) == {"source", "wheels"}
    assert "bash .ci/run" in str(ci["jobs"]["check"]["steps"])


def test_workflows_run_targets_that_the_makefile_has():
    yaml = pytest.importorskip("yaml")
    makefile = (ROOT / "Makefile").read_text()
    wanted = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            targets = job.get("strategy", {}).get("matrix", {}).get("target", [])
            for target in re.findall(r"'run': 'make ([\w-]+|\$\{\{)", str(job["steps"])):
                wanted |= set(targets) if target == "${{" else {target}
    assert wanted == {"oracle", "cpython-suite", "stress", "asan"}
    for target in wanted:
        assert re.search(rf"^{target}:", makefile, re.M), target


@pytest.mark.slow
def test_source_archive_has_every_file_and_nothing_else(tmp_path):
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs the repository, to know which files belong to it")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = {name for name in listing.split("\0") if name and (ROOT / name).exists()}
    tree = tmp_path / "tree"
    for name in files:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    (tree / "shmtensor/bin").mkdir()
    (tree / "shmtensor/bin/shmtensor-manager").write_bytes(b"\x7fELF")
    code = "from setuptools import build_meta; print(build_meta.build_sdist('..'))"
    outcome = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree,
        env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    with tarfile.open(tmp_path / f"shmtensor-{shmtensor.__version__}.tar.gz") as archive:
        packed = {m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()}
    made = {name for name in packed if ".egg-info/" in name} | {"PKG-INFO", "setup.cfg"}
    assert files - packed == {".gitignore"}
    assert packed - files == made


@pytest.mark.parametrize("how", ["file", "-c", "-m"])
def test_a_program_beside_a_checkout_called_shmtensor_imports_the_package(
    how: str, tmp_path: Path
) -> None:
    (tmp_path / "shmtensor").symlink_to(ROOT)
    text = "import shmtensor\nprint(shmtensor.ones(2).tolist())\n"
    program = tmp_path / "program.py"
    program.write_text(text)
    arguments = {"file": [str(program)], "-c": ["-c", text], "-m": ["-m", "program"]}[how]
    run = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.stdout == "[1.0, 1.0]\n", run.stderr
