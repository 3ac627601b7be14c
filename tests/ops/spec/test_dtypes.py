"""Every entry takes the dtypes that ``dtypes.txt`` says, and gives what a wider one gives.

Everything else is refused, with one exception and one text for each reason. ``accepted.py`` says
how the two tables are read and written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops.spec import accepted, kinds
from ops.spec.accepted import Observed, every_case, known_refusals, lines_of, observed, table
from ops.spec.arguments import COMPLEX, FLOATS, INTEGERS, Case, T, arguments, seed_of, tensor
from ops.spec.cases import called
from ops.spec.compare import EPSILON, MOVES, TOLERANCE, array, close, condition, name_of, nudged
from ops.spec.entries import REFUSALS, call, flat, outs_of

import shmtensor as st
from codegen.spec.model import OperatorEntry

#: The dtype that calculates the same values to compare with.
WIDE = {
    **dict.fromkeys(FLOATS, "float64"),
    **dict.fromkeys(COMPLEX, "complex128"),
    **dict.fromkeys(INTEGERS, "int64"),
}
EVERY = every_case()
CALLED = frozenset(entry.name for entry in called())


def in_wide(entry: OperatorEntry, one: Case, dtype: str, move: int = 0) -> Any:
    """The result on the same values in the wide dtype, or None when that is refused.

    With *move*, the values are off by a rounding of *dtype*, in directions that it chooses.
    """
    wide = WIDE[dtype]

    def widen(a: T, i: int) -> Any:
        values = a.values(dtype, seed_of(entry.name, i))
        if move:
            values = nudged(values.astype(a.dtype_for(wide)), a.dtype_for(dtype), move + i)
        return tensor(values, a.dtype_for(wide))

    args, kwargs = one.map(widen)
    given, named = arguments(entry.name, Case(tuple(args), kwargs), wide)
    try:
        return call(entry, given, {**named, **outs_of(entry)})
    except REFUSALS:
        return None


def _has_wide(entry: OperatorEntry, one: Case, dtype: str) -> bool:
    """Does the wide dtype hold all values of *dtype*?"""
    if dtype.startswith("u") and entry.name in kinds.WRAPS:
        return False
    seeds = [seed_of(entry.name, i) for i in range(len(one.tensors))]
    values = [a.values(dtype, seed) for a, seed in zip(one.tensors, seeds, strict=True)]
    return dtype != "uint64" or all(v.max(initial=0) < 2**63 for v in values if v.dtype == dtype)


def _compare(entry: OperatorEntry, one: Case, seen: Observed, dtype: str) -> None:
    want = in_wide(entry, one, dtype) if _has_wide(entry, one, dtype) else None
    if want is None:
        return
    moved = [flat(in_wide(entry, one, dtype, move)) for move in MOVES if dtype in EPSILON]
    for k, (x, y) in enumerate(zip(flat(seen.values[dtype]), flat(want), strict=True)):
        a, b, *others = (array(v) for v in (x, y, *(m[k] for m in moved)))
        if entry.name in kinds.UP_TO_PHASE:
            a, b, *others = (np.abs(v) for v in (a, b, *others))
        what = f"{entry.name} {dtype}"
        if a.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b.astype(a.dtype), err_msg=what)
            continue
        kept = name_of(x.dtype) if isinstance(x, st.Tensor) else dtype
        coarse = max(kept, dtype, key=lambda d: EPSILON.get(d, 0.0))
        each = None if entry.name in kinds.MIXES else condition(b, others, coarse)
        close(a, b, max(TOLERANCE.get(d, 0.0) for d in (kept, dtype)), what, each)


def _is_compared(entry: OperatorEntry) -> bool:
    return (
        entry.name in CALLED
        and not kinds.is_undefined(entry)
        and entry.name not in kinds.OF_PRECISION
    )


@pytest.mark.parametrize(("entry", "of"), EVERY, ids=[entry.name for entry, _ in EVERY])
def test_dtypes(entry: OperatorEntry, of: list[Case]) -> None:
    seen = observed(entry, of)
    assert sorted(lines_of(entry, of, seen)) == table()[entry.name]
    refused = set().union(*map(accepted.refusals, seen))
    assert refused <= set(known_refusals())
    assert {text for text, name in known_refusals().items() if name == entry.name} <= refused
    if _is_compared(entry):
        for one, found in zip(of, seen, strict=True):
            for dtype in sorted(accepted.taken(found.together) & set(WIDE)):
                _compare(entry, one, found, dtype)


@pytest.mark.check
def test_tables_name_the_entries_of_the_specification() -> None:
    assert set(table()) == {entry.name for entry, _ in EVERY}


@pytest.mark.check
def test_declared_dtypes_are_those_that_work() -> None:
    for entry, of in EVERY:
        if entry.kernel is not None and any(map(accepted.depends, of)):
            assert table()[entry.name][0].startswith(f"{entry.name}: declared"), entry.name


@pytest.mark.check
def test_only_a_missing_kernel_is_not_implemented() -> None:
    """Besides, torch says so of clamp, and an operator that only refuses."""
    others = {line for line in known_refusals() if line.startswith("NotImplementedError")}
    assert others == {
        "NotImplementedError: \"{kernel}\" not implemented for '{dtype}'",
        "NotImplementedError: clamp is not supported for complex types",
        "NotImplementedError: the derivative for 'geqrf' is not implemented.",
    }


@pytest.mark.check
def test_one_text_has_one_exception() -> None:
    texts = [line.partition(": ")[2] for line in known_refusals()]
    assert len(texts) == len(set(texts))


@pytest.mark.parametrize(
    ("text", "dtypes"),
    [
        ("floating -float16", {"bfloat16", "float32", "float64"}),
        ("complex complex32", {"complex32", "complex64", "complex128"}),
        ("int32 int64", {"int32", "int64"}),
    ],
)
def test_sets_are_read_as_written(text: str, dtypes: set[str]) -> None:
    assert accepted.read_set(text) == dtypes
    assert accepted.written(frozenset(dtypes)) == text
