"""Build the library, the extension, the manager program and the bundled BLAS.

``setup.py`` imports this module; developers run it::

    python build_ffi.py                     # in place, optimised
    python build_ffi.py --config asan       # into build/asan/lib
    python build_ffi.py --this-machine      # kernels for this processor only
    python build_ffi.py -k                  # keep going, show every failure

The steps, under a lock for each configuration: generate code from ``csrc/spec``, let cffi write
``_C.c`` from the ``api`` headers, write a ninja file, run ninja, put the results in place.
Everything lies in ``build/<config>/``; compiler flags stand in the ninja file, so a changed flag
rebuilds what it touches, and depfiles make a changed header rebuild exactly its users.

``native`` is installed into ``shmtensor/``. The other configurations get a package tree of their
own, ``build/<config>/lib/shmtensor``, whose Python files are links to the sources, so that a
sanitizer build never replaces the extension that other processes use.

A build has kernels for every level of x86-64, except with ``--this-machine``: then only what this
processor runs is compiled, in about two thirds of the time. A later build without the option adds
the rest, and from then on the option changes nothing (``build/<config>/levels`` says which).

Environment: ``CC`` (may say ``ccache gcc``), ``SHMTENSOR_CFLAGS``, ``SHMTENSOR_LDFLAGS``,
``SHMTENSOR_BUNDLE_BLAS=0`` (no BLAS inside), ``SHMTENSOR_JOBS``.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import importlib
import importlib.util
import json
import math
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "shmtensor"
MANAGER_MAIN = "csrc/ipc/manager/main.c"
MANAGER_SOURCES = "csrc/ipc/manager/manager.sources"
CONFIGS = ("native", "dev", "asan", "tsan")
# libshmtensor: what knows neither tensors nor Python, and the C interface. The extension uses it,
# so that a process with both Python and C++ in it has one copy of the state.
LIBRARY_FOLDERS = ("base", "os", "shm", "storage", "ipc", "capi")
LIBRARY_GENERATED = ("generated/dtypes.c",)
LIBRARY_NOT = ("csrc/ipc/manager/", "csrc/shm/manager/")
LIBRARY = "libshmtensor.so"
SONAME = f"{LIBRARY}.0"
PUBLIC_HEADERS = ("shmtensor.h", "shmtensor.hpp", "shmtensor_dlpack.h")

_COMMON = (
    "-std=gnu11 -fno-math-errno -fno-trapping-math -ffp-contract=off -fvisibility=hidden -fPIC"
    " -pthread -Wall -Wextra -Werror=implicit-function-declaration"
)
# "native" has no debug information: wheels have none, and where no kernel is compiled it takes a
# tenth of the time.
# -O1 for the sanitizers: -O0 overflows stacks, -O2 hides what they look for.
_FLAGS = {
    "native": f"{_COMMON} -O3",
    "dev": f"{_COMMON} -O1 -g -DSHMT_DEBUG=2",
    "asan": (
        f"{_COMMON} -O1 -g -DSHMT_DEBUG=2 -fno-omit-frame-pointer -fsanitize=address,undefined"
        " -fno-sanitize-recover=undefined -fno-wrapv"
    ),
    "tsan": f"{_COMMON} -O1 -g -DSHMT_DEBUG=2 -fno-omit-frame-pointer -fsanitize=thread",
}
# Kernels clear a few lanes of a sum at a time: a call for it, or a string instruction, would put
# them in memory and take longer than what follows.
_KERNELS = "-fno-tree-loop-distribute-patterns"
# Plain loops (`light` in spec/loops.yaml): vectors as at -O3, without its copies of loops for cases
# that the templates tell apart themselves.
_LIGHT = "-O2 -ftree-vectorize -fvect-cost-model=dynamic -fpeel-loops -funswitch-loops"
# All loops for x86 older than v3: what their sources write as vectors stays vectors, and few
# processors sold since 2015 run these. Elsewhere the level base is the only one.
_OLD = "-O2"
# What calls kernels, made from the specification: long, without loops over elements, and most of it
# calls of functions in other files, which -O2 and -O3 make no faster.
_CALLERS = "-O1 -foptimize-sibling-calls -fstrict-aliasing"
_CALLER_FOLDERS = ("generated/autograd/", "generated/forward/", "generated/views/")
# Conversions of boxed calls: seldom called besides.
_BOXED = "-O1"
_LINK = {
    "native": "-pthread",
    "dev": "-pthread",
    "asan": "-pthread -fsanitize=address,undefined",
    "tsan": "-pthread -fsanitize=thread",
}
# Names of the library can be seen from outside as far as its version script says; inside, and
# whoever calls, it is the library's own function that is meant.
_LIBRARY_FLAGS = "-fvisibility=default -fno-semantic-interposition"
_ISA = (
    ("_v3.c", "-march=x86-64-v3"),
    ("_v4.c", "-march=x86-64-v4 -mprefer-vector-width=512"),
)
# Levels of kernels, by SHMT_CPU_...; the first is all that other processors have.
LEVELS = ("base", "v3", "v4")
_LEVEL_PROBE = """\
int main(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("x86-64-v4") ? 2 : __builtin_cpu_supports("x86-64-v3") ? 1 : 0;
}
"""


class BuildError(Exception):
    """A build step failed; the text says which, and what to do."""


@dataclasses.dataclass(frozen=True)
class Artifacts:
    """What a build made: paths inside the package, and the files that belong there."""

    files: dict[str, Path]

    def install(self, package: Path, *, stripped: bool = False) -> None:
        """Copy every file into the directory *package*, each one in a single step.

        A running manager and a loaded extension keep their old file: overwriting in place would
        give ETXTBSY or crash them. A file that is *stripped* has no debug information, and so none
        of the paths of the machine it was built on.
        """
        for name, source in self.files.items():
            target = package / name
            if not stripped and target.exists() and _same(source, target):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            aside = target.with_name(f".{target.name}.{os.getpid()}")
            shutil.copy2(source, aside)
            if stripped and _is_program(source):
                _strip(aside)
            os.replace(aside, target)
        for stale in package.glob("_C.*.so"):
            own = sysconfig.get_config_var("SOABI") or ""
            if own in stale.name and stale.name not in self.files:
                stale.unlink()


def _is_program(path: Path) -> bool:
    """Whether the file is a binary that this build has made."""
    if not path.is_relative_to(ROOT / "build"):
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _strip(binary: Path) -> None:
    """Remove debug information with the compiler's own tool, which knows its target."""
    command = [*shlex.split(_compiler()), "-print-prog-name=strip"]
    tool = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if shutil.which(tool) is None:
        print(f"shmtensor: {tool} not found; {binary.name} keeps its symbols", file=sys.stderr)
        return
    subprocess.run([tool, "--strip-debug", str(binary)], check=True)


