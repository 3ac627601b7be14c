"""Run pytest against a sanitizer build: ``sanitize.py asan|leaks|tsan -- <pytest arguments>``.

``leaks`` is the asan build with LeakSanitizer: what our C code has allocated and nothing refers
to when the process ends; ``tools/lsan.supp`` names what Python itself keeps. Run it without
workers: the report stands at the end of the run, and the status is 23.

The sanitizer's run-time must be loaded before Python's own allocations, hence LD_PRELOAD; it is
inherited by children and by the manager, which is wanted. The package comes from
``build/<config>/lib``, so the working directory must not be the project's root.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tree import ROOT

RUNTIMES = {
    "asan": ("libasan.so", "libubsan.so"),
    "leaks": ("libasan.so", "libubsan.so"),
    "tsan": ("libtsan.so",),
}
BUILDS = {"asan": "asan", "leaks": "asan", "tsan": "tsan"}
# Reports go to files: pytest would keep what a test has written, or lose it with the process.
OPTIONS = {
    # Python keeps much alive until exit; leaks of our own are counted by the tests. To note 30
    # frames of each allocation, as it would, takes a fifth of the time.
    "asan": {
        "ASAN_OPTIONS": (
            "detect_leaks=0:halt_on_error=1:allocator_may_return_null=1:malloc_context_size=6"
            ":log_path={reports}"
        ),
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:log_path={reports}",
    },
    "leaks": {
        "ASAN_OPTIONS": "detect_leaks=1:halt_on_error=1:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "LSAN_OPTIONS": f"suppressions={ROOT}/tools/lsan.supp:print_suppressions=0",
    },
    # It knows at most 64 mutexes of a thread, and a fork takes all; SHMT_ASSERT checks their order.
    "tsan": {
        "TSAN_OPTIONS": (
            "halt_on_error=0:exitcode=66:die_after_fork=0:detect_deadlocks=0:log_path={reports}"
        )
    },
}


def _runtime(name: str) -> str:
    result = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def main(arguments: list[str]) -> int:
    """Run pytest; returns its exit status."""
    if not arguments or arguments[0] not in RUNTIMES:
        print(f"usage: sanitize.py {'|'.join(RUNTIMES)} [--] <pytest arguments>")
        return 2
    config, *rest = arguments
    paths = [str(ROOT / a) if (ROOT / a.split("::")[0]).exists() else a for a in rest if a != "--"]
    build = ROOT / "build" / BUILDS[config]
    work = build / "run"
    work.mkdir(parents=True, exist_ok=True)
    environment = {
        **os.environ,
        **{name: text.format(reports=work / "report") for name, text in OPTIONS[config].items()},
        "LD_PRELOAD": " ".join(_runtime(name) for name in RUNTIMES[config]),
        "PYTHONMALLOC": "malloc",
        # Behind the build, the folder whose tests are modules of spawned workers.
        "PYTHONPATH": os.pathsep.join((str(build / "lib"), str(ROOT))),
        "SHMTENSOR_SANITIZER": BUILDS[config],
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout", "600"]
    command += [f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml"), *paths]
    for old in work.glob("report.*"):
        old.unlink()
    status = subprocess.run(command, cwd=work, env=environment, check=False).returncode
    reports = [path.read_text() for path in sorted(work.glob("report.*"))]
    print("\n".join(reports), end="")
    # Tests of asan's suite kill processes in ways of which it writes a report, too.
    return status or int(config == "tsan" and bool(reports))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
