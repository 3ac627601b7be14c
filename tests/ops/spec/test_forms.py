"""out= and in-place forms, functions and methods: the same as the functional operator."""

from __future__ import annotations

from typing import Any

import pytest
from ops.spec import kinds
from ops.spec.arguments import Case, arguments
from ops.spec.cases import called, cases, wide_dtype
from ops.spec.compare import geometry, same
from ops.spec.entries import REFUSALS, call, flat, form, outs_of, tensors

import shmtensor as st
from codegen.spec.model import Operator, OperatorEntry


def _inputs(entry: OperatorEntry, one: Case) -> tuple[list[Any], dict[str, Any]]:
    return arguments(entry.name, one, wide_dtype(entry, one))


def _named(operator: Operator, outs: list[Any]) -> dict[str, Any]:
    assert len(outs) == sum(a.is_out for a in operator.schema.arguments)
    return {"out": outs[0] if len(outs) == 1 else tuple(outs)}


def _check(entry: OperatorEntry, got: Any, want: Any, what: str) -> None:
    if kinds.is_undefined(entry):
        shapes = [[row[:2] for row in geometry(value)] for value in (got, want)]
        assert shapes[0] == shapes[1], what
    else:
        same(got, want, what)


OUT = [e for e in called() if form(e, "out") is not None]


def _for_out(entry: OperatorEntry) -> list[Case]:
    factories = [c for c in cases(entry) if "dtype" not in c.kwargs]
    return factories or [
        Case(c.args, {k: v for k, v in c.kwargs.items() if k != "dtype"}) for c in cases(entry)
    ]


@pytest.mark.parametrize("entry", OUT, ids=lambda e: e.name)
def test_out(entry: OperatorEntry) -> None:
    operator = form(entry, "out")
    assert operator is not None
    for one in _for_out(entry):
        args, kwargs = _inputs(entry, one)
        want = tensors(call(entry, args, kwargs))
        fitting = [st.empty(t.shape, dtype=t.dtype) for t in want]
        empty = [st.empty(0, dtype=t.dtype) for t in want]
        strided = [st.empty((*t.shape, 2), dtype=t.dtype)[..., 0] for t in want]
        for what, outs in (("fitting", fitting), ("empty", empty), ("strided", strided)):
            args, kwargs = _inputs(entry, one)
            got = call(operator, args, {**kwargs, **_named(operator, outs)})
            assert all(a is b for a, b in zip(flat(got), outs, strict=True)), what
            _check(entry, outs, want, what)
            if what == "strided":
                strides = [t.stride() for t in outs if t.numel() > 1]
                assert strides == [
                    st.empty((*t.shape, 2))[..., 0].stride() for t in want if t.numel() > 1
                ]


@pytest.mark.parametrize("entry", OUT, ids=lambda e: e.name)
def test_out_of_another_dtype(entry: OperatorEntry) -> None:
    operator = form(entry, "out")
    assert operator is not None
    for one in _for_out(entry)[:1]:
        args, kwargs = _inputs(entry, one)
        want = tensors(call(entry, args, kwargs))
        if not any(t.is_floating_point() or t.is_complex() for t in want):
            continue
        if entry.name in kinds.TAKES_ANY_OUT:
            continue
        outs = [
            st.empty(t.shape, dtype=st.int64 if t.is_floating_point() else t.dtype) for t in want
        ]
        if all(a.dtype is b.dtype for a, b in zip(outs, want, strict=True)):
            outs = [st.empty(t.shape, dtype=st.float32) for t in want]
        with pytest.raises(REFUSALS):
            call(operator, args, {**kwargs, **_named(operator, outs)})


INPLACE = [e for e in called() if form(e, "inplace") is not None]


def _fits(result: Any, self: Any) -> bool:
    return result.shape == self.shape and st.can_cast(result.dtype, self.dtype)


@pytest.mark.parametrize("entry", INPLACE, ids=lambda e: e.name)
def test_inplace(entry: OperatorEntry) -> None:
    operator = form(entry, "inplace")
    assert operator is not None
    for one in cases(entry):
        args, kwargs = _inputs(entry, one)
        want = call(entry, args, kwargs)
        self = args[0]
        if not isinstance(self, st.Tensor):
            continue
        if not _fits(want, self):
            with pytest.raises(REFUSALS):
                call(operator, args, kwargs)
            continue
        version = self._version
        got = call(operator, args, kwargs)
        assert got is self
        assert self._version > version
        _check(entry, self, want.to(self.dtype), "dense")
        args, kwargs = _inputs(entry, one)
        args[0] = st.empty((*args[0].shape, 2), dtype=args[0].dtype)[..., 1].copy_(args[0])
        assert call(operator, args, kwargs) is args[0]
        _check(entry, args[0], want.to(self.dtype), "strided")
        args, kwargs = _inputs(entry, one)
        if args[0].dim() and args[0].shape[0] > 1:
            if entry.name in kinds.WRITES_EXPANDED:
                continue
            args[0] = args[0][:1].expand(args[0].shape)
            with pytest.raises(RuntimeError, match="memory location"):
                call(operator, args, kwargs)


def _callables_of(entry: OperatorEntry) -> list[tuple[str, Any]]:
    name = entry.schema.name
    found: list[tuple[str, Any]] = []
    if "function" in entry.variants:
        found.append(("function", getattr(st._C, name, None) or getattr(st, name)))
    if "nn" in entry.variants:
        found.append(("nn", getattr(st._C._nn, name)))
    if "method" in entry.variants:
        found.append(("method", getattr(st.Tensor, name)))
    return found


@pytest.mark.parametrize(
    "entry",
    [e for e in called() if set(e.variants) & {"function", "method", "nn"}],
    ids=lambda e: e.name,
)
def test_functions_and_methods(entry: OperatorEntry) -> None:
    for one in cases(entry):
        args, kwargs = _inputs(entry, one)
        outs = outs_of(entry)
        want = call(entry, args, {**kwargs, **outs})
        for what, function in _callables_of(entry):
            args, kwargs = _inputs(entry, one)
            outs = outs_of(entry)
            if what == "method":
                at = next(
                    i for i, a in enumerate(entry.schema.arguments) if a.name in ("self", "input")
                )
                args.insert(0, args.pop(at))
            st.manual_seed(0)
            _check(entry, function(*args, **kwargs, **outs), want, what)