def _same(a: Path, b: Path) -> bool:
    sa, sb = a.stat(), b.stat()
    return (sa.st_size, sa.st_mtime_ns) == (sb.st_size, sb.st_mtime_ns)


@contextlib.contextmanager
def _lock(directory: Path) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _write_if_changed(path: Path, text: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        if path.read_text() == text:
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


def _rel(path: Path) -> str:
    return path.resolve().relative_to(ROOT).as_posix()


def _digest(paths: list[Path], extra: str = "") -> str:
    h = hashlib.sha256(extra.encode())
    for path in sorted(paths):
        h.update(_rel(path).encode() + b"\0" + path.read_bytes() + b"\0")
    return h.hexdigest()


# --- step 1: code generation -------------------------------------------------------------------


def generate(build_dir: Path) -> list[Path]:
    """Run the generator unless nothing it reads has changed; returns the generated C files.

    Raises:
        BuildError: The generator or the specification is missing.
    """
    out_dir = build_dir / "generated"
    codegen_dir = ROOT / "csrc" / "codegen"
    if not (codegen_dir / "__init__.py").exists():
        raise BuildError("csrc/codegen/__init__.py is missing: no code generator to run")
    inputs = [
        *(ROOT / "csrc" / "spec").rglob("*.yaml"),
        *codegen_dir.rglob("*.py"),
    ]
    digest = _digest(inputs)
    stamp = build_dir / "codegen.json"
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
        known = json.loads(stamp.read_text())
        files = [ROOT / f for f in known["outputs"]]
        if known["digest"] == digest and all(f.exists() for f in files):
            return [ROOT / f for f in known["c_files"]]
    sys.path.insert(0, str(ROOT / "csrc"))
    try:
        codegen = importlib.import_module("codegen")
    finally:
        sys.path.pop(0)
    try:
        result = codegen.generate(ROOT / "csrc" / "spec", out_dir, ROOT)
    except codegen.SpecError as error:
        raise BuildError(str(error)) from error
    c_files = sorted({Path(f).resolve() for f in result.c_files})
    outputs = {_rel(Path(f)) for f in (*c_files, *result.other_files)}
    stamp.write_text(
        json.dumps(
            {
                "digest": digest,
                "c_files": [_rel(f) for f in c_files],
                "outputs": sorted(outputs),
            }
        )
    )
    return c_files


# --- step 2: cffi ------------------------------------------------------------------------------


def _api_headers(build_dir: Path) -> list[tuple[str, Path]]:
    """The headers of ``api/``, each after those it includes, otherwise by name."""
    found: dict[str, Path] = {}
    for folder in (build_dir / "generated" / "api", ROOT / "csrc" / "api"):
        for path in sorted(folder.glob("*.h")):
            found[f"api/{path.name}"] = path
    order: list[tuple[str, Path]] = []
    state: dict[str, int] = {}

    def visit(name: str) -> None:
        if name not in found or state.get(name) == 2:
            return
        if state.get(name) == 1:
            raise BuildError(f"{name}: includes itself by way of other api headers")
        state[name] = 1
        includes = re.findall(r'^\s*#\s*include\s+"([^"]+)"', found[name].read_text(), re.M)
        for include in includes:
            visit(include)
        state[name] = 2
        order.append((name, found[name]))

    for name in sorted(found):
        visit(name)
    return order


def _cdef_text(path: Path) -> str:
    """A header as cffi reads it: no preprocessor lines, no SHMT_API marks."""
    kept: list[str] = []
    continued = False
    for line in path.read_text().split("\n"):
        directive = continued or line.lstrip().startswith("#")
        continued = directive and line.endswith("\\")
        kept.append("" if directive else line)
    return "\n".join(kept).replace("SHMT_API ", "")


def _declare(target: Path) -> None:
    """Let ``shmt__py_declare`` have the last word on what the module says about itself.

    Raises:
        BuildError: cffi ends the module's function in another way than expected.
    """
    start = "return _cffi_init("
    head, found, tail = target.read_text().partition(start)
    call, end, rest = tail.partition(");\n")
    if not found or not end or start in rest:
        raise BuildError(f"{_rel(target)}: found no single call of _cffi_init")
    target.write_text(f"{head}return shmt__py_declare(_cffi_init({call}));\n{rest}")


def emit_extension_c(build_dir: Path) -> Path:
    """Let cffi write ``_C.c`` from the ``api`` headers.

    Raises:
        BuildError: cffi cannot parse a header.
    """
    target = build_dir / "_C.c"
    headers = _api_headers(build_dir)
    cffi = importlib.import_module("cffi")
    digest = _digest([p for _, p in headers] + [Path(__file__)], cffi.__version__)
    stamp = build_dir / "_C.digest"
    if target.exists() and stamp.exists() and stamp.read_text() == digest:
        return target
    ffi = cffi.FFI()
    for name, path in headers:
        try:
            ffi.cdef(_cdef_text(path))
        except Exception as error:  # cffi raises several unrelated classes
            raise BuildError(f"{name}: cffi cannot parse it: {error}") from error
    preamble = "".join(f'#include "{name}"\n' for name, _ in headers)
    preamble += '#include "python/declare.h"\n'
    ffi.set_source("shmtensor._C", preamble)
    ffi.emit_c_code(str(target))
    _declare(target)
    stamp.write_text(digest)
    return target


# --- step 3: ninja -----------------------------------------------------------------------------


def _compiler() -> str:
    if os.environ.get("CC"):
        return os.environ["CC"]
    for name in ("gcc", "cc", "clang"):
        if shutil.which(name):
            return name
    raise BuildError("no C compiler found: apt-get install gcc, or set CC")


def _python_include() -> str:
    include = sysconfig.get_paths()["include"]
    if not Path(include, "Python.h").exists():
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise BuildError(
            f"{include}/Python.h not found: apt-get install python3-dev (for Python {version})"
        )
    return include


def _target() -> str:
    """Return the machine that the build is for, as Python's configuration tells it."""
    return sysconfig.get_platform().rpartition("-")[2]


def _is_x86() -> bool:
    return _target() == "x86_64"


def _is_for_target(path: Path) -> bool:
    return _is_x86() or not path.name.endswith(tuple(suffix for suffix, _ in _ISA))


def _isa_flags(name: str) -> str:
    if not _is_x86():
        return ""
    return next((flags for suffix, flags in _ISA if name.endswith(suffix)), "")


def _machine_level(build_dir: Path) -> str | None:
    """Which level the extension would choose here; None where nothing tells."""
    source, program = build_dir / "level.c", build_dir / "level"
    _write_if_changed(source, _LEVEL_PROBE)
    command = [*shlex.split(_compiler()), str(source), "-o", str(program)]
    try:
        subprocess.run(command, capture_output=True, check=True)
        number = subprocess.run([program], check=False).returncode
    except (OSError, subprocess.CalledProcessError):
        return None
    return LEVELS[number] if 0 <= number < len(LEVELS) else None


def _chosen_level(build_dir: Path, *, this_machine: bool) -> str | None:
    """The only level to compile kernels of; None: all of them."""
    if not this_machine or not _is_x86() or _target() != platform.machine():
        return None
    with contextlib.suppress(FileNotFoundError):
        if (build_dir / "levels").read_text().split() == list(LEVELS):
            return None
    return _machine_level(build_dir)


def _of_level(generated: list[Path], level: str | None) -> list[Path]:
    """Without the kernels that a processor of this level does not run.

    Of the files of a template, it runs the one of its level, or of the next lower one there is.
    """
    if level is None:
        return generated
    kernels = {path for path in generated if "/generated/kernels/" in f"/{_rel(path)}"}
    kept: dict[Path, Path] = {}
    for one in LEVELS[: LEVELS.index(level) + 1]:
        for path in kernels:
            if path.stem.endswith(f"_{one}"):
                kept[path.with_name(path.stem.removesuffix(f"_{one}"))] = path
    left_out = kernels - set(kept.values())
    return [path for path in generated if path not in left_out]


def _optimisation(inner: str) -> str:
    """How much one generated file is optimised."""
    if inner == "generated/adapters.c":
        return _BOXED
    if inner.startswith(("generated/ops_", *_CALLER_FOLDERS)):
        return _CALLERS
    if not inner.startswith("generated/kernels/"):
        return ""
    if inner.endswith("_base.c") and _is_x86():
        return f"{_KERNELS} {_OLD}"
    if inner.startswith("generated/kernels/light/"):
        return f"{_KERNELS} {_LIGHT}"
    return _KERNELS


def _hand_written() -> list[Path]:
    files = sorted((ROOT / "csrc").rglob("*.c"))
    return [f for f in files if _rel(f) != MANAGER_MAIN]


def _manager_sources(build_dir: Path) -> list[Path]:
    listing = ROOT / MANAGER_SOURCES
    if not (ROOT / MANAGER_MAIN).exists() or not listing.exists():
        return []
    paths = [ROOT / MANAGER_MAIN]
    for line in listing.read_text().split("\n"):
        name = line.split("#")[0].strip()
        if name and name != MANAGER_MAIN:
            paths.append((build_dir if name.startswith("generated/") else ROOT) / name)
    return paths


def _is_of_library(inner: str) -> bool:
    if inner.startswith(LIBRARY_NOT):
        return False
    return inner in LIBRARY_GENERATED or inner.startswith(
        tuple(f"csrc/{folder}/" for folder in LIBRARY_FOLDERS)
    )


def _version() -> str:
    text = (PACKAGE / "__init__.py").read_text()
    found = re.search(r'^__version__ = "([^"]+)"', text, re.M)
    return found[1] if found else "0"


def write_version_script(build_dir: Path) -> Path:
    """Write which names of the library others see; returns the file's path.

    The private ones have the package's version, and a digest of the headers that say what they are:
    an extension of another version, or of an older build, is refused when it is loaded.
    """
    headers = [
        path
        for folder in ("api", *LIBRARY_FOLDERS)
        for root in (ROOT / "csrc", build_dir / "generated")
        for path in (root / folder).rglob("*.h")
    ]
    # Paths do not count: those of generated headers have the configuration.
    texts = "".join(sorted(path.read_text() for path in headers))
    private = f"{_version()}_{hashlib.sha256(texts.encode()).hexdigest()[:8]}"
    text = (
        "SHMTENSOR_0 { global: shmtensor_*; local: *; };\n"
        f"SHMTENSOR_PRIVATE_{private} {{ global: shmt_*; }};\n"
    )
    path = build_dir / "libshmtensor.map"
    _write_if_changed(path, text)
    return path


def _write_version_header(build_dir: Path) -> None:
    text = (
        "/* generated/version.h -- the version of the package. Made by build_ffi.py. */\n"
        f'#define SHMT_PACKAGE_VERSION "{_version()}"\n'
    )
    _write_if_changed(build_dir / "generated" / "version.h", text)


def _ninja_escape(text: str) -> str:
    return text.replace("$", "$$").replace(":", "$:").replace(" ", "$ ")


def write_ninja(
    config: str,
    build_dir: Path,
    generated: list[Path],
    extension_c: Path,
    level: str | None = None,
) -> Path:
    """Write ``build.ninja``, for kernels of all levels or of one; returns its path."""
    base = _rel(build_dir)
    tag = sysconfig.get_config_var("SOABI") or "python"
    cflags = f"{_FLAGS[config]} {os.environ.get('SHMTENSOR_CFLAGS', '')}".strip()
    ldflags = f"{_LINK[config]} {os.environ.get('SHMTENSOR_LDFLAGS', '')}".strip()
    lines = [
        "ninja_required_version = 1.5",
        f"builddir = {base}",
        f"cc = {_compiler()}",
        f"cflags = {cflags}",
        f"includes = -I{base}/generated -I{base} -Icsrc",
        f"pyinclude = -isystem {shlex.quote(_python_include())}",
        f"ldflags = {ldflags}",
        "",
        "rule cc",
        "  command = $cc $cflags $extra $includes -MMD -MF $out.d -c $in -o $out",
        "  depfile = $out.d",
        "  deps = gcc",
        "  description = CC $in",
        "rule shared",
        "  command = $cc -shared -o $out @$out.rsp $ldflags $link -lm -ldl -lrt",
        "  rspfile = $out.rsp",
        "  rspfile_content = $in",
        "  description = LINK $out",
        "rule program",
        "  command = $cc -o $out $in $ldflags -Wl,--gc-sections -ldl -lrt",
        "  description = LINK $out",
        "",
    ]
    objects: list[str] = []
    library_objects: list[str] = []

    def compile_file(source: Path) -> str:
        name = _rel(source)
        inner = name.removeprefix(f"{base}/")
        needs_python = (
            inner.startswith(("csrc/python/", "generated/python/")) or source == extension_c
        )
        folder = f"obj-{tag}" if needs_python else "obj"
        out = f"{base}/{folder}/{inner.removesuffix('.c')}.o"
        extra = [_isa_flags(name)]
        if _is_of_library(inner):
            extra.append(_LIBRARY_FLAGS)
        if level is not None and inner == "generated/loops.c":
            extra.append(f"-DSHMT_ONLY_LEVEL={LEVELS.index(level)}")
        if inner.startswith("csrc/capi/"):
            # With types: tools/public_symbols.py compares those of the interface.
            extra.append("-g")
        if config == "native":
            extra.append(_optimisation(inner))
        if needs_python:
            # Python's headers have assertions, with the paths of these headers as text.
            extra.append("-DNDEBUG $pyinclude" if config == "native" else "$pyinclude")
        if source == extension_c:
            extra.append("-O1 -Wno-unused-parameter -Wno-missing-field-initializers")
            # cffi leaves this to the interpreter that runs it; the text may be another one's.
            if sysconfig.get_config_var("Py_GIL_DISABLED"):
                extra.append("-D_CFFI_NO_LIMITED_API=")
        lines.append(f"build {_ninja_escape(out)}: cc {_ninja_escape(name)}")
        flags = " ".join(e for e in extra if e)
        if flags:
            lines.append(f"  extra = {flags}")
        return out

    built: dict[Path, str] = {}
    compiled = filter(_is_for_target, _of_level(generated, level))
    for source in dict.fromkeys([*_hand_written(), *compiled, extension_c]):
        built[source] = compile_file(source)
        inner = _rel(source).removeprefix(f"{base}/")
        # The manager's own files are of the program alone.
        if _is_of_library(inner):
            library_objects.append(built[source])
        elif not inner.startswith(LIBRARY_NOT):
            objects.append(built[source])
    library = f"{base}/{SONAME}"
    exports = _rel(write_version_script(build_dir))
    lines += [
        f"build {library}: shared {' '.join(map(_ninja_escape, library_objects))} | {exports}",
        # Nothing unloads it: it has threads and hooks of fork().
        f"  link = -Wl,-soname,{SONAME} -Wl,--version-script={exports} -Wl,-Bsymbolic"
        " -Wl,-z,nodelete",
    ]
    so_name = f"{base}/_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    lines += [
        f"build {so_name}: shared {' '.join(map(_ninja_escape, objects))} {library}",
        "  link = -Wl,-rpath,'$$ORIGIN/lib'",
    ]
    defaults = [library, so_name]
    manager = _manager_sources(build_dir)
    if manager:
        parts = [built.get(s) or compile_file(s) for s in manager]
        program = f"{base}/shmtensor-manager"
        lines.append(f"build {program}: program {' '.join(map(_ninja_escape, parts))}")
        defaults.append(program)
    lines += ["", f"default {' '.join(defaults)}", ""]
    path = build_dir / "build.ninja"
    _write_if_changed(path, "\n".join(lines))
    return path


