"""Every operator with tensors that have no memory: the class answers, or kernels refuse."""

from __future__ import annotations

from typing import Any

import pytest
from ops.spec import kinds
from ops.spec.arguments import DTYPE, Case, T, seed_of, tensor
from ops.spec.cases import called, cases, wide_dtype
from ops.spec.compare import same
from ops.spec.entries import REFUSALS, call

import shmtensor as st
from codegen.spec.model import OperatorEntry
from shmtensor import _C
from shmtensor.utils._python_dispatch import return_and_correct_aliasing
from shmtensor.utils._pytree import tree_map

#: Their results say where memory is, or they are about storages.
OF_MEMORY = frozenset("is_set_to set_ set_.source_Storage data_ptr _local_scalar_dense".split())
#: They read indices from memory, and refuse a wrapper there.
OF_INDICES = frozenset("segment_reduce tensor_split.tensor_indices_or_sections".split())
#: The inner tensors are conj views, the wrappers are not, and `real` refuses such; as in torch.
CONJ_INSIDE = frozenset("fft_hfft fft_hfft2 fft_hfftn".split())


class Wrapper(st.Tensor):
    """A tensor without memory around another."""

    inner: st.Tensor

    @staticmethod
    def __new__(cls: type, inner: st.Tensor) -> Any:
        made = st.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*tree_map(_unwrapped, args), **tree_map(_unwrapped, kwargs or {}))
        return return_and_correct_aliasing(func, args, kwargs, tree_map(_wrapped, out))


def _unwrapped(o: Any) -> Any:
    return o.inner if isinstance(o, Wrapper) else o


def _wrapped(o: Any) -> Any:
    return Wrapper(o) if isinstance(o, st.Tensor) and o.layout is st.strided else o


def _entries() -> list[OperatorEntry]:
    return [
        entry
        for entry in called()
        if entry.name not in OF_MEMORY | OF_INDICES | kinds.UNDEFINED
        and any(a.type.base == "Tensor" for a in entry.schema.arguments)
    ]


def _given(entry: OperatorEntry, one: Case, dtype: str) -> list[st.Tensor]:
    found: list[st.Tensor] = []

    def add(a: T, i: int) -> None:
        found.append(tensor(a.values(dtype, seed_of(entry.name, i)), a.dtype_for(dtype)))

    one.map(add)
    return found


def _call(entry: OperatorEntry, one: Case, dtype: str, given: list[st.Tensor]) -> Any:
    args, kwargs = one.map(lambda _, i: given[i])
    replaced = [getattr(st, dtype) if a is DTYPE else a for a in args]
    named = {k: getattr(st, dtype) if a is DTYPE else a for k, a in kwargs.items()}
    return call(entry, replaced, named)


@pytest.mark.parametrize("entry", _entries(), ids=lambda e: e.name)
def test_a_class_that_unwraps_gives_the_same_results(entry: OperatorEntry) -> None:
    for one in cases(entry)[:2]:
        dtype = wide_dtype(entry, one)
        plain = _given(entry, one, dtype)
        if not plain or any(t.layout is not st.strided for t in plain):
            continue
        wrappers = [Wrapper(t.clone()) for t in plain]
        try:
            want = _call(entry, one, dtype, plain)
        except REFUSALS as error:
            with pytest.raises(type(error)):
                _call(entry, one, dtype, wrappers)
            continue
        got = _call(entry, one, dtype, wrappers)
        same(tree_map(_unwrapped, got), want, f"{entry.name}{one}")


@pytest.mark.parametrize("entry", _entries(), ids=lambda e: e.name)
def test_kernels_take_no_tensors_without_memory(entry: OperatorEntry) -> None:
    for one in cases(entry)[:2]:
        dtype = wide_dtype(entry, one)
        plain = _given(entry, one, dtype)
        if not plain or any(t.layout is not st.strided for t in plain):
            continue
        for which in range(len(plain) + 1):  # all, then each alone among others
            given = [Wrapper(t) if which in (0, i + 1) else t for i, t in enumerate(plain)]
            with _C._DisableTorchDispatch():
                try:
                    got = _call(entry, one, dtype, given)
                except REFUSALS:
                    continue
            for result in got if isinstance(got, (list, tuple)) else [got]:
                if isinstance(result, st.Tensor):
                    repr(result) if "NoMemory" not in _C._dispatch_keys(result) else None


@pytest.mark.parametrize(
    "entry",
    [
        e
        for e in _entries()
        if (e.derivatives or e.composite) and not e.schema.written and e.name not in CONJ_INSIDE
    ],
    ids=lambda e: e.name,
)
def test_gradients_are_those_of_the_inner_tensors(entry: OperatorEntry) -> None:
    for one in cases(entry)[:1]:
        if wide_dtype(entry, one) != "float64":
            continue
        plain = _given(entry, one, "float64")
        if any(t.layout is not st.strided for t in plain):
            continue
        floats = [i for i, t in enumerate(plain) if t.is_floating_point()]
        wrappers: list[Any] = [Wrapper(t.clone()) for t in plain]
        gradients = []
        for tensors in (plain, wrappers):
            for i in floats:
                tensors[i].requires_grad_()
            try:
                results = _call(entry, one, "float64", tensors)
                several = results if isinstance(results, (list, tuple)) else [results]
                total = sum(t.sum() for t in several if isinstance(t, st.Tensor) and t.grad_fn)
                if isinstance(total, st.Tensor):
                    total.backward()
            except REFUSALS as error:
                gradients.append(type(error))
                continue
            gradients.append([tree_map(_unwrapped, tensors[i].grad) for i in floats])
        want, got = gradients
        if isinstance(want, list):
            assert isinstance(got, list), f"{entry.name}{one}: {got}"
            same(got, want, f"gradients of {entry.name}{one}", 1e-9)
