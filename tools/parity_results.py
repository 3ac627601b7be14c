"""Checks of what an operator computes: values, strides, and what Meta predicts."""

from __future__ import annotations

from typing import Any

import torch
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


def _sizes(sample: Any) -> set[int]:
    given = tensors((sample.input, sample.args, sample.kwargs))
    return {n for t in given for n in t.shape if n}


def _without(sample: Any, size: int) -> Any:
    """The sample with every dimension of a size cut to none."""

    def cut(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        kept = tuple(slice(0 if n == size else None) for n in value.shape)
        return value.detach()[kept].clone()

    return sample.transform(cut)


def empty(op: Any, sample: Any) -> Outcome:
    """Tensors without elements: what torch takes gives the same, what it refuses is refused."""
    outcome: Outcome = "-"
    for size in sorted(_sizes(sample)):
        less = _without(sample, size)
        shapes = [tuple(t.shape) for t in tensors((less.input, less.args, less.kwargs))]
        refusal: Exception | None = None
        try:
            expected = reference(op, less)
        except Exception as error:
            refusal = error
        try:
            result = call_ours(find(op), less)
        except Exception as error:
            if refusal is None:
                return f"{shapes}: {type(error).__name__}: {' '.join(str(error).split())[:120]}"
            if not isinstance(error, type(refusal)):
                return f"{shapes}: {type(error).__name__}, torch {type(refusal).__name__}"
            outcome = None
            continue
        if refusal is not None:
            return f"{shapes}: taken, torch: {' '.join(str(refusal).split())[:120]}"
        if wrong := compare(op, less, result, expected):
            return f"{shapes}: {wrong}"
        outcome = None
    return outcome


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