def _ninja() -> str:
    spec = importlib.util.find_spec("ninja")
    if spec is not None:
        module = importlib.import_module("ninja")
        candidate = Path(module.BIN_DIR, "ninja")
        if candidate.exists():
            return str(candidate)
    found = shutil.which("ninja")
    if found is None:
        raise BuildError("ninja not found: pip install ninja")
    return found


# What ninja begins its own lines with.
_STATUS = "compiling the C core: "
# Without a terminal, progress is a line at most this often.
_LINE_EVERY_S = 15.0


def _show_progress(lines: Iterable[str], *, verbose: bool) -> None:
    """Show how far ninja is, in one line on a terminal; what compilers say is shown as it is."""
    is_terminal = sys.stdout.isatty()
    shown_at = -math.inf
    shown = ""
    for line in lines:
        if line.startswith(_STATUS) and not verbose:
            text = " ".join(line.split()[:7]) + " files"
            if is_terminal:
                print(f"\r{text}", end="", flush=True)
                shown = text
            elif time.monotonic() - shown_at >= _LINE_EVERY_S:
                print(text, flush=True)
                shown_at = time.monotonic()
        elif not line.startswith("ninja: no work to do"):
            print(f"\r{' ' * len(shown)}\r{line}" if shown else line, end="", flush=True)
            shown = ""
    if shown:
        print()


