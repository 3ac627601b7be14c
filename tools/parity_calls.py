"""One operator called with one sample, torch's and ours, from the same seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parity_values import copied, ours, set_seeds


def seeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call with the generators of both sides as they start."""
    set_seeds()
    return function(*args, **kwargs)


def reference(op: Any, sample: Any) -> Any:
    """Torch's result."""
    return seeded(op, sample.input, *sample.args, **sample.kwargs)


def call_ours(function: Callable[..., Any], sample: Any) -> Any:
    """The result of a function of ours."""
    value, arguments, options = ours((sample.input, sample.args, sample.kwargs))
    return seeded(function, value, *arguments, **options)


def copy_of(sample: Any) -> Any:
    """The sample with copies of its tensors, to be changed."""
    return sample.transform(copied)
