"""Call operators at random under AddressSanitizer and UBSan: ``fuzz_ops.py [--seconds N]``.

The calls are made by ``fuzz_calls.py`` in child processes of limited memory, so that a crash or a
call that does not end is a finding, reported as the line of Python that does it again::

    python build_ffi.py --config asan
    python tools/fuzz_ops.py --seconds 1800 --seed 7
    python tools/fuzz_ops.py --line "st.ops.aten.neg.default(make('bool', (2,)))"

Findings: an end by a signal or a sanitizer's report, a call of more than ``--limit`` seconds,
an exception that is none of the operators' (SystemError, say), blocks of tensor memory that stay,
and results that are others when the tensors lie oddly in memory. Batches take turns at the
instruction sets (``--level`` for a single call). The exit status is 1 when there are findings. The
same seed makes the same calls.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sanitize import OPTIONS, _runtime
from tree import ROOT

CHILD = ROOT / "tools" / "fuzz_calls.py"
BATCH = 2000
#: Instruction sets of the loops, in the order batches use them; "": the best of this machine.
LEVELS = ("", "base", "v3")
#: OpenBLAS ends the process when the limit of memory leaves no room for its buffers.
NO_ROOM = "OpenBLAS error: Memory allocation still failed"
#: The sanitizers' allocator gives NULL for what is too large; so do we, and MemoryError follows.
EXTRA = ":max_allocation_size_mb=1024:detect_stack_use_after_return=0"


def environment(config: str, level: str) -> dict[str, str]:
    """The child's environment for a build and an instruction set."""
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    if level:
        common["SHMTENSOR_CPU_CAPABILITY"] = level
    if config == "native":
        return {**common, "PYTHONPATH": str(ROOT)}
    options = dict(OPTIONS["asan"])
    options["ASAN_OPTIONS"] += EXTRA
    return {
        **common,
        **options,
        "LD_PRELOAD": " ".join(_runtime(name) for name in ("libasan.so", "libubsan.so")),
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(ROOT / "build" / "asan" / "lib"),
    }


def work_directory(config: str) -> Path:
    """Where children run: not the root, whose package would come first."""
    path = ROOT / "build" / config / "run"
    path.mkdir(parents=True, exist_ok=True)
    return path


class Child:
    """One child process on a range of lines."""

    def __init__(self, config: str, seed: int, first: int, count: int, folder: Path) -> None:
        level = LEVELS[first // BATCH % len(LEVELS)]
        self.shown = folder / f"line{first}"
        self.shown.write_bytes(b"\0" * (1 << 16))
        self.output = folder / f"out{first}"
        command = [sys.executable, str(CHILD), str(seed), str(first), str(count), str(self.shown)]
        with self.output.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=environment(config, level),
                cwd=work_directory(config),
            )
        self.number = -1
        self.since = (0.0, time.monotonic())

    def line(self) -> tuple[int, str]:
        """The number and text of the call that is being made."""
        number, _, text = self.shown.read_bytes().split(b"\0")[0].decode().partition("\n")
        return int(number or -1), text

    def times(self) -> tuple[float, float]:
        """Seconds of processor the child has used, and the time now."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0, time.monotonic()
        ticks = int(fields[11]) + int(fields[12])  # utime and stime
        return ticks / os.sysconf("SC_CLK_TCK"), time.monotonic()

    def wait(self, limit: float) -> str:
        """Wait for the end; gives ``end``, or ``hang`` after killing it.

        A call may use *limit* seconds of processor, and stand still ten times as long: other
        processes slow it down.
        """
        while True:
            try:
                self.process.wait(timeout=0.5)
                return "end"
            except subprocess.TimeoutExpired:
                number, _ = self.line()
                used, now = self.times()
                if number != self.number:
                    self.number, self.since = number, (used, now)
                elif used - self.since[0] > limit or now - self.since[1] > 10 * limit:
                    self.process.kill()
                    self.process.wait()
                    return "hang"

    def report(self) -> list[str]:
        """What the child wrote."""
        return self.output.read_text(errors="replace").splitlines()


def run_batch(
    config: str, seed: int, first: int, count: int, limit: float, until: float
) -> tuple[list[str], int]:
    """Make the calls of one batch, going on after each finding; gives findings and calls made."""
    findings: list[str] = []
    done = 0
    with tempfile.TemporaryDirectory() as name:
        while done < count and time.monotonic() < until:
            child = Child(config, seed, first + done, count - done, Path(name))
            how = child.wait(limit)
            report = child.report()
            number, text = child.line()
            level = LEVELS[first // BATCH % len(LEVELS)]
            findings += [f"{line}  # {level}" for line in report if "\t" in line]
            if how == "end" and "done" in report:
                return findings, count
            done = max(number - first + 1, done + 1)
            if how == "end" and any(NO_ROOM in line for line in report):
                continue
            what = f"longer than {limit:.0f} s" if how == "hang" else _cause(child, report)
            findings.append(f"{what}\t{text}  # {level}")
    return findings, done


def _cause(child: Child, report: list[str]) -> str:
    wanted = ("runtime error:", "ERROR: AddressSanitizer", "Error:", "SUMMARY")
    lines = [line.strip() for line in report if any(w in line for w in wanted)]
    frames = [line.split(" in ")[1] for line in report if line.lstrip().startswith("#")
              and " in " in line and "/csrc/" in line]  # fmt: skip
    text = "; ".join([*lines[:1], *frames[:3]]) or (report[-1] if report else "no output")
    return f"status {child.process.returncode}: {text}"


def main(arguments: list[str]) -> int:
    """Fuzz, or make one line; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--first", type=int, default=0, help="number of the first line")
    parser.add_argument("--limit", type=float, default=60, help="processor seconds for one call")
    parser.add_argument("--config", choices=("asan", "native"), default="asan")
    parser.add_argument("--line", help="make this one call")
    parser.add_argument("--level", choices=LEVELS, default="", help="instruction set for --line")
    options = parser.parse_args(arguments)
    if options.line:
        command = [sys.executable, str(CHILD), "--line", options.line]
        where = work_directory(options.config)
        env = environment(options.config, options.level)
        return subprocess.run(command, env=env, cwd=where, check=False).returncode
    if options.config == "asan" and not (ROOT / "build" / "asan" / "lib").exists():
        print("fuzz_ops: run python build_ffi.py --config asan first")
        return 2
    print(f"seed {options.seed}", flush=True)
    began = time.monotonic()
    until = began + options.seconds
    calls, found, first = 0, 0, options.first
    while time.monotonic() < until:
        findings, done = run_batch(options.config, options.seed, first, BATCH, options.limit, until)
        for text in findings:
            print(text, flush=True)
        calls, found, first = calls + done, found + len(findings), first + BATCH
    minutes = (time.monotonic() - began) / 60
    print(f"{calls} calls in {minutes:.1f} minutes, {found} findings, seed {options.seed}")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
