"""Compare operators with torch's on the sample inputs that torch tests itself with.

    python tools/parity.py                       # every operator, one dtype, writes docs/parity.md
    python tools/parity.py --only add linalg.svd --dtypes float32 complex64
    python tools/parity.py --checks forward out --inputs both --dtypes all --max-samples 0

Needs torch 2.13 with what its own tests import (numpy, expecttest, hypothesis). Each operator runs
in processes of its own, so one that crashes or hangs is a line in the report.

Checks: ``forward`` (values, shape, dtype), ``grad`` and ``gradgrad`` (first and second derivatives
with fixed cotangents), ``jvp`` (tangents; this and the second derivatives in double precision),
``strides`` (of the results), ``noncontig`` (arguments with gaps), ``method``, ``inplace``, ``out``
(of the right size, with gaps, empty), ``outcast`` (of other dtypes), ``meta`` (predicted equals
computed shape, dtype and strides), ``view`` (writes show in the input), ``alias``, ``operator``,
``error`` (torch's error inputs raise its exception type), ``message`` (with its text). Values must
be close to torch's, or as close to the result in double precision.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import selectors
import signal
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from parity_checks import RUN
from parity_reasons import reason_for
from parity_values import Missing, Outcome, name_of
from torch.testing._internal.common_methods_invocations import op_db

ROOT = Path(__file__).resolve().parents[1]
CHECKS = tuple(name for name in RUN if name != "message")
DERIVATIVES = ("grad", "gradgrad", "jvp")
ONCE = ("error", "message")  # inputs that have no dtype of their own
SECONDS_PER_CHECK = 600

Unit = tuple[str, torch.dtype]  # a check and a dtype
Row = tuple[str, str, Outcome]


# --- one operator, in a process of its own -------------------------------------------------------


class Samples:
    """An operator's samples, kept for one dtype and kind at a time."""

    def __init__(self, op: Any, inputs: str, most: int) -> None:
        self._op, self._inputs, self._most = op, inputs, most
        self._key: Any = None
        self._kept: list[Any] = []

    def of(self, check: str, dtype: torch.dtype) -> list[Any]:
        """The samples of a check."""
        if check in ONCE:
            return list(self._op.error_inputs("cpu")) if self._op.error_inputs_func else []
        key = (dtype, check in DERIVATIVES)
        if key != self._key:
            self._kept, self._key = self._made(*key), key
        return self._kept

    def _made(self, dtype: torch.dtype, requires_grad: bool) -> list[Any]:
        made: list[Any] = []
        for kind in ("sample", "reference"):
            if self._inputs in (kind, "both"):
                torch.manual_seed(0)
                make = getattr(self._op, f"{kind}_inputs")
                found = []
                with contextlib.suppress(RuntimeError, ValueError):  # some cannot have gradients
                    found += make("cpu", dtype, requires_grad=requires_grad)
                # Evenly spread, so that the last kinds of samples are there too.
                most = self._most // 2 if self._inputs == "both" else self._most
                step = len(found) / most if 0 < most < len(found) else 1.0
                made += [found[int(i * step)] for i in range(int(len(found) / step))]
        return made


def units_of(op: Any, checks: Sequence[str], dtypes: Sequence[str]) -> list[Unit]:
    """The checks of an operator and the dtypes they run in; ``auto`` is the first that it has."""
    units: list[Unit] = []
    for check in checks:
        supported = set(op.dtypes)
        if check in DERIVATIVES:
            if not op.supports_autograd:
                continue
            supported &= set(op.supported_backward_dtypes("cpu"))
        chosen = _chosen(check, supported, dtypes)
        units += [(check, dtype) for dtype in chosen]
    # By dtype, so that samples are made once.
    return sorted(units, key=lambda unit: (str(unit[1]), unit[0] in DERIVATIVES))


def _chosen(check: str, supported: set[torch.dtype], dtypes: Sequence[str]) -> list[torch.dtype]:
    if check in ("gradgrad", "jvp"):
        doubles = [torch.float64, torch.complex128]
        return [d for d in doubles if d in supported][: None if "all" in dtypes else 1]
    ordered = sorted(supported, key=str)
    first = [d for d in (torch.float32, torch.int64, torch.complex64) if d in supported]
    first = (first or ordered)[:1]
    if check in ONCE or "auto" in dtypes:
        return first
    return [d for d in ordered if "all" in dtypes or name_of(d) in dtypes]


