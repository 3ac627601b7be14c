"""Runs the checks of one section and prints each result as a line of JSON."""

from __future__ import annotations

import importlib
import json
import math
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

from shmtensor import Tensor
from shmtensor.inspect import Check

__all__ = ["Trial", "close", "run_section", "same"]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Trial:
    """Something to try.

    Attributes:
        name: What is tried.
        attempt: Tries it; returns what was found, or raises.
    """

    name: str
    attempt: Callable[[], str]


def close(what: str, got: Tensor | float, expected: Sequence[float] | float, tol: float) -> None:
    """Compare numbers with known ones.

    Args:
        what: The subject, for the error.
        got: A tensor of any shape, or a number.
        expected: The values in order, or one for all elements.
        tol: The largest difference, absolute where *expected* is below 1, else relative.

    Raises:
        AssertionError: A value differs.
    """
    values = got.flatten().tolist() if isinstance(got, Tensor) else [got]
    wanted = [expected] * len(values) if isinstance(expected, (int, float)) else list(expected)
    same(f"{what}: number of values", len(values), len(wanted))
    for i, (value, right) in enumerate(zip(values, wanted, strict=True)):
        # The negated comparison also catches NaN.
        if not abs(value - right) <= tol * max(1.0, abs(right)) or math.isnan(right):
            raise AssertionError(f"{what}: value {i} is {value!r} instead of {right!r}")


def same(what: str, got: object, expected: object) -> None:
    """Raise an AssertionError unless *got* equals *expected*."""
    if got != expected:
        raise AssertionError(f"{what}: {got!r} instead of {expected!r}")


def _place(error: BaseException) -> str:
    """Return the line of a check that raised, and the innermost line below it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).parent == _HERE and f.name not in _HELPERS]
    shown = dict.fromkeys(f"{Path(f.filename).name}:{f.lineno}: {f.line}" for f in own[-1:])
    if frames and frames[-1].name not in _HELPERS:
        shown[f"{Path(frames[-1].filename).name}:{frames[-1].lineno}: {frames[-1].line}"] = None
    return " | ".join(shown)


_HELPERS = {"close", "same", "_try"}


def _try(trial: Trial) -> Check:
    try:
        return Check(trial.name, "ok", trial.attempt())
    except Exception as error:
        text = str(error).strip().replace("\n", " ")
        found = text if isinstance(error, AssertionError) else f"{type(error).__name__}: {text}"
        return Check(trial.name, "bad", found, _place(error))


def _results(module: ModuleType) -> Iterable[Check]:
    for item in module.CHECKS:
        if isinstance(item, Trial):
            yield _try(item)
        else:
            yield from item()


def run_section(name: str) -> None:
    """Run the section *name* and print its results.

    An entry of a section's ``CHECKS`` is a `Trial`, or a function that returns several results.
    """
    module = importlib.import_module(f"{__package__}.{name}")
    for check in _results(module):
        print(json.dumps(asdict(check)), flush=True)
