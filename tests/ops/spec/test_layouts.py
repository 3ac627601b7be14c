"""Strides, stride 0, broadcasting, no elements, no dimensions: the same as dense copies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ops.spec import kinds, layouts
from ops.spec.arguments import Case, T, arguments
from ops.spec.cases import called, cases, resized, wide_dtype
from ops.spec.compare import geometry, same
from ops.spec.entries import REFUSALS, call, flat, outs_of

from codegen.spec.model import OperatorEntry


def _result(
    entry: OperatorEntry, one: Case, dtype: str, layout: Callable[[Any], Any] = lambda x: x
) -> Any:
    args, kwargs = arguments(entry.name, one, dtype, layout)
    return call(entry, args, {**kwargs, **outs_of(entry)})


def _compare(entry: OperatorEntry, got: Any, want: Any, what: str) -> None:
    if kinds.is_undefined(entry):
        shapes = [[row[:2] for row in geometry(value)] for value in (got, want)]
        assert shapes[0] == shapes[1], what
    else:
        same(got, want, what)


@pytest.mark.parametrize(
    "entry", [e for e in called() if e.name not in kinds.OF_STORAGE], ids=lambda e: e.name
)
def test_strides(entry: OperatorEntry) -> None:
    for one in cases(entry):
        if not one.tensors:
            continue
        dtype = wide_dtype(entry, one)
        want = _result(entry, one, dtype)
        for name, layout in layouts.LAYOUTS.items():
            try:
                got = _result(entry, one, dtype, layout)
            except RuntimeError:
                if entry.name in kinds.NEEDS_STRIDES:
                    continue
                raise
            _compare(entry, got, want, name)


def _written(entry: OperatorEntry) -> bool:
    return bool([a for a in entry.schema.written if not a.is_out])


@pytest.mark.parametrize(
    "entry",
    [e for e in called() if e.name not in kinds.OF_STORAGE and not _written(e)],
    ids=lambda e: e.name,
)
def test_stride_0(entry: OperatorEntry) -> None:
    for one in cases(entry):
        if not any(a.shape for a in one.tensors):
            continue
        dtype = wide_dtype(entry, one)
        try:
            want = _result(entry, one, dtype, lambda x: layouts.expanded(x).contiguous())
        except REFUSALS:  # equal rows may be no argument of it, as a singular matrix
            continue
        try:
            got = _result(entry, one, dtype, layouts.expanded)
        except RuntimeError:
            if entry.name in kinds.NEEDS_STRIDES:
                continue
            raise
        _compare(entry, got, want, "stride 0")


POINTWISE = [e for e in called() if any(c.pointwise for c in cases(e))]
SMALLER: dict[str, Callable[[tuple[int, ...]], tuple[int, ...]]] = {
    "columns": lambda s: (*s[:-1], 1),
    "rows": lambda s: (1, *s[1:]),
    "fewer": lambda s: s[1:],
    "one": lambda s: (),
    "more": lambda s: (2, *s),
}


@pytest.mark.parametrize("entry", POINTWISE, ids=lambda e: e.name)
def test_broadcasting(entry: OperatorEntry) -> None:
    for one in (c for c in cases(entry) if c.pointwise):
        dtype = wide_dtype(entry, one)
        shape = one.tensors[0].shape
        for what, smaller in SMALLER.items():
            for k in range(len(one.tensors)):
                if k == 0 and _written(entry) and what != "one":
                    continue
                _check_broadcast(entry, one, dtype, k, smaller(shape), what)


def _check_broadcast(
    entry: OperatorEntry, one: Case, dtype: str, k: int, shape: tuple[int, ...], what: str
) -> None:
    def shrink(a: T, i: int) -> T:
        return replace(a, shape=shape) if i == k else a

    small = one.reshaped(shrink)
    full = np.broadcast_shapes(*(a.shape for a in small.tensors))
    if _written(entry) and full != small.tensors[0].shape:
        with pytest.raises(RuntimeError):
            _result(entry, small, dtype)
        return
    want = _result(entry, small, dtype, lambda x: x.expand(full).contiguous())
    got = _result(entry, small, dtype)
    if _written(entry) or not shape:
        # A tensor without dimensions does not decide the dtype, so only shape and values are alike.
        assert [tuple(t.shape) for t in flat(got)] == [tuple(t.shape) for t in flat(want)]
        return
    same(got, want, f"{what}, argument {k}")


@pytest.mark.parametrize("entry", POINTWISE, ids=lambda e: e.name)
def test_no_elements_and_no_dimensions(entry: OperatorEntry) -> None:
    for one in (c for c in cases(entry) if c.pointwise):
        dtype = wide_dtype(entry, one)
        for shape in ((), (0,), (2, 0), (0, 3), (1,)):
            got = _result(entry, resized(one, shape), dtype)
            assert all(tuple(t.shape) == shape for t in flat(got)), shape
        (whole,), (single,) = (
            flat(_result(entry, one, dtype)),
            flat(_result(entry, resized(one, ()), dtype)),
        )
        assert whole.dtype is single.dtype


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("entry", called(), ids=lambda e: e.name)
def test_small_shapes_work_or_are_refused(entry: OperatorEntry) -> None:
    for one in cases(entry):
        if not one.tensors:
            continue
        dtype = wide_dtype(entry, one)
        largest = max((a.shape for a in one.tensors), key=len)
        shapes = [(0, *largest[1:]), (*largest[:-1], 0), (0,) * len(largest), (), (0,), (1,)]
        for shape in shapes:
            for small in (resized(one, shape), _each_resized(one, shape)):
                with contextlib.suppress(*REFUSALS):
                    _result(entry, small, dtype)


def _each_resized(one: Case, shape: tuple[int, ...]) -> Case:
    first = True

    def change(a: T, _: int) -> T:
        nonlocal first
        if not first or a.given is not None:
            return a
        first = False
        return replace(a, shape=shape)

    return one.reshaped(change)
