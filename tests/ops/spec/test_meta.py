"""What Meta predicts of shape, dtype and strides is what the computation gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ops.spec import kinds, layouts
from ops.spec.arguments import Case, arguments
from ops.spec.cases import called, cases, wide_dtype
from ops.spec.compare import geometry
from ops.spec.entries import call, outs_of

import shmtensor as st
from codegen.spec.model import OperatorEntry


def _there(value: Any) -> Any:
    if isinstance(value, st.Tensor):
        return st.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
    if isinstance(value, list):
        return [_there(item) for item in value]
    return value


@pytest.mark.parametrize(
    "entry", [e for e in called() if e.name not in kinds.OF_DEVICE], ids=lambda e: e.name
)
def test_meta(entry: OperatorEntry) -> None:
    for one in cases(entry):
        dtype = wide_dtype(entry, one)
        for change in (lambda x: x, layouts.transposed, layouts.stepped):
            _check(entry, one, dtype, change)


def _check(entry: OperatorEntry, one: Case, dtype: str, change: Callable[[Any], Any]) -> None:
    args, kwargs = arguments(entry.name, one, dtype, change)
    there = [_there(a) for a in args]
    named = {key: _there(value) for key, value in kwargs.items()}
    named |= {key: value.to(device="meta") for key, value in outs_of(entry).items()}
    if not one.tensors:
        named["device"] = "meta"
    try:
        want = call(entry, args, {**kwargs, **outs_of(entry)})
    except RuntimeError:
        assert entry.name in kinds.NEEDS_STRIDES or entry.name in kinds.OF_STORAGE
        with pytest.raises(RuntimeError):
            call(entry, there, named)
        return
    try:
        got = call(entry, there, named)
    except (RuntimeError, NotImplementedError):
        if entry.name in kinds.DATA_DEPENDENT:
            return
        raise
    assert geometry(got) == geometry(want)
