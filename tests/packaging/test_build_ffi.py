"""The build: what is rebuilt when, what is exported, what a failure says.

Runs build_ffi.py on a small tree with a generator of its own. The real tree is built by every
test run; test_metadata.py has what goes into archives.
"""

from __future__ import annotations

import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif("SHMTENSOR_SANITIZER" in os.environ, reason="no sanitizer inside"),
]

GENERATOR = """
from types import SimpleNamespace

class SpecError(Exception):
    pass

def generate(spec, out, root):
    text = (spec / "value.yaml").read_text().strip()
    if not text.isdigit():
        raise SpecError(f"csrc/spec/value.yaml:1: no number: {text!r}")
    (out / "api").mkdir(parents=True, exist_ok=True)
    header = out / "api" / "status.h"
    new = f"enum {{ SHMT_VALUE = {text} }};\\n"
    if not header.exists() or header.read_text() != new:
        header.write_text(new)
    return SimpleNamespace(c_files=[], other_files=[header])
"""
FILES = {
    "csrc/codegen/__init__.py": GENERATOR,
    "csrc/spec/value.yaml": "7\n",
    "csrc/api/both.h": "#define DROPPED \\\n  1\nint shmt_one(void);\nint shmt_two(void);\n",
    "csrc/python/declare.h": (ROOT / "csrc/python/declare.h").read_text(),
    "csrc/base/one.h": "#define ONE 1\n",
    "csrc/base/one.c": '#include "api/both.h"\n#include "base/one.h"\n'
    "int shmt_one(void) { return ONE; }\n",
    "csrc/base/two.c": '#include "api/both.h"\n#include "api/status.h"\n'
    "int shmt_two(void) { return SHMT_VALUE; }\n",
    "shmtensor/__init__.py": "",
}
# A template for all levels, one without v4, and the table.
KERNELS = """
def kernels(out):
    made = []
    only = "#ifndef SHMT_ONLY_LEVEL\\n#define SHMT_ONLY_LEVEL -1\\n#endif\\n"
    texts = {"loops": only + "int shmt_only(void) { return SHMT_ONLY_LEVEL; }\\n"}
    for name, levels in (("add", ("base", "v3", "v4")), ("light/mul", ("base", "v3"))):
        for level in levels:
            texts[f"kernels/{name}_{level}"] = "extern int nothing;\\n"
    for name, text in texts.items():
        path = out / f"{name}.c"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(text)
        made.append(path)
    return made
"""


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    shutil.copy2(ROOT / "build_ffi.py", tmp_path)
    return tmp_path