def run_ninja(path: Path, *, keep_going: bool = False, verbose: bool = False) -> None:
    """Run ninja in the project's root.

    Raises:
        BuildError: A command failed.
    """
    command = [_ninja(), "-f", _rel(path)]
    jobs = os.environ.get("SHMTENSOR_JOBS")
    if jobs:
        command += ["-j", jobs]
    if keep_going:
        command += ["-k", "0"]
    if verbose:
        command.append("-v")
    environment = {**os.environ, "NINJA_STATUS": f"{_STATUS}%f of %t "}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        _show_progress(process.stdout, verbose=verbose)
    if process.returncode != 0:
        raise BuildError(f"ninja failed with status {process.returncode}")


def _dynamic(binary: Path, which: str) -> set[str]:
    """Our names in a binary's dynamic symbol table, without their versions."""
    command = ["nm", "-D", which, str(binary)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = {line.split()[-1].split("@")[0] for line in output.splitlines() if line.strip()}
    return {word for word in words if word.startswith(("shmt_", "shmtensor_"))}


def check_symbols(extension: Path, library: Path) -> None:
    """Find out now, not on import, which of our own functions nobody defines.

    Raises:
        BuildError: Some are missing; the text lists them.
    """
    if shutil.which("nm") is None:
        return
    needed = _dynamic(extension, "--undefined-only") | _dynamic(library, "--undefined-only")
    missing = sorted(needed - _dynamic(library, "--defined-only"))
    if missing:
        raise BuildError(f"used but defined nowhere: {', '.join(missing)}")


# --- step 4: results ---------------------------------------------------------------------------


def _blas_files() -> dict[str, Path]:
    if os.environ.get("SHMTENSOR_BUNDLE_BLAS", "1") == "0":
        return {}
    # Found, not imported: importing loads the library, which may be another processor's.
    found = importlib.util.find_spec("scipy_openblas32")
    if found is None or found.origin is None:
        print("shmtensor: scipy_openblas32 is not installed; no BLAS is bundled", file=sys.stderr)
        return {}
    library = next((Path(found.origin).parent / "lib").glob("libscipy_openblas*.so"))
    files = {"_libs/libshmt_openblas.so": library}
    metadata = importlib.import_module("importlib.metadata")
    for entry in metadata.files("scipy-openblas32") or []:
        if ".dist-info/" in str(entry) and "licen" in str(entry).lower():
            files[f"_libs/licenses/openblas-{entry.name}"] = Path(entry.locate())
    return files


def _write_pkg_config(build_dir: Path) -> Path:
    """Write the file for pkg-config, which finds the rest by where it lies; returns its path."""
    path = build_dir / "shmtensor.pc"
    lines = [
        "prefix=${pcfiledir}/../..",
        "includedir=${prefix}/include",
        "libdir=${prefix}/lib",
        "",
        "Name: shmtensor",
        "Description: Tensors, queues and topics in shared memory, between programs",
        f"Version: {_version()}",
        "Cflags: -I${includedir}",
        "Libs: -L${libdir} -lshmtensor -Wl,-rpath,${libdir}",
        "",
    ]
    _write_if_changed(path, "\n".join(lines))
    return path


def _collect(build_dir: Path) -> Artifacts:
    so_name = f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    files = {so_name: build_dir / so_name, f"lib/{SONAME}": build_dir / SONAME}
    # Archives have no symbolic links: -lshmtensor finds a text that names the library.
    script = build_dir / LIBRARY
    _write_if_changed(script, f"INPUT({SONAME})\n")
    files[f"lib/{LIBRARY}"] = script
    files["lib/pkgconfig/shmtensor.pc"] = _write_pkg_config(build_dir)
    for header in PUBLIC_HEADERS:
        if (ROOT / "csrc" / "capi" / header).exists():
            files[f"include/{header}"] = ROOT / "csrc" / "capi" / header
    manager = build_dir / "shmtensor-manager"
    if manager.exists():
        files["bin/shmtensor-manager"] = manager
    files.update(_blas_files())
    return Artifacts(files)


def _link_tree(build_dir: Path) -> Path:
    """Make ``build/<config>/lib/shmtensor``: links to the Python files, own binaries."""
    tree = build_dir / "lib" / "shmtensor"
    tree.mkdir(parents=True, exist_ok=True)
    wanted = {
        p.name: p
        for p in PACKAGE.iterdir()
        if p.name not in ("bin", "lib", "include", "_libs", "__pycache__")
        and not p.name.endswith(".so")
    }
    for link in tree.iterdir():
        if link.is_symlink() and link.name not in wanted:
            link.unlink()
    for name, source in wanted.items():
        link = tree / name
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(source, tree))
    return tree


