"""Every operator against torch, where that is installed: values, shapes, dtypes, strides, errors.

The operators of torch are those of the same names in ``torch.ops.aten``. Without torch nothing of
this runs; ``test_references.py`` does.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from ops.spec import kinds, kinds_torch
from ops.spec.arguments import DTYPE, DTYPES, STORAGE, Case, T, arguments, seed_of
from ops.spec.cases import called, cases
from ops.spec.compare import TOLERANCE, array, close, geometry, name_of
from ops.spec.entries import REFUSALS, call, flat, form, outs_of

import shmtensor as st
from codegen.spec.model import Operator, OperatorEntry

torch = pytest.importorskip("torch")

#: What either library may raise.
ERRORS = (*REFUSALS, OverflowError, AssertionError)


def _theirs(operator: Operator | OperatorEntry) -> Any:
    """The operator of torch, or None."""
    packet = getattr(torch.ops.aten, operator.schema.name, None)
    return None if packet is None else getattr(packet, operator.schema.overload or "default", None)


def _array_of(value: Any) -> np.ndarray:
    """A tensor of torch or a number as NumPy has it; bfloat16 as float32."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    if value.dtype == torch.bfloat16:
        value = value.to(torch.float32)
    if value.dtype == torch.complex32:
        value = value.to(torch.complex64)
    return np.array(value.detach().resolve_conj().resolve_neg().numpy())


def _geometry_of(value: Any) -> list[tuple[Any, ...]]:
    """As ``compare.geometry``, of results of torch."""
    found: list[tuple[Any, ...]] = []
    for item in flat(value):
        if isinstance(item, torch.Tensor):
            few = item.numel() == 0
            pairs = zip(item.shape, item.stride(), strict=True)
            strides = tuple(0 if n < 2 or few else s for n, s in pairs)
            found.append((tuple(item.shape), name_of(item.dtype), strides))
        else:
            found.append((type(item),))
    return found


