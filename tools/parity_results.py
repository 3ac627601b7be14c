"""Checks of what an operator computes: values, strides, and what Meta predicts."""

from __future__ import annotations

from typing import Any

from parity_calls import call_ours, reference, seeded
from parity_compare import compare
from parity_values import Outcome, find, ours, tensors

import shmtensor as st


def forward(op: Any, sample: Any) -> Outcome:
    """Values, shapes and dtypes."""
    return compare(op, sample, call_ours(find(op), sample), reference(op, sample))


def _same_strides(mine: Any, other: Any) -> Outcome:
    for x, y in zip(tensors(mine), tensors(other), strict=False):
        if y.numel() > 1 and [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1] != [
            s for s, n in zip(y.stride(), y.shape, strict=True) if n > 1
        ]:
            return f"strides {x.stride()} for {tuple(x.shape)}, torch {tuple(y.stride())}"
    return None


def strides(op: Any, sample: Any) -> Outcome:
    """The strides of the results."""
    return _same_strides(call_ours(find(op), sample), reference(op, sample))


def noncontig(op: Any, sample: Any) -> Outcome:
    """Arguments with gaps between their elements."""
    try:
        apart = sample.noncontiguous()
        reference(op, apart)
    except RuntimeError:
        return "-"
    return forward(op, apart)


def meta(op: Any, sample: Any) -> Outcome:
    """What Meta predicts: shape, dtype and strides of what is computed."""

    def there(value: Any) -> Any:
        if isinstance(value, st.Tensor):
            like = (tuple(value.shape), tuple(value.stride()))
            return st.empty_strided(*like, dtype=value.dtype, device="meta")
        if isinstance(value, (list, tuple)):
            return type(value)(there(item) for item in value)
        return value

    given = there((ours(sample.input), *ours(sample.args)))
    kwargs = {key: there(item) for key, item in ours(sample.kwargs).items()}
    if not list(tensors(given)):
        return "-"
    try:
        predicted = seeded(find(op), *given, **kwargs)
    except (NotImplementedError, RuntimeError) as refused:
        # Shapes that depend on values cannot be predicted.
        unknown = (
            "depends on data",
            "depend on data",
            "item() cannot be called",
            "copy out of meta",
            "be on cpu",
        )
        if any(text in str(refused) for text in unknown):
            return "-"
        raise
    computed = call_ours(find(op), sample)
    if not list(tensors(computed)):
        return "-"
    for x, y in zip(tensors(predicted), tensors(computed), strict=True):
        got, want = (tuple(x.shape), x.dtype), (tuple(y.shape), y.dtype)
        if got != want:
            return f"predicted {got}, computed {want}"
        if wrong := _same_strides(x, y):
            return f"predicted {wrong.replace('torch', 'computed')}"
        if x.device.type != str(kwargs.get("device", "meta")):
            return f"the result is on {x.device}"
    return None