def check_operator(op: Any, check: str, samples: list[Any]) -> Outcome:
    """Run one check on every sample: None, "-", or the first thing that is wrong."""
    applied = False
    for number, sample in enumerate(samples):
        try:
            outcome = RUN[check](op, sample)
        except Missing as missing:
            return f"missing: {missing}"
        except AttributeError as missing:
            return f"missing: {missing}"
        except Exception as raised:
            outcome = f"{type(raised).__name__}: {' '.join(str(raised).split())[:160]}"
        applied = applied or outcome != "-"
        if outcome not in (None, "-"):
            return f"sample {number} of {len(samples)}: {outcome}"
    return None if applied else "-"


def _run_in_child(op: Any, units: Sequence[Unit], samples: Samples, fd: int) -> None:
    warnings.simplefilter("ignore")
    with os.fdopen(fd, "w") as pipe:
        for check, dtype in units:
            signal.alarm(SECONDS_PER_CHECK)
            try:
                outcome = check_operator(op, check, samples.of(check, dtype))
            except Exception as error:  # torch could not make the samples
                outcome = f"no samples: {error}"
            pipe.write(json.dumps([check, name_of(dtype), outcome]) + "\n")
            pipe.flush()


def _start(op: Any, units: Sequence[Unit], samples: Samples) -> tuple[int, int]:
    receive, send = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(receive)
        try:
            _run_in_child(op, units, samples, send)
        finally:
            os._exit(0)
    os.close(send)
    return pid, receive


class Run:
    """The units of one operator that are left, and the rows of those that are done."""

    def __init__(self, op: Any, units: list[Unit], samples: Samples) -> None:
        variant = f".{op.variant_test_name}" if op.variant_test_name else ""
        self.name = op.name + variant
        self.rows: list[Row] = []
        self._op, self._units, self._samples = op, units, samples
        self._text = bytearray()
        self._pid = -1

    def start(self) -> int:
        """Begin with what is left; the descriptor to read from."""
        self._text.clear()
        self._pid, fd = _start(self._op, self._units[len(self.rows) :], self._samples)
        return fd

    def read(self, fd: int) -> bool:
        """Take what the child says; False when it has ended."""
        data = os.read(fd, 65536)
        self._text += data
        if data:
            return True
        os.close(fd)
        status = os.waitpid(self._pid, 0)[1]
        self.rows += [tuple(json.loads(line)) for line in self._text.decode().splitlines()]
        if len(self.rows) < len(self._units):
            check, dtype = self._units[len(self.rows)]
            how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit"
            self.rows.append((check, name_of(dtype), f"the process ended by {how}"))
        return False

    def is_done(self) -> bool:
        """Has every unit a row?"""
        return len(self.rows) == len(self._units)


def run_all(runs: list[Run], jobs: int, done: Callable[[Run], None]) -> None:
    """Run all, *jobs* at a time; *done* is told of each that has ended."""
    waiting = list(reversed(runs))
    running: dict[int, Run] = {}
    selector = selectors.PollSelector()  # children hold copies of the pipes: epoll would go on
    while waiting or running:
        while waiting and len(running) < jobs:
            run = waiting.pop()
            if run.is_done():
                continue
            fd = run.start()
            running[fd] = run
            selector.register(fd, selectors.EVENT_READ)
        for key, _ in selector.select() if running else []:
            run = running[key.fd]
            if run.read(key.fd):
                continue
            selector.unregister(key.fd)
            del running[key.fd]
            if run.is_done():
                done(run)
            else:
                waiting.append(run)


# --- the report ----------------------------------------------------------------------------------


def _shares(runs: list[Run], key: Callable[[Row], Any]) -> Iterator[tuple[Any, int, int]]:
    """Of each key: the operators a check applies to, and those that pass it."""
    verdicts: dict[Any, dict[str, bool]] = defaultdict(dict)
    for run in runs:
        for row in run.rows:
            if row[2] != "-":
                verdict = verdicts[key(row)]
                verdict[run.name] = verdict.get(run.name, True) and row[2] is None
    for name, verdict in verdicts.items():
        yield name, len(verdict), sum(verdict.values())


