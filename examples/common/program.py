"""The command line of the programs: options that all have, their folder, their exit status.

A program's exit status is 0, 1 if the run failed or (with ``--check``) did not reach the quality
that its help text states, 2 for bad input, and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import shlex
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shmtensor import hogwild

__all__ = [
    "BelowGoalError",
    "above_zero",
    "add_run_options",
    "check_resume",
    "draw",
    "is_installed",
    "meet",
    "positive",
    "results_folder",
    "run",
    "run_arguments",
]

START_METHODS = ("fork", "spawn", "forkserver")


class BelowGoalError(RuntimeError):
    """The run went well and did not learn as much as it promises."""


def positive(text: str) -> int:
    """An option's whole number from 1 on."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def above_zero(text: str) -> float:
    """An option's finite number above 0."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text}")
    return value


def add_run_options(parser: argparse.ArgumentParser, *, workers: int = 2) -> None:
    """Add the options that say how to run, not what to learn."""
    group = parser.add_argument_group("the run")
    group.add_argument(
        "--workers", type=positive, default=workers, help=f"processes (default {workers})"
    )
    group.add_argument("--seconds", type=above_zero, help="train no longer than this")
    group.add_argument("--start-method", choices=START_METHODS, default="fork")
    group.add_argument("--seed", type=int, default=0)
    group.add_argument(
        "--checkpoint-every",
        type=above_zero,
        default=30.0,
        help="seconds between checkpoints (30)",
    )
    folder = group.add_mutually_exclusive_group()
    folder.add_argument("--out", type=Path, help="folder for the results (runs/<name>-<time>)")
    folder.add_argument("--resume", type=Path, help="folder of a run to resume")
    group.add_argument("--plain", action="store_true", help="plain text instead of live progress")
    group.add_argument("--quick", action="store_true", help="a short run that reaches the same")
    group.add_argument(
        "--check", action="store_true", help="end with status 1 below the stated quality"
    )


def results_folder(options: argparse.Namespace, name: str) -> Path:
    """Where the run's files go; nothing is made yet."""
    given: Path | None = options.resume or options.out
    return given or Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def check_resume(options: argparse.Namespace) -> None:
    """See, before anything is read or trained, that there is a run to go on with.

    Raises:
        FileNotFoundError: It has no checkpoint.
    """
    if options.resume and not (options.resume / "checkpoint.pt").is_file():
        raise FileNotFoundError(f"{options.resume} has no checkpoint.pt to resume from")


def run_arguments(options: argparse.Namespace, folder: Path | None) -> dict[str, Any]:
    """What the options say to `hogwild.run` of how to run; without a folder nothing is saved."""
    return {
        "seconds": options.seconds,
        "folder": folder,
        "checkpoint_every": options.checkpoint_every,
        "resume": options.resume is not None,
        "seed": options.seed,
        "start_method": options.start_method,
        "view": "plain" if options.plain else "auto",
    }


def is_installed(module: str) -> bool:
    """Whether a module can be imported."""
    return importlib.util.find_spec(module) is not None


def draw(curves: dict[str, list[hogwild.Point]], picture: Path, title: str) -> list[Path]:
    """Draw curves where matplotlib is installed; returns the paths that were written."""
    if not is_installed("matplotlib"):
        print(f"matplotlib is not installed; {picture.name} is not drawn")
        return []
    hogwild.draw(curves, picture, title)
    return [picture]


def meet(
    options: argparse.Namespace,
    name: str,
    value: float,
    *,
    at_least: float = -math.inf,
    at_most: float = math.inf,
) -> None:
    """Compare a figure with the stated one, and say what was reached.

    Raises:
        BelowGoalError: It is worse, or not a number, and ``--check`` was given.
    """
    goal = f"at least {at_least:g}" if at_least > -math.inf else f"at most {at_most:g}"
    if at_least <= value <= at_most:
        print(f"reached: {name} {value:.4g} ({goal})")
        return
    text = f"{name} is {value:.4g}, and {goal} was to be reached"
    if options.check:
        raise BelowGoalError(text)
    print(text)


def _warn_of_cores(name: str, n_workers: int) -> None:
    cores = len(os.sched_getaffinity(0))
    if n_workers > cores:
        print(f"{name}: {n_workers} workers share {cores} cores", file=sys.stderr)


def _command_to_resume(folder: Path) -> str:
    """The command of this run, with ``--resume`` in place of ``--out``."""
    kept, skips = [], False
    for argument in sys.argv[1:]:
        is_folder = argument in ("--out", "--resume")
        if not (skips or is_folder or argument.startswith(("--out=", "--resume="))):
            kept.append(argument)
        skips = is_folder
    return shlex.join([sys.executable, sys.argv[0], *kept, "--resume", str(folder)])


def run(name: str, options: argparse.Namespace, folder: Path, program: Callable[[], None]) -> int:
    """Call *program*; returns the exit status, after one line about what went wrong."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_: print(f"{name}: {message}", file=sys.stderr)
        _warn_of_cores(name, options.workers)
        warnings.filterwarnings("ignore", r"hogwild\.run.* will wait for each other")  # just told
        return _status(name, folder, program)


def _status(name: str, folder: Path, program: Callable[[], None]) -> int:
    try:
        program()
    except (OSError, ValueError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        is_saved = any(folder.rglob("checkpoint.pt"))
        print(f"\ninterrupted{f'; to resume: {_command_to_resume(folder)}' if is_saved else ''}")
        return 130
    return 0
