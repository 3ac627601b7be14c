"""Expressions that are to have the same outcome here and in torch: a text of the value or error."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

import shmtensor

# Addresses, and the numbers of handles, which are counted over the process.
_PASSING = re.compile(r" at 0x\w+|(?<=OrderedDict\(\[\()\d+(?=, <)")


def outcome(expression: str, names: dict[str, Any]) -> str:
    """What an expression gives, or the error that it raises; names of the library are torch's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            text = str(eval(expression, dict(names)))
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
    return _PASSING.sub("", text).replace("shmtensor", "torch")


def library(name: str, modules: Iterable[str] = ()) -> Any:
    """A library with modules of it imported."""
    for module in modules:
        importlib.import_module(f"{name}.{module}")
    return importlib.import_module(name)


def differences(
    expressions: str,
    names: dict[str, Any] | None = None,
    modules: Iterable[str] = (),
) -> list[tuple[str, str, str]]:
    """The expressions, a line each, whose outcomes differ, with both outcomes.

    Args:
        expressions: They see the library as ``m``, and both libraries' modules below it.
        names: What else they see.
        modules: Modules of the library that are imported first.
    """
    pytest.importorskip("torch")
    found = []
    both = [library(name, modules) for name in ("shmtensor", "torch")]
    for expression in expressions.strip().splitlines():
        ours, theirs = (
            outcome(expression, {**(names or {}), "m": m, "kept": SimpleNamespace()}) for m in both
        )
        if ours != theirs:
            found.append((expression, ours, theirs))
    return found


def ours(expression: str, names: dict[str, Any] | None = None) -> str:
    """The outcome of an expression here."""
    return outcome(expression, {**(names or {}), "m": shmtensor})
