"""Every dtype an entry declares works and gives what a wider one gives; every other is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ops.spec import kinds
from ops.spec.arguments import (
    COMPLEX,
    DTYPES,
    FLOATS,
    Case,
    T,
    arguments,
    seed_of,
    tensor,
)
from ops.spec.cases import called, cases
from ops.spec.compare import TOLERANCE, array, close, name_of
from ops.spec.entries import REFUSALS, call, flat, outs_of

import shmtensor as st
from codegen.spec.model import OperatorEntry

WIDE = {**dict.fromkeys(FLOATS, "float64"), **dict.fromkeys(COMPLEX, "complex128")}


def outcome(entry: OperatorEntry, one: Case, dtype: str) -> Any:
    """The result, or None when the dtype is refused."""
    args, kwargs = arguments(entry.name, one, dtype)
    try:
        return call(entry, args, {**kwargs, **outs_of(entry)})
    except REFUSALS:
        return None


def in_wide(entry: OperatorEntry, one: Case, dtype: str) -> Any:
    """The result on the same values in double precision."""
    wide = WIDE[dtype]

    def widen(a: T, i: int) -> Any:
        values = a.values(dtype, seed_of(entry.name, i))
        return tensor(values, a.dtype_for(wide))

    args, kwargs = one.map(widen)
    given, named = arguments(entry.name, Case(tuple(args), kwargs), wide)
    try:
        return call(entry, given, {**named, **outs_of(entry)})
    except REFUSALS:
        return None


def declared(entry: OperatorEntry, dtype: str) -> bool:
    """Does the entry's ``dtypes`` hold what *dtype* is calculated in?"""
    if entry.promote == "int_to_float" and dtype not in WIDE:
        dtype = "float32"
    if entry.promote == "bool_to_int" and dtype == "bool":
        dtype = "int64"
    return dtype in entry.dtypes


def _compare(entry: OperatorEntry, got: Any, want: Any, dtype: str) -> None:
    for x, y in zip(flat(got), flat(want), strict=True):
        a, b = array(x), array(y)
        if entry.name in kinds.UP_TO_PHASE:
            a, b = np.abs(a), np.abs(b)
        kept = name_of(x.dtype) if isinstance(x, st.Tensor) else dtype
        tolerance = max(TOLERANCE.get(kept, 0.0), TOLERANCE[dtype])
        close(a, b, 0.0 if a.dtype.kind in "biu" else tolerance, f"{entry.name} {dtype}")


@pytest.mark.parametrize("entry", called(), ids=lambda e: e.name)
def test_dtypes(entry: OperatorEntry) -> None:
    for number, one in enumerate(cases(entry)):
        worked = []
        for dtype in DTYPES:
            got = outcome(entry, one, dtype)
            if got is None:
                continue
            worked.append(dtype)
            if dtype not in WIDE or kinds.is_undefined(entry) or entry.name in kinds.OF_PRECISION:
                continue
            want = in_wide(entry, one, dtype)
            if want is not None:
                _compare(entry, got, want, dtype)
        assert worked, f"case {number}: no dtype works"
        under_test = any(not a.dtype for a in one.tensors)
        if entry.kernel is not None and under_test and number == 0:
            expected = [d for d in DTYPES if declared(entry, d)]
            assert worked == expected