def build(
    tree: Path, *arguments: str, verbose: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "build_ffi.py", *(["-v"] if verbose else []), *arguments],
        cwd=tree,
        env={**os.environ, "SHMTENSOR_BUNDLE_BLAS": "0", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def compiled(result: subprocess.CompletedProcess[str]) -> set[str]:
    assert result.returncode == 0, result.stdout + result.stderr
    words = result.stdout.split()
    return {Path(w).name for before, w in itertools.pairwise(words) if before == "-c"}


@pytest.fixture
def tree_with_kernels(tree):
    generator = GENERATOR.replace("c_files=[]", "c_files=kernels(out)")
    assert generator != GENERATOR
    (tree / "csrc/codegen/__init__.py").write_text(KERNELS + generator)
    (tree / "csrc/api/only.h").write_text("int shmt_only(void);\n")
    return tree


def call(tree: Path, name: str, package: str = ".") -> int:
    code = f"from shmtensor._C import lib; print(lib.shmt_{name}())"
    output = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree / package,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(output.stdout)


@pytest.mark.check
def test_exactly_what_a_change_touches_is_rebuilt(tree):
    assert compiled(build(tree)) == {"one.c", "two.c", "_C.c"}
    assert (call(tree, "one"), call(tree, "two")) == (1, 7)
    assert compiled(build(tree)) == set()
    (tree / "csrc/base/one.h").write_text("#define ONE 11\n")
    assert compiled(build(tree)) == {"one.c"}
    assert call(tree, "one") == 11
    (tree / "csrc/spec/value.yaml").write_text("8\n")
    assert compiled(build(tree)) == {"two.c", "_C.c"}
    assert call(tree, "two") == 8


def test_progress_is_a_line_now_and_then_and_compilers_are_heard(tree):
    first = build(tree, verbose=False)
    assert re.search(r"^compiling the C core: 1 of \d files$", first.stdout, re.M), first.stdout
    assert first.stdout.count("compiling") == 1
    assert build(tree, verbose=False).stdout == ""
    (tree / "csrc/base/one.h").write_text("#error no such number\n")
    failed = build(tree, verbose=False)
    assert failed.returncode == 1
    assert "#error no such number" in failed.stdout


def test_changed_flags_rebuild_everything(tree):
    build(tree)
    result = build(tree, SHMTENSOR_CFLAGS="-DONE=5 -Wno-builtin-macro-redefined")
    assert compiled(result) == {"one.c", "two.c", "_C.c"}


def test_new_and_deleted_files_are_noticed(tree):
    build(tree)
    three = "int shmt_three(void);\nint shmt_three(void) { return 3; }\n"
    (tree / "csrc/base/three.c").write_text(three)
    (tree / "csrc/api/three.h").write_text("int shmt_three(void);\n")
    assert compiled(build(tree)) == {"three.c", "_C.c"}
    assert call(tree, "three") == 3
    (tree / "csrc/base/three.c").unlink()
    (tree / "csrc/api/three.h").unlink()
    assert compiled(build(tree)) == {"_C.c"}
    assert call(tree, "one") == 1


def test_dev_build_leaves_the_installed_extension_alone(tree):
    build(tree)
    (tree / "csrc/base/one.h").write_text("#define ONE 2\n")
    assert build(tree, "--config", "dev").returncode == 0
    assert call(tree, "one") == 1
    assert call(tree, "one", "build/dev/lib") == 2


@pytest.mark.check
def test_failures_say_where(tree):
    (tree / "csrc/spec/value.yaml").write_text("x\n")
    result = build(tree)
    assert result.returncode == 1
    assert "build_ffi: csrc/spec/value.yaml:1: no number: 'x'" in result.stderr
    assert "Traceback" not in result.stderr
    (tree / "csrc/spec/value.yaml").write_text("1\n")
    (tree / "csrc/api/bad.h").write_text("int broken(;\n")
    assert "api/bad.h: cffi cannot parse it" in build(tree).stderr


def test_keep_going_compiles_the_rest(tree):
    (tree / "csrc/base/aaa.c").write_text("#error broken\n")
    assert build(tree, "-k").returncode == 1
    assert (tree / "build/native/obj/csrc/base/two.o").exists()


def test_installed_binaries_have_no_path_of_the_tree(tree):
    code = (
        "import build_ffi, pathlib; "
        "build_ffi.build(in_place=False).install(pathlib.Path('out/shmtensor'), stripped=True)"
    )
    environment = {**os.environ, "SHMTENSOR_BUNDLE_BLAS": "0", "SHMTENSOR_CFLAGS": "-g1"}
    subprocess.run([sys.executable, "-c", code], cwd=tree, env=environment, check=True)
    built, installed = (
        next(p.glob("_C.*.so")) for p in (tree / "build/native", tree / "out/shmtensor")
    )
    assert b".debug_info" in built.read_bytes()
    assert b".debug_info" not in installed.read_bytes()
    assert os.fsencode(tree) not in installed.read_bytes()
    (tree / "out/shmtensor/__init__.py").touch()
    assert call(tree, "two", "out") == 7


def test_instruction_sets_of_x86_are_left_out_for_other_processors():
    code = (
        "import build_ffi, pathlib; v3 = 'generated/kernels/add_v3.c'; "
        "print(build_ffi._target(), build_ffi._isa_flags(v3) == '', "
        "build_ffi._is_for_target(pathlib.Path(v3)), "
        "build_ffi._is_for_target(pathlib.Path('generated/kernels/add_base.c')))"
    )
    environment = {**os.environ, "_PYTHON_HOST_PLATFORM": "linux-aarch64"}
    output = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output.split() == ["aarch64", "True", "False", "True"]


ALL_KERNELS = {"add_base.c", "add_v3.c", "add_v4.c", "mul_base.c", "mul_v3.c"}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other processors have one level")
def test_kernels_for_this_machine_come_first_and_the_rest_when_all_are_wanted(tree_with_kernels):
    tree = tree_with_kernels
    first = compiled(build(tree, "--this-machine"))
    for_level = (
        {"add_base.c", "mul_base.c"},
        {"add_v3.c", "mul_v3.c"},
        {"add_v4.c", "mul_v3.c"},
    )
    assert first & ALL_KERNELS == for_level[call(tree, "only")]
    assert compiled(build(tree, "--this-machine")) == set()
    assert compiled(build(tree)) == (ALL_KERNELS - first) | {"loops.c"}
    assert call(tree, "only") == -1
    # What was built for everybody stays.
    assert compiled(build(tree, "--this-machine")) == set()
    assert call(tree, "only") == -1


def test_build_for_another_machine_is_refused_with_what_to_do():
    code = """
import sys, types
lib = types.SimpleNamespace(
    shmt_has_kernels=lambda: 0,
    shmt_only_cpu_capability=lambda: b"v4",
    shmt_cpu_capability=lambda: b"base",
)
module = types.ModuleType("shmtensor._C")
module.ffi, module.lib = types.SimpleNamespace(string=bytes), lib
sys.modules[module.__name__] = module
import shmtensor
"""
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.stderr.splitlines()[-1] == (
        "ImportError: this build of shmtensor is for processors of level v4, and the processor or "
        "SHMTENSOR_CPU_CAPABILITY says base; python build_ffi.py builds all levels"
    )


def test_archives_have_kernels_for_all_processors_and_the_tree_for_this_one():
    code = """
import runpy, setuptools, build_ffi
given, calls = {}, []
setuptools.setup = given.update
build_ffi.build = lambda config, **how: calls.append(how) or build_ffi.Artifacts({})
runpy.run_path("setup.py")
for is_editable in (False, True):
    command = given["cmdclass"]["build_ext"](setuptools.Distribution())
    command.build_lib = "build/nothing"
    command.editable_mode = is_editable
    command.ensure_finalized()
    command.run()
    print(calls.pop())
"""
    output = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert output.splitlines() == [
        "{'in_place': False, 'this_machine': False}",
        "{'in_place': True, 'this_machine': True}",
    ]


def test_module_declares_itself_once(tree):
    build(tree)
    assert (tree / "build/native/_C.c").read_text().count(
        "return shmt__py_declare(_cffi_init("
    ) == 1


def test_extension_exports_its_init_function_only():
    extension = ROOT / "shmtensor" / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not extension.exists() or shutil.which("nm") is None:
        pytest.skip("needs an in-place build and nm")
    output = subprocess.run(
        ["nm", "-D", "--defined-only", str(extension)], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in output.stdout.splitlines()}
    assert names == {"PyInit__C"}


def exported(binary: Path) -> set[str]:
    output = subprocess.run(
        ["nm", "-D", "--defined-only", str(binary)], capture_output=True, text=True, check=True
    )
    return {line.split()[-1] for line in output.stdout.splitlines()}


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_library_shows_its_own_names_only_and_the_private_ones_with_the_version(tree):
    (tree / "shmtensor/__init__.py").write_text('__version__ = "1.2.3"\n')
    (tree / "csrc/capi").mkdir()
    (tree / "csrc/capi/four.c").write_text(
        "int shmtensor_four(void);\nint shmtensor_four(void) { return 4; }\n"
        "int other(void);\nint other(void) { return 5; }\n"
    )
    build(tree)
    names = exported(tree / "shmtensor/lib/libshmtensor.so.0")
    private = {name for name in names if "PRIVATE" in name}
    public = {"SHMTENSOR_0", "shmtensor_four@@SHMTENSOR_0"}
    assert names - private == public
    assert {name.partition("@")[0] for name in private if "@" in name} == {"shmt_one", "shmt_two"}
    assert all("SHMTENSOR_PRIVATE_1.2.3_" in name for name in private)


def test_extension_of_another_version_is_refused_by_the_library(tree, tmp_path):
    (tree / "shmtensor/__init__.py").write_text('__version__ = "1.2.3"\n')
    build(tree)
    (tmp_path / "old").mkdir()
    shutil.copytree(tree / "shmtensor", tmp_path / "old/shmtensor")
    (tree / "shmtensor/__init__.py").write_text('__version__ = "1.2.4"\n')
    build(tree)
    shutil.copy2(
        tree / "shmtensor/lib/libshmtensor.so.0", tmp_path / "old/shmtensor/lib/libshmtensor.so.0"
    )
    result = subprocess.run(
        [sys.executable, "-c", "import shmtensor._C"],
        cwd=tmp_path / "old",
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "libshmtensor.so.0: version `SHMTENSOR_PRIVATE_1.2.3" in result.stderr
