"""Build the fuzz targets of ``tests/fuzz`` and run them: ``fuzz.py [--seconds N] [target ...]``.

``fuzz.py --control N`` runs N rounds of ``control.c`` instead: a member that writes over the tables
of its session. It prints the seed of each batch that fails; ``--seed`` begins with another.

Each target is libFuzzer with AddressSanitizer and UBSan (clang), over the same C files as the
library, in ``build/fuzz``. What a run learnt stays in ``build/fuzz/corpus/<target>``; an input that
fails is written to ``build/fuzz`` and printed. The time is shared by the targets.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tree import CSRC, ROOT

OUT = ROOT / "build" / "fuzz"
FLAGS = "-std=gnu11 -g -O1 -fno-omit-frame-pointer -DSHMT_DEBUG=2 -pthread".split()
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=undefined".split()
OPTIONS = {
    "ASAN_OPTIONS": "halt_on_error=1:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}
CLIENT_FOLDERS = ("base", "os", "shm", "storage", "ipc", "tensor")
GENERATED_FILES = ("dtypes.c", "errors.c", "options.c")
MANAGER_MAIN = CSRC / "ipc" / "manager" / "main.c"
# clang has _Float16 on x86 since version 15; these few lines are none that a peer can reach.
GCC_FILES = ("base/scalar.c",)


def _generated() -> Path:
    path = ROOT / "build" / "native" / "generated"
    if not path.exists():
        raise SystemExit("fuzz: run python build_ffi.py first")
    return path


def _manager_files() -> list[Path]:
    names = (CSRC / "ipc" / "manager" / "manager.sources").read_text().split()
    return [(ROOT / "build" / "native" if n.startswith("generated/") else ROOT) / n for n in names]


def _client_files() -> list[Path]:
    found = [path for folder in CLIENT_FOLDERS for path in sorted((CSRC / folder).rglob("*.c"))]
    found = [path for path in found if path != MANAGER_MAIN]
    return found + [_generated() / name for name in GENERATED_FILES]


def _compile(out: Path, sources: list[Path], *flags: str) -> None:
    includes = [f"-I{_generated()}", f"-I{_generated().parent}", f"-I{CSRC}"]
    objects: list[Path] = []
    for name in GCC_FILES:
        source = CSRC / name
        if source in sources:
            objects.append(OUT / f"{source.stem}.o")
            command = ["gcc", *FLAGS, *includes, "-c", source, "-o", objects[-1]]
            subprocess.run(command, check=True)
    rest = [path for path in sources if path not in [CSRC / name for name in GCC_FILES]]
    command = ["clang", *FLAGS, *SANITIZERS, *flags, *includes, *rest, *objects, "-o", out, "-lm"]
    subprocess.run(command, check=True)


def build() -> dict[str, Path]:
    """Compile all targets and the manager that they start; gives the programs by name."""
    OUT.mkdir(parents=True, exist_ok=True)
    manager = _manager_files()
    _compile(OUT / "shmtensor-manager", manager)
    programs = {}
    for target in sorted((ROOT / "tests" / "fuzz").glob("fuzz_*.c")):
        is_manager = target.stem == "fuzz_manager"
        sources = [p for p in manager if p != MANAGER_MAIN] if is_manager else _client_files()
        programs[target.stem] = OUT / target.stem
        _compile(OUT / target.stem, [target, *sources], "-fsanitize=fuzzer")
    return programs


def run(program: Path, seconds: int) -> int:
    """Run one target; returns its exit status, 0 when nothing was found."""
    corpus = OUT / "corpus" / program.name
    corpus.mkdir(parents=True, exist_ok=True)
    command = [program, f"-max_total_time={seconds}", "-max_len=4096", "-timeout=30"]
    command += ["-print_final_stats=1", f"-artifact_prefix={OUT}/", corpus]
    result = subprocess.run(
        command, env={**os.environ, **OPTIONS}, capture_output=True, text=True, check=False
    )
    lines = result.stderr.split("\n")
    stats = [line for line in lines if line.startswith(("stat::number", "stat::average"))]
    print(f"{program.name}: status {result.returncode}; {'; '.join(stats)}", flush=True)
    if result.returncode != 0:
        print("\n".join(lines[-80:]))
    return result.returncode


def run_control(rounds: int, seconds: int, seed: int) -> int:
    """Run the program that writes over the tables of a session; returns its exit status."""
    OUT.mkdir(parents=True, exist_ok=True)
    program = OUT / "control"
    sources = [path for path in _client_files() if path.parent.name != "tensor"]
    _compile(program, [ROOT / "tests" / "fuzz" / "control.c", *sources])
    bound = ["--rounds", str(rounds)] if rounds else ["--seconds", str(seconds)]
    options = {**OPTIONS, "ASAN_OPTIONS": OPTIONS["ASAN_OPTIONS"] + ":detect_leaks=0"}
    command = [program, *bound, "--seed", str(seed)]
    return subprocess.run(command, env={**os.environ, **options}, check=False).returncode


def run_valgrind(n_inputs: int) -> int:
    """Run the manager's target on random inputs under valgrind; returns its exit status."""
    OUT.mkdir(parents=True, exist_ok=True)
    tests = [ROOT / "tests" / "fuzz" / name for name in ("fuzz_manager.c", "replay.c")]
    sources = [*tests, *(path for path in _manager_files() if path != MANAGER_MAIN)]
    includes = [f"-I{_generated()}", f"-I{_generated().parent}", f"-I{CSRC}"]
    program = OUT / "replay"
    subprocess.run(["gcc", *FLAGS, *includes, *sources, "-o", program, "-lm"], check=True)
    command = ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", program, str(n_inputs)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    # "--1234--" begins what valgrind says of itself: releases before 3.20 do not know pidfd_open.
    report = [line for line in result.stderr.split("\n") if not line.startswith("--")]
    print(result.stdout + "\n".join(report).strip())
    print(f"valgrind: status {result.returncode}")
    return result.returncode


def main(arguments: list[str]) -> int:
    """Build and run; returns 1 when a target found something."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="in all")
    parser.add_argument("--valgrind", type=int, metavar="INPUTS", help="the manager, by valgrind")
    parser.add_argument("--control", type=int, metavar="ROUNDS", help="tables; 0: for --seconds")
    parser.add_argument("--seed", type=int, default=1, help="of --control")
    parser.add_argument("targets", nargs="*", help="all when none is named")
    options = parser.parse_args(arguments)
    if options.valgrind:
        return run_valgrind(options.valgrind)
    if shutil.which("clang") is None:
        print("fuzz: no clang; apt-get install clang libclang-rt-14-dev")
        return 2
    if options.control is not None:
        return run_control(options.control, options.seconds, options.seed)
    programs = build()
    wanted = options.targets or list(programs)
    seconds = max(options.seconds // len(wanted), 1)
    results = [run(programs[name], seconds) for name in wanted]
    return int(any(results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