def report(runs: list[Run], checks: Sequence[str], how: str) -> str:
    """The page: a line per check, a table per dtype, then every operator that fails and why."""
    lines = [
        "# Parity with torch",
        "",
        f"Made by `make parity`; torch {torch.__version__}; {how}.",
        "",
    ]
    lines += ["An operator passes when all its samples in all dtypes do.", ""]
    lines += ["| check | apply | pass | share | fail on purpose |", "|---|---:|---:|---:|---:|"]
    totals = {check: (apply, ok) for check, apply, ok in _shares(runs, lambda row: row[0])}
    for check in checks:
        apply, ok = totals.get(check, (0, 0))
        share = f"{100 * ok / max(apply, 1):.1f} %"
        lines.append(f"| {check} | {apply} | {ok} | {share} | {_on_purpose(runs, check)} |")
    dtypes = sorted({dtype for run in runs for _, dtype, _ in run.rows})
    if len(dtypes) > 1:
        cells = {key: f"{ok}/{n}" for key, n, ok in _shares(runs, lambda row: (row[0], row[1]))}
        lines += ["", "| passing of applying | " + " | ".join(checks) + " |"]
        lines.append("|---" * (len(checks) + 1) + "|")
        for dtype in dtypes:
            row = [cells.get((check, dtype), "") for check in checks]
            lines.append(f"| {dtype} | " + " | ".join(row) + " |")
    lines += ["", "## What fails", "", "| operator | check | dtype | how | why |"]
    lines.append("|---|---|---|---|---|")
    for run in sorted(runs, key=lambda run: run.name):
        lines += _failures(run)
    return "\n".join(lines) + "\n"


def _on_purpose(runs: list[Run], check: str) -> int:
    """How many operators fail a check only where a reason is known."""
    known = [
        all(reason_for(run.name, *row[:2]) for row in failed)
        for run in runs
        if (failed := [row for row in run.rows if row[0] == check and row[2] not in (None, "-")])
    ]
    return sum(known)


def _failures(run: Run) -> Iterator[str]:
    """A line for each difference and reason, with the dtypes they hold for."""
    grouped: dict[tuple[str, str, str], list[str]] = {}
    for check, dtype, outcome in run.rows:
        if outcome not in (None, "-"):
            how = str(outcome).replace("|", "\\|")
            why = reason_for(run.name, check, dtype)
            grouped.setdefault((check, how, why), []).append(dtype)
    for (check, how, why), dtypes in grouped.items():
        yield f"| `{run.name}` | {check} | {' '.join(dtypes)} | {how} | {why} |"


def main() -> int:
    """Run; the exit status is 1 when an operator crashed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="names of operators")
    parser.add_argument("--match", help="a regular expression that the name begins with")
    parser.add_argument("--checks", nargs="*", choices=tuple(RUN), default=list(CHECKS))
    parser.add_argument("--dtypes", nargs="*", default=["auto"], help="names, auto or all")
    parser.add_argument("--inputs", choices=("sample", "reference", "both"), default="sample")
    parser.add_argument("--max-samples", type=int, default=60, help="of each; 0: all")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "parity.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = [
        Run(
            op,
            units_of(op, options.checks, options.dtypes),
            Samples(op, options.inputs, options.max_samples),
        )
        for op in op_db
        if not op.name.startswith("jiterator")
        and (not options.only or op.name in options.only)
        and (not options.match or re.match(options.match, op.name))
    ]
    began = time.monotonic()
    ended: list[Run] = []
    how = f"inputs: {options.inputs}; dtypes: {' '.join(options.dtypes)}"

    def say(run: Run) -> None:
        ended.append(run)
        options.output.write_text(report(ended, options.checks, how))  # to look at meanwhile
        print(f"{len(ended)} of {len(runs)} operators", end="\r", file=sys.stderr, flush=True)

    run_all(runs, options.jobs, say)
    text = report(runs, options.checks, how)
    options.output.write_text(text)
    print(text[: text.index("## What fails")])
    print(f"{len(runs)} operators in {time.monotonic() - began:.0f} s; see {options.output}")
    crashed = [run.name for run in runs if any("ended by" in str(row[2]) for row in run.rows)]
    if crashed:
        print("crashed:", ", ".join(crashed))
    return 1 if crashed else 0


if __name__ == "__main__":
    sys.exit(main())