def build(
    config: str = "native",
    *,
    in_place: bool = True,
    this_machine: bool = False,
    keep_going: bool = False,
    verbose: bool = False,
) -> Artifacts:
    """Build one configuration.

    Args:
        config: ``native``, ``dev``, ``asan`` or ``tsan``.
        in_place: Also install the result (see the module's docstring for where).
        this_machine: Kernels for this processor will do, unless all have been built before.
        keep_going: Compile everything that compiles, then fail.
        verbose: Print every command.

    Returns:
        The files that belong in the package.

    Raises:
        BuildError: A step failed.
    """
    if config not in CONFIGS:
        raise BuildError(f"no configuration named {config!r}; there are {', '.join(CONFIGS)}")
    is_cross = _target() != platform.machine()
    build_dir = ROOT / "build" / (f"{config}-{_target()}" if is_cross else config)
    # Only the generator writes outside build/<config>; the long step locks its own folder.
    with _lock(build_dir):
        with _lock(ROOT / "build"):
            generated = generate(build_dir)
        _write_version_header(build_dir)
        extension_c = emit_extension_c(build_dir)
        level = _chosen_level(build_dir, this_machine=this_machine)
        ninja_file = write_ninja(config, build_dir, generated, extension_c, level)
        run_ninja(ninja_file, keep_going=keep_going, verbose=verbose)
        artifacts = _collect(build_dir)
        check_symbols(build_dir / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}", build_dir / SONAME)
        _write_if_changed(build_dir / "levels", f"{level or ' '.join(LEVELS)}\n")
        if in_place:
            artifacts.install(PACKAGE if config == "native" else _link_tree(build_dir))
    return artifacts


def main(arguments: list[str] | None = None) -> int:
    """Build in place from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Build shmtensor in place.")
    parser.add_argument("--config", choices=CONFIGS, default="native")
    parser.add_argument(
        "--this-machine",
        action="store_true",
        help="kernels for this processor will do, unless all have been built before",
    )
    parser.add_argument("-k", "--keep-going", action="store_true", help="show every failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the commands")
    options = parser.parse_args(arguments)
    try:
        build(
            options.config,
            this_machine=options.this_machine,
            keep_going=options.keep_going,
            verbose=options.verbose,
        )
    except BuildError as error:
        print(f"build_ffi: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
