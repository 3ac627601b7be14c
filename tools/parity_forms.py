"""Checks of the other forms of an operator: method, in place, out=, view, alias, operator."""

from __future__ import annotations

from typing import Any

import torch
from parity_calls import call_ours, copy_of, reference, seeded
from parity_compare import compare
from parity_values import (
    Missing,
    Outcome,
    differ,
    find,
    name_of,
    named,
    on_our_side,
    ours,
    tensors,
    theirs,
)

import shmtensor as st


def _form(variant: Any) -> Any:
    """Our method of the same name, or torch's own lambda with our functions in it."""
    if variant.__name__ == "<lambda>":
        return on_our_side(variant)
    function = getattr(st.Tensor, variant.__name__, None)
    if function is None:
        raise Missing(f"no method {variant.__name__}")
    return function


def method(op: Any, sample: Any) -> Outcome:
    """The method form."""
    if op.method_variant is None or not isinstance(sample.input, torch.Tensor):
        return "-"
    function = _form(op.method_variant)
    return compare(op, sample, call_ours(function, sample), reference(op.method_variant, sample))


def _overlaps_itself(t: torch.Tensor) -> bool:
    """Do elements share memory, so that what is left of them depends on the order of writes?"""
    reach = 0
    for stride, size in sorted(zip(t.stride(), t.shape, strict=True)):
        if size > 1 and stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def inplace(op: Any, sample: Any) -> Outcome:
    """The in-place form, on samples whose result fits in the argument."""
    name = getattr(op.inplace_variant, "__name__", None)
    fits = isinstance(sample.input, torch.Tensor) and not sample.broadcasts_input
    if name is None or not fits:
        return "-"
    if _overlaps_itself(sample.input):
        return "-"
    function = _form(op.inplace_variant)
    copy = copy_of(sample)
    try:
        expected = seeded(op.inplace_variant, copy.input, *copy.args, **copy.kwargs)
    except RuntimeError:
        return "-"
    mine = ours(sample.input)
    arguments = ours(sample.args)
    result = seeded(function, mine, *arguments, **ours(sample.kwargs))
    if isinstance(mine, st.Tensor) and result is not mine:
        return "the result is not the argument"
    return compare(op, sample, result, expected)


def _write_out(op: Any, sample: Any, given: list[Any]) -> None:
    single = len(given) == 1 and isinstance(reference(op, sample), torch.Tensor)
    kwargs = {**ours(sample.kwargs), "out": given[0] if single else tuple(given)}
    seeded(find(op), ours(sample.input), *ours(sample.args), **kwargs)


def out(op: Any, sample: Any) -> Outcome:
    """``out=`` into tensors of the right size, into strided ones, into empty ones."""
    if not op.supports_out:
        return "-"
    whole = reference(op, sample)
    expected = list(tensors(whole))
    try:
        given = [torch.empty_like(t) for t in expected]
        single = given[0] if isinstance(whole, torch.Tensor) else tuple(given)
        seeded(op, sample.input, *sample.args, **sample.kwargs, out=single)
    except (RuntimeError, TypeError):
        return "-"
    made = ours([torch.empty_like(t) for t in expected])
    _write_out(op, sample, made)
    wrong = compare(op, sample, made, expected)
    if wrong:
        return wrong
    gaps = [st.zeros((*t.shape, 2), dtype=ours(t.dtype))[..., 0] for t in expected]
    before = [tuple(t.stride()) for t in gaps]
    _write_out(op, sample, gaps)
    if [tuple(t.stride()) for t in gaps] != before:
        return "a strided out= changed its strides"
    wrong = compare(op, sample, gaps, expected)
    if wrong:
        return f"strided out=: {wrong}"
    empty = [st.empty(0, dtype=ours(t.dtype)) for t in expected]
    _write_out(op, sample, empty)
    wrong = compare(op, sample, empty, expected)
    return f"empty out=: {wrong}" if wrong else None


def outcast(op: Any, sample: Any) -> Outcome:
    """``out=`` of other dtypes: the same values or the same refusal."""
    if not op.supports_out:
        return "-"
    whole = reference(op, sample)
    expected = list(tensors(whole))
    for dtype in (torch.float64, torch.int64, torch.complex128, torch.bool):
        there = [torch.empty(t.shape, dtype=dtype) for t in expected]
        given = there[0] if isinstance(whole, torch.Tensor) else tuple(there)
        refusal: type[Exception] | None = None
        try:
            seeded(op, sample.input, *sample.args, **sample.kwargs, out=given)
        except Exception as error:
            refusal = type(error)
        mine = [st.empty(tuple(t.shape), dtype=ours(dtype)) for t in expected]
        try:
            _write_out(op, sample, mine)
        except Exception as error:
            if refusal is None:
                return f"out= of {name_of(dtype)} refused: {' '.join(str(error).split())[:100]}"
            if not isinstance(error, refusal):
                return f"out= of {name_of(dtype)}: {type(error).__name__}, torch {refusal.__name__}"
            continue
        if refusal is not None:
            return f"out= of {name_of(dtype)} taken, torch raises {refusal.__name__}"
        narrow = [theirs(x).to(y.dtype) for x, y in zip(mine, expected, strict=True)]
        wrong = compare(
            op, sample, narrow, [x.to(y.dtype) for x, y in zip(there, expected, strict=True)]
        )
        if wrong:
            return f"out= of {name_of(dtype)}: {wrong}"
    return None


def view(op: Any, sample: Any) -> Outcome:
    """What is a view of the input there is one here: a write shows in the input."""
    if not isinstance(sample.input, torch.Tensor):
        return "-"
    there, here = copy_of(sample), ours(sample.input)
    result = reference(op, there)
    address = there.input.untyped_storage().data_ptr()
    views = [t.untyped_storage().data_ptr() == address for t in tensors(result)]
    if not address or not any(views):
        return "-"
    mine = seeded(find(op), here, *ours(sample.args), **ours(sample.kwargs))
    with torch.no_grad(), st.no_grad():
        for t, written in zip(tensors(result), views, strict=True):
            try:
                if written:
                    t.logical_not_() if t.dtype is torch.bool else t.add_(1)
            except RuntimeError:
                return "-"
        for t, written in zip(tensors(mine), views, strict=True):
            if written:
                t.logical_not_() if t.dtype is st.bool else t.add_(1)
    return differ(here, there.input)


def alias(op: Any, sample: Any) -> Outcome:
    """Torch's other names of the operator."""
    expected = reference(op, sample) if op.aliases else None
    for other in op.aliases:
        wrong = compare(op, sample, call_ours(named(other.name), sample), expected)
        if wrong:
            return f"{other.name}: {wrong}"
    return None if op.aliases else "-"


def operator(op: Any, sample: Any) -> Outcome:
    """The Python operators."""
    forms = [f for f in (op.operator_variant, op.inplace_operator_variant) if f is not None]
    outcome: Outcome = "-"
    for form in forms:
        copy = copy_of(sample)
        if not isinstance(copy.input, torch.Tensor) or copy.kwargs:
            continue
        try:
            expected = form(copy.input, *copy.args)
        except (RuntimeError, TypeError):
            continue
        outcome = compare(op, sample, form(ours(sample.input), *ours(sample.args)), expected)
        if outcome:
            return f"{form.__name__}: {outcome}"
    return outcome
