"""vmap over every operator gives what the operator gives for each example."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from ops.spec import kinds
from ops.spec.arguments import DTYPE, Case, T, seed_of, tensor
from ops.spec.cases import called, cases, wide_dtype
from ops.spec.compare import same
from ops.spec.entries import REFUSALS, call, is_random, tensors

import shmtensor as st
from codegen.spec.model import OperatorEntry

EXAMPLES = 3

#: The number of results' elements, or whether there is an error, depends on values.
DYNAMIC = frozenset(
    """
    _unique2 argwhere masked_select nonzero nonzero_numpy unique_consecutive unique_dim
    unique_dim_consecutive repeat_interleave.Tensor repeat_interleave.self_Tensor where allclose
    equal bincount
    """.split()
)
#: They change what a tensor is; under vmap it is one of a batch.
CHANGES_TENSOR = kinds.SETS_STORAGE | frozenset(
    "resize_ resize_as_ as_strided_ _as_strided_at_ _debug_has_internal_overlap".split()
)


#: Their derivative decides by values, or changes statistics that are being differentiated.
NO_GRADIENT_UNDER_VMAP = {
    "masked_scatter": "Attempted to vmap over `mask`",
    "index_fill.int_Tensor": "dynamic shape",
}


def _entries() -> list[OperatorEntry]:
    return [
        entry
        for entry in called()
        if not is_random(entry)
        and entry.name not in kinds.UNDEFINED
        and entry.name not in DYNAMIC
        and entry.name not in CHANGES_TENSOR
        and not any(a.is_out for a in entry.schema.arguments)
        and any(a.type.base == "Tensor" for a in entry.schema.arguments)
    ]


def _example(entry: OperatorEntry, one: Case, dtype: str, b: int) -> list[st.Tensor]:
    """The tensors of one example, in order."""
    found: list[st.Tensor] = []

    def add(a: T, i: int) -> None:
        seed = seed_of(f"{entry.name}:{b}" if b else entry.name, i)
        found.append(tensor(a.values(dtype, seed), a.dtype_for(dtype)))

    one.map(add)
    return found


def _patterns(entry: OperatorEntry, count: int) -> list[tuple[int | None, ...]]:
    """Which tensors are batched, and where: all in front, all at the end, each alone."""
    found: list[tuple[int | None, ...]] = [(0,) * count]
    if entry.name not in kinds.OF_STORAGE and entry.name not in kinds.NEEDS_STRIDES:
        found.append((-1,) * count)
    if count > 1:
        found += [tuple(0 if k == i else None for k in range(count)) for i in range(count)]
    return found


def _may_refuse(entry: OperatorEntry, text: str) -> bool:
    """What is written has no batch, or a value decides."""
    if entry.name == "_batch_norm_with_update":
        return "will be updated in place" in text or "output with shape" in text
    if entry.schema.written and "inplace arithmetic" in text:
        return True
    reads = ".item()" in text or "Cannot access data pointer" in text
    return reads and entry.name in kinds.DATA_DEPENDENT


def _call(entry: OperatorEntry, one: Case, dtype: str, given: tuple[st.Tensor, ...]) -> list[Any]:
    args, kwargs = one.map(lambda _, i: given[i])
    replaced = [getattr(st, dtype) if a is DTYPE else a for a in args]
    named = {k: getattr(st, dtype) if a is DTYPE else a for k, a in kwargs.items()}
    if entry.schema.written:
        replaced[0] = replaced[0].clone()
    return tensors(call(entry, replaced, named))


def _loop(
    entry: OperatorEntry, one: Case, dtype: str, rows: list[list[st.Tensor]], dims: tuple[Any, ...]
) -> list[st.Tensor] | None:
    """The operator for each example, stacked; None where it refuses, or gives nothing to stack."""
    results = []
    for row in rows:
        given = tuple((rows[0][i] if dims[i] is None else t).clone() for i, t in enumerate(row))
        try:
            results.append(_call(entry, one, dtype, given))
        except REFUSALS:
            return None
    try:
        return [st.stack(parts) for parts in zip(*results, strict=True)]
    except RuntimeError:
        return None


@pytest.mark.parametrize("entry", _entries(), ids=lambda e: e.name)
def test_vmap_is_a_loop_over_examples(entry: OperatorEntry) -> None:
    checked = 0
    for one in cases(entry)[:4]:
        dtype = wide_dtype(entry, one)
        rows = [_example(entry, one, dtype, b) for b in range(EXAMPLES)]
        if not rows[0]:
            continue
        for dims in _patterns(entry, len(rows[0])):
            want = _loop(entry, one, dtype, rows, dims)
            if not want:
                continue
            batched = tuple(
                parts[0].clone() if dim is None else st.stack(parts, dim)
                for parts, dim in zip(zip(*rows, strict=True), dims, strict=True)
            )
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "There is a performance drop")
                try:
                    got = st.vmap(
                        lambda *given, one=one, dtype=dtype: _call(entry, one, dtype, given),
                        in_dims=dims,
                    )(*batched)
                except RuntimeError as error:
                    if not _may_refuse(entry, str(error)):
                        raise
                    continue
            checked += 1
            if entry.name in kinds.UP_TO_PHASE:
                got, want = [t.abs() for t in got], [t.abs() for t in want]
            same(list(got), want, f"{entry.name}{one} {dims}")


def _pullback(
    entry: OperatorEntry,
    one: Case,
    dtype: str,
    given: tuple[st.Tensor, ...],
    wanted: tuple[int, ...] | None = None,
) -> list[st.Tensor]:
    """The gradients of a weighted sum of the results, for all floating arguments or *wanted*."""
    floats = [i for i, t in enumerate(given) if t.is_floating_point()] if wanted is None else wanted

    def loss(*chosen: st.Tensor) -> st.Tensor:
        tensors_given = list(given)
        for i, t in zip(floats, chosen, strict=True):
            tensors_given[i] = t
        results = _call(entry, one, dtype, tuple(tensors_given))
        weighted = [
            (t * st.arange(t.numel(), dtype=t.dtype).cos().reshape(t.shape)).sum()
            for t in results
            if t.is_floating_point()
        ]
        return sum(weighted, st.zeros((), dtype=given[floats[0]].dtype))

    return list(st.func.grad(loss, argnums=tuple(range(len(floats))))(*(given[i] for i in floats)))


@pytest.mark.parametrize(
    "entry",
    [e for e in _entries() if (e.derivatives or e.composite) and not e.schema.written],
    ids=lambda e: e.name,
)
def test_vmap_of_gradients_is_a_loop_over_examples(entry: OperatorEntry) -> None:
    for one in cases(entry)[:2]:
        if wide_dtype(entry, one) != "float64":
            continue
        rows = [_example(entry, one, "float64", b) for b in range(EXAMPLES)]
        if not any(t.is_floating_point() for t in rows[0]):
            continue
        dims = (0,) * len(rows[0])
        try:
            want = [_pullback(entry, one, "float64", tuple(row)) for row in rows]
        except REFUSALS:
            continue
        batched = tuple(st.stack(parts) for parts in zip(*rows, strict=True))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")
            try:
                got = st.vmap(
                    lambda *given, one=one: tuple(_pullback(entry, one, "float64", given)),
                    in_dims=dims,
                )(*batched)
            except RuntimeError as error:
                expected = NO_GRADIENT_UNDER_VMAP.get(entry.name)
                if not (expected and expected in str(error)) and not _may_refuse(entry, str(error)):
                    raise
                continue
        stacked = [st.stack(parts) for parts in zip(*want, strict=True)]
        same(list(got), stacked, f"gradient of {entry.name}{one}", 1e-7)


@pytest.mark.parametrize(
    "entry",
    [e for e in _entries() if (e.derivatives or e.composite) and not e.schema.written],
    ids=lambda e: e.name,
)
def test_vmap_of_gradients_beside_captured_tensors(entry: OperatorEntry) -> None:
    """One argument is an example and is differentiated; the function captures the others."""
    for one in cases(entry)[:2]:
        if wide_dtype(entry, one) != "float64":
            continue
        rows = [_example(entry, one, "float64", b) for b in range(EXAMPLES)]
        floats = [i for i, t in enumerate(rows[0]) if t.is_floating_point()]
        for i in floats if len(rows[0]) > 1 else ():

            def gradient(t: st.Tensor, i: int = i, one: Case = one, rows: Any = rows) -> st.Tensor:
                given = (*rows[0][:i], t, *rows[0][i + 1 :])
                return _pullback(entry, one, "float64", given, (i,))[0]

            try:
                want = st.stack([gradient(row[i]) for row in rows])
            except REFUSALS:
                continue
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "There is a performance drop")
                try:
                    got = st.vmap(gradient)(st.stack([row[i] for row in rows]))
                except RuntimeError as error:
                    if not _may_refuse(entry, str(error)):
                        raise
                    continue
            same([got], [want], f"gradient of {entry.name}{one} for argument {i}", 1e-7)
