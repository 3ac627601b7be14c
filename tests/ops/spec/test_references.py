"""The results of every entry against NumPy, SciPy or a short definition.

What torch gives is compared in ``test_torch.py``, narrow dtypes with double precision in
``test_dtypes.py``, the distributions of random operators in ``tests/ops/random/test_random.py``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ops.spec import kinds
from ops.spec.arguments import DTYPE, Case, T, arguments, seed_of
from ops.spec.cases import called, cases
from ops.spec.compare import EPSILON, MOVES, TOLERANCE, array, close, condition, nudged
from ops.spec.entries import REFUSALS, call, flat, outs_of
from ops.spec.references import PROPERTIES, REFERENCES, key_in

from codegen.spec.model import OperatorEntry

#: The dtypes tested, and that which the reference calculates in.
WIDE = {
    "float64": "float64",
    "float32": "float64",
    "complex128": "complex128",
    "int64": "int64",
    "bool": "bool",
}


def _inputs(
    entry: OperatorEntry, one: Case, dtype: str, move: int = 0
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with arrays; float32 as float64, unless the check depends on the dtype.

    With *move*, the values are off by a rounding of *dtype*, in directions that it chooses.
    """
    kept = entry.name in kinds.OF_PRECISION or key_in(PROPERTIES, entry)
    wide = dtype if kept else WIDE[dtype]

    def make(a: T, i: int) -> Any:
        values = a.values(dtype, seed_of(entry.name, i))
        values = values.astype(wide) if values.dtype == dtype else values
        return nudged(values, a.dtype_for(dtype), move + i) if move else values

    args, kwargs = one.map(make)
    return (
        [wide if a is DTYPE else a for a in args],
        {key: wide if a is DTYPE else a for key, a in kwargs.items()},
    )


def _result(entry: OperatorEntry, one: Case, dtype: str) -> Any:
    """The results as arrays, or None when the dtype is refused."""
    args, kwargs = arguments(entry.name, one, dtype)
    try:
        return [array(x) for x in flat(call(entry, args, {**kwargs, **outs_of(entry)}))]
    except REFUSALS:
        return None


def _compare(
    entry: OperatorEntry, got: list[np.ndarray], of: Callable[[int], list[Any]], dtype: str
) -> None:
    """Compare with the reference, *of* arguments that are moved, as 0 says not at all."""
    want = of(0)
    assert len(got) == len(want), f"{len(got)} results, expected {len(want)}"
    each_is_its_own = dtype in EPSILON and entry.name not in kinds.MIXES | kinds.REFERENCE_ROUNDS
    moved = [of(move) for move in MOVES if each_is_its_own]
    for number, (x, y) in enumerate(zip(got, want, strict=True)):
        expected = np.asarray(y)
        if x.dtype.kind not in "c" and expected.dtype.kind == "c":
            raise AssertionError(f"result {number}: {x.dtype}, expected {expected.dtype}")
        kept = str(x.dtype)
        allowed = max(TOLERANCE.get(kept, 0.0), TOLERANCE.get(dtype, 0.0))
        each = None
        if each_is_its_own and x.dtype.kind in "fc":
            coarse = max(kept, dtype, key=lambda d: EPSILON.get(d, 0.0))
            each = condition(expected, [np.asarray(m[number]) for m in moved], coarse)
        close(x, expected, 0.0 if x.dtype.kind in "biu" else allowed, f"result {number}", each)


def _check(entry: OperatorEntry, one: Case, dtype: str) -> bool:
    got = _result(entry, one, dtype)
    if got is None:
        return False
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        name = key_in(PROPERTIES, entry)
        if name is not None:
            args, kwargs = _inputs(entry, one, dtype)
            PROPERTIES[name](got, *args, **kwargs)
            return True
        name = key_in(REFERENCES, entry)
        assert name is not None

        def reference(move: int) -> list[Any]:
            args, kwargs = _inputs(entry, one, dtype, move)
            return flat(REFERENCES[name](*args, **kwargs))

        _compare(entry, got, reference, dtype)
    return True


@pytest.mark.parametrize(
    "entry",
    [e for e in called() if key_in(REFERENCES, e) or key_in(PROPERTIES, e)],
    ids=lambda e: e.name,
)
def test_reference(entry: OperatorEntry) -> None:
    for number, one in enumerate(cases(entry)):
        worked = []
        for dtype in WIDE:
            if worked and not entry.variants and dtype in ("int64", "bool"):
                continue  # what only other operators call meets no such values
            try:
                if _check(entry, one, dtype):
                    worked.append(dtype)
            except AssertionError as error:
                raise AssertionError(f"{entry.name}, case {number}, {dtype}: {error}") from None
        assert worked, f"case {number}: no dtype works"