def _tensor(values: np.ndarray, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # complex32 is experimental
        return torch.from_numpy(np.array(values, order="C")).clone().to(getattr(torch, name))


def _translated(value: Any, dtype: str) -> Any:
    """An argument that is no tensor, as torch has it."""
    if value is DTYPE:
        return getattr(torch, dtype)
    if value is STORAGE:
        return torch.zeros(256, dtype=torch.uint8).untyped_storage()
    if isinstance(value, st.dtype | st.memory_format):
        return getattr(torch, name_of(value))
    return torch.device(value.type) if isinstance(value, st.device) else value


def _inputs(entry: OperatorEntry, one: Case, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    def make(a: T, i: int) -> Any:
        return _tensor(a.values(dtype, seed_of(entry.name, i)), a.dtype_for(dtype))

    args, kwargs = one.map(make)
    args = [_translated(a, dtype) for a in args]
    schema = _theirs(entry)._schema.arguments
    return (
        [_fitting(a, str(b.type)) for a, b in zip(args, schema, strict=False)],
        {key: _translated(a, dtype) for key, a in kwargs.items()},
    )


def _fitting(value: Any, kind: str) -> Any:
    """An argument as torch's schema has it, which has a list where ours takes one number too."""
    if kind.startswith("List[int]") and isinstance(value, int):
        return [value]
    return [bool(x) for x in value] if kind == "List[bool]" else value


def _run(function: Any, *args: Any, **kwargs: Any) -> Any:
    """What a call gives, or the exception that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs)
        except ERRORS as error:
            return error


def _values(entry: OperatorEntry, got: Any, want: Any, dtype: str) -> None:
    for number, (x, y) in enumerate(zip(flat(got), flat(want), strict=True)):
        a, b = array(x), _array_of(y)
        if entry.name in kinds.UP_TO_PHASE:
            a, b = np.abs(a), np.abs(b)
        kept = name_of(x.dtype) if isinstance(x, st.Tensor) else dtype
        allowed = max(TOLERANCE.get(kept, 0.0), TOLERANCE.get(dtype, 0.0))
        close(a, b, 0.0 if a.dtype.kind in "biu" else allowed, f"result {number}")


def _same_refusal(got: Any, want: Any, dtype: str) -> bool:
    """Do both raise the same, or is it only that torch has no kernel for the dtype?"""
    if isinstance(want, ERRORS) and isinstance(got, type(want)):
        return True
    if not (isinstance(want, NotImplementedError) and "not implemented for" in str(want)):
        return False
    return isinstance(got, RuntimeError) or dtype in kinds_torch.FEW_KERNELS


def _difference(entry: OperatorEntry, got: Any, want: Any, dtype: str) -> str:
    """What is different, or nothing."""
    if isinstance(want, ERRORS) or isinstance(got, ERRORS):
        if _same_refusal(got, want, dtype):
            return ""
        mine, theirs = (
            f"{type(r).__name__}: {str(r)[:150]}" if isinstance(r, ERRORS) else "a result"
            for r in (got, want)
        )
        return f"{mine}; torch: {theirs}"
    mine, theirs = geometry(got), _geometry_of(want)
    if mine != theirs:
        return f"{mine}; torch: {theirs}"
    if not kinds.is_undefined(entry):
        try:
            _values(entry, got, want, dtype)
        except AssertionError as error:
            return " ".join(str(error).split())[:300]
    return ""


def _is_tested(entry: OperatorEntry) -> bool:
    other = kinds_torch.OTHER_ARGUMENTS | kinds_torch.OWN_VALUES
    return _theirs(entry) is not None and entry.name not in other


TESTED = [entry for entry in called() if _is_tested(entry)]


@pytest.mark.check
def test_lists_name_entries() -> None:
    known = {entry.name for entry in called()}
    for name, value in vars(kinds_torch).items():
        if name.isupper() and not name.startswith("_") and name != "FEW_KERNELS":
            assert set(value) <= known, f"{name}: {sorted(set(value) - known)}"


def test_every_public_operator_is_in_torch() -> None:
    missing = {entry.name for entry in called() if entry.variants and _theirs(entry) is None}
    assert missing == kinds_torch.NOT_IN_TORCH


def _report(name: str, found: list[str], listed: frozenset[str]) -> None:
    """Raise when an operator differs and is not listed, or is listed and does not differ."""
    if name in listed:
        assert found, f"{name} differs no longer: it may be taken from the list"
    else:
        assert not found, "\n".join(found)


@pytest.mark.parametrize("entry", TESTED, ids=lambda e: e.name)
def test_torch_gives_the_same(entry: OperatorEntry) -> None:
    listed = kinds_torch.RESULTS.get(entry.name, ())
    found: list[str] = []
    excused: set[str] = set()
    for number, one in enumerate(cases(entry)):
        for dtype in DTYPES:
            mine = arguments(entry.name, one, dtype)
            theirs = _inputs(entry, one, dtype)
            outs = {
                name: torch.empty(0, dtype=getattr(torch, name_of(out.dtype)))
                for name, out in outs_of(entry).items()
            }
            want = _run(_theirs(entry), *theirs[0], **theirs[1], **outs)
            got = _run(call, entry, mine[0], {**mine[1], **outs_of(entry)})
            what = _difference(entry, got, want, dtype)
            if what and dtype in listed:
                excused.add(dtype)
            elif what:
                found.append(f"case {number}, {dtype}: {what}")
    assert not found, "\n".join(found)
    assert excused == set(listed), f"{entry.name} differs only in {sorted(excused)}"


#: Dtypes that the forms are called with: the forms calculate nothing themselves.
SOME = ("bool", "int64", "float16", "float32", "complex64")


PROMOTED = ("bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


def _form_of_both(entry: OperatorEntry, name: str) -> tuple[Operator, Any] | None:
    operator = form(entry, name)
    theirs = None if operator is None else _theirs(operator)
    return None if operator is None or theirs is None else (operator, theirs)


INPLACE = [e for e in TESTED if _form_of_both(e, "inplace")]


@pytest.mark.parametrize("entry", INPLACE, ids=lambda e: e.name)
def test_torch_in_place(entry: OperatorEntry) -> None:
    operator, theirs = _form_of_both(entry, "inplace") or pytest.fail("no such form")
    found = []
    for number, one in enumerate(cases(entry)):
        for dtype in SOME:
            mine, other = arguments(entry.name, one, dtype), _inputs(entry, one, dtype)
            want = _run(theirs, *other[0], **other[1])
            got = _run(call, operator, *mine)
            what = _difference(entry, got, want, dtype)
            if what:
                found.append(f"case {number}, {dtype}: {what}")
    _report(entry.name, found, kinds_torch.IN_PLACE)


def _without_dtype(entry: OperatorEntry) -> list[Case]:
    """The cases without the dtype, which the output says."""
    return [
        replace(one, kwargs={key: a for key, a in one.kwargs.items() if key != "dtype"})
        for one in cases(entry)
    ]


OUT = [e for e in TESTED if _form_of_both(e, "out")]


@pytest.mark.parametrize("entry", OUT, ids=lambda e: e.name)
def test_torch_out(entry: OperatorEntry) -> None:
    operator, _ = _form_of_both(entry, "out") or pytest.fail("no such form")
    theirs = getattr(torch.ops.aten, entry.schema.name)  # it chooses the overload, as functions do
    names = [a.name for a in operator.schema.arguments if a.is_out]
    found = []
    for number, one in enumerate(_without_dtype(entry)):
        for dtype in SOME:
            for to in SOME:
                mine, other = arguments(entry.name, one, dtype), _inputs(entry, one, dtype)
                outs = [torch.empty(0, dtype=getattr(torch, to)) for _ in names]
                want = _run(theirs, *other[0], **other[1], **dict(zip(names, outs, strict=True)))
                own = [st.empty(0, dtype=getattr(st, to)) for _ in names]
                given = {"out": own[0] if len(own) == 1 else tuple(own)}
                got = _run(call, operator, mine[0], {**mine[1], **given})
                what = _difference(entry, got, want, dtype)
                if what:
                    found.append(f"case {number}, {dtype} to {to}: {what}")
    _report(entry.name, found, kinds_torch.OUT)


def _mixed(one: Case, dtypes: tuple[str, str], alone: bool) -> Case:
    """The case with tensors of two dtypes, those of the second without dims when *alone*."""

    def change(a: T, i: int) -> T:
        if a.dtype:
            return a
        return replace(a, dtype=dtypes[i % 2], shape=() if alone and i % 2 else a.shape)

    return one.reshaped(change)


MIXED = [e for e in TESTED if any(c.pointwise for c in cases(e))]


@pytest.mark.parametrize("entry", MIXED, ids=lambda e: e.name)
def test_torch_promotes_the_same(entry: OperatorEntry) -> None:
    one = next(c for c in cases(entry) if c.pointwise)
    found = []
    for first, second in itertools.product(PROMOTED, repeat=2):
        for alone in (False, True):
            case = _mixed(one, (first, second), alone)
            mine, other = arguments(entry.name, case, first), _inputs(entry, case, first)
            outs = {a.name: torch.empty(0) for a in entry.schema.arguments if a.is_out}
            want = _run(_theirs(entry), *other[0], **other[1], **outs)
            got = _run(call, entry, mine[0], {**mine[1], **outs_of(entry)})
            narrow = min(first, second, key=lambda d: -TOLERANCE.get(d, 0.0))
            what = _difference(entry, got, want, narrow)
            if what:
                found.append(f"{first}, {second}{' alone' * alone}: {what}")
    _report(entry.name, found, kinds_torch.PROMOTION)
